"""The rest of transports and servers: parameters that no other test passes."""

import asyncio
import contextlib
import errno
import socket
import sys
from pathlib import Path

import pytest

from tests.transports.datagram_support import ANY_PORT, DatagramRecorder, endpoint
from tests.transports.pipe_support import made, pipe_pair
from tests.transports.recorder import Recorder

Loop = asyncio.AbstractEventLoop


@pytest.mark.covers("DatagramTransport.set_write_buffer_limits(high, low)", "DatagramTransport.get_write_buffer_limits")
async def test_both_marks_of_a_datagram_transport_can_be_set() -> None:
    async with endpoint(DatagramRecorder(), ANY_PORT) as transport:
        transport.set_write_buffer_limits(high=1000, low=10)
        assert transport.get_write_buffer_limits() == (10, 1000)
        transport.set_write_buffer_limits(low=10)
        assert transport.get_write_buffer_limits() == (10, 40)
        with pytest.raises(ValueError, match="must be >= low"):
            transport.set_write_buffer_limits(high=5, low=10)


@pytest.mark.covers(
    "WritePipeTransport.get_extra_info(default)", "WritePipeTransport.set_protocol", "WritePipeTransport.get_protocol"
)
async def test_a_new_protocol_is_notified_of_the_end_of_a_pipe(loop: Loop) -> None:
    with made(pipe_pair) as (_, writing):
        transport, first = await loop.connect_write_pipe(Recorder, writing)
        assert transport.get_extra_info("nothing", 5) == 5
        second = Recorder()
        transport.set_protocol(second)
        assert transport.get_protocol() is second
        transport.close()
        await second.seen("lost")
        assert first.kinds() == ["made"]


@pytest.mark.covers("EventLoop.create_unix_server(path, backlog)")
@pytest.mark.skipif(sys.platform != "linux", reason="what a full listener answers is Linux's")
def test_the_backlog_of_a_unix_server_is_what_the_kernel_keeps_waiting(loop: Loop, tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    server = loop.run_until_complete(loop.create_unix_server(asyncio.Protocol, path, backlog=2))
    with contextlib.ExitStack() as stack:
        answers = []
        for _ in range(5):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            answers.append(client.connect_ex(path))
        assert answers == [0, 0, 0, errno.EAGAIN, errno.EAGAIN]  # unix(7) takes one more than listen(2) was told
        server.close()
        loop.run_until_complete(server.wait_closed())
