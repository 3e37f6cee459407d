"""connect_read_pipe: what its protocol is told, and in whose hands the file is."""

import asyncio
import errno
import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.transports.pipe_support import (
    Pair,
    fifo_pair,
    is_closed,
    made,
    pipe_pair,
    put,
    socket_pair,
    terminal_pair,
)
from tests.transports.recorder import Handled, Recorder, run, settle

PAIRS = pytest.mark.parametrize("make", [pipe_pair, socket_pair, terminal_pair])


async def connected(pipe: Any) -> tuple[Any, Recorder]:
    transport, protocol = await asyncio.get_running_loop().connect_read_pipe(Recorder, pipe)
    return transport, protocol


@pytest.mark.covers("EventLoop.connect_read_pipe")
@PAIRS
async def test_bytes_arrive(make: Callable[[], Pair]) -> None:
    with made(make) as (reading, writing):
        transport, protocol = await connected(reading)
        assert protocol.kinds() == ["made"]
        put(writing, b"one")
        await protocol.until(lambda: protocol.received() == b"one")
        put(writing, b"two")
        await protocol.until(lambda: protocol.received() == b"onetwo")
        transport.close()
        await protocol.seen("lost")
        await settle()
        assert is_closed(reading)


@pytest.mark.covers("ReadPipeTransport.is_closing")
@pytest.mark.parametrize("make", [pipe_pair, socket_pair])
async def test_end_of_file_is_reported_before_the_loss(make: Callable[[], Pair]) -> None:
    with made(make) as (reading, writing):
        transport, protocol = await connected(reading)
        put(writing, b"last")
        writing.close()
        await protocol.seen("lost")
        await settle()
        assert protocol.events[1:] == [("data", b"last"), ("eof",), ("lost", None)]
        assert transport.is_closing()
        assert is_closed(reading)


async def test_fifo_is_read(tmp_path: Path) -> None:
    with made(lambda: fifo_pair(tmp_path)) as (reading, writing):
        _, protocol = await connected(reading)
        put(writing, b"through a name")
        writing.close()
        await protocol.seen("lost")
        assert protocol.received() == b"through a name"


async def test_terminal_whose_other_side_has_gone_is_lost_with_the_error() -> None:
    with made(terminal_pair) as (reading, writing):
        _, protocol = await connected(reading)
        writing.close()
        await protocol.seen("lost")
        exc = protocol.lost_with()
        assert isinstance(exc, OSError)
        assert exc.errno == errno.EIO


@pytest.mark.differs(
    "EventLoop.connect_read_pipe",
    why="Devices that epoll(7) refuses (/dev/zero) are read; asyncio reports EPERM and waits forever.",
)
@pytest.mark.loopcore_only  # asyncio reports EPERM from epoll, and waits for ever
async def test_device_that_is_always_ready_is_read_in_turn() -> None:
    with open("/dev/zero", "rb", 0) as device:
        transport, protocol = await connected(device)
        await protocol.seen("data", 3)
        transport.pause_reading()
        before = len(protocol.received())
        await settle()
        assert len(protocol.received()) == before
        transport.resume_reading()
        transport.pause_reading()
        transport.resume_reading()
        await protocol.until(lambda: len(protocol.received()) > before)
        transport.close()
        await protocol.seen("lost")


@pytest.mark.loopcore_only
async def test_the_null_device_is_at_its_end_at_once() -> None:
    with open("/dev/null", "rb", 0) as device:
        _, protocol = await connected(device)
        await protocol.seen("lost")
        assert protocol.kinds() == ["made", "eof", "lost"]


@pytest.mark.parametrize("method", ["connect_read_pipe", "connect_write_pipe"])
async def test_file_is_refused_and_stays_the_callers(tmp_path: Path, method: str, backend_name: str) -> None:
    with open(tmp_path / "file", "w+b") as file:
        with pytest.raises(ValueError, match="Pipe transport is") as caught:
            await getattr(asyncio.get_running_loop(), method)(Recorder, file)
        if backend_name != "asyncio":
            assert "regular file" in str(caught.value)
            assert "to_thread" in str(caught.value)
        assert not file.closed
        assert os.get_blocking(file.fileno())


@pytest.mark.covers(
    "ReadPipeTransport.pause_reading", "ReadPipeTransport.resume_reading", "ReadPipeTransport.is_reading"
)
async def test_paused_transport_leaves_the_bytes_to_the_kernel() -> None:
    with made(pipe_pair) as (reading, writing):
        transport, protocol = await connected(reading)
        assert transport.is_reading()
        transport.pause_reading()
        transport.pause_reading()
        assert not transport.is_reading()
        put(writing, b"later")
        await settle()
        assert protocol.received() == b""
        transport.resume_reading()
        transport.resume_reading()
        await protocol.seen("data")
        assert protocol.received() == b"later"
        transport.close()
        assert not transport.is_reading()
        transport.pause_reading()
        transport.resume_reading()
        await protocol.seen("lost")


@pytest.mark.loopcore_only  # asyncio always asks for 256 KiB
async def test_large_messages_arrive_in_large_pieces() -> None:
    with made(pipe_pair) as (reading, writing):
        transport, protocol = await connected(reading)
        for count in range(1, 5):
            put(writing, bytes(65536))  # all that a pipe holds
            await protocol.until(lambda total=count * 65536: len(protocol.received()) == total)
        assert protocol.events[-1] == ("data", bytes(65536))
        transport.close()
        await protocol.seen("lost")


@pytest.mark.covers("ReadPipeTransport.close")
async def test_loss_is_reported_once() -> None:
    with made(pipe_pair) as (reading, writing):
        transport, protocol = await connected(reading)
        transport.close()
        transport.close()
        put(writing, b"too late")
        await settle()
        assert protocol.events[1:] == [("lost", None)]
        transport.close()
        await settle()
        assert protocol.kinds().count("lost") == 1


@pytest.mark.reports_errors
async def test_protocol_that_raises_is_reported_and_goes_on(loop: asyncio.AbstractEventLoop) -> None:
    handled = Handled(loop)
    with made(pipe_pair) as (reading, writing):
        transport, protocol = await connected(reading)
        protocol.react["data"] = lambda: 1 // 0
        put(writing, b"bad")
        await protocol.seen("data")
        await settle()
        protocol.react.clear()
        assert [type(context["exception"]) for context in handled.contexts] == [ZeroDivisionError]
        put(writing, b"good")
        await protocol.until(lambda: protocol.received() == b"badgood")
        transport.close()
        await protocol.seen("lost")


@pytest.mark.covers(
    "ReadPipeTransport.get_extra_info('pipe', default)",
    "ReadPipeTransport.get_protocol",
    "ReadPipeTransport.set_protocol",
)
async def test_facts() -> None:
    with made(pipe_pair) as (reading, _):
        transport, protocol = await connected(reading)
        assert isinstance(transport, asyncio.ReadTransport)
        assert not isinstance(transport, asyncio.WriteTransport)
        assert transport.get_extra_info("pipe") is reading
        assert transport.get_extra_info("nothing", 3) == 3
        assert transport.get_protocol() is protocol
        assert f"fd={reading.fileno()}" in repr(transport)
        other = Recorder()
        transport.set_protocol(other)
        assert transport.get_protocol() is other
        transport.close()
        assert "closing" in repr(transport)
        await other.seen("lost")
        await settle()
        assert "closed" in repr(transport)


def test_transport_that_nobody_closed_warns_and_closes(loop_factory: Callable[[], Any]) -> None:
    def drop_it(reading: Any) -> None:
        loop = loop_factory()
        run(loop, connected(reading))
        loop.close()
        # The loop's table holds the transport: both go together.
        del loop
        gc.collect()

    with made(pipe_pair) as (reading, _):
        with pytest.warns(ResourceWarning, match="unclosed transport"):
            drop_it(reading)
        assert is_closed(reading)


@pytest.mark.differs(
    "ReadPipeTransport.close",
    why="On a closed loop it closes the file; asyncio raises RuntimeError and leaks it.",
)
@pytest.mark.loopcore_only
def test_close_after_the_loop_closes_the_file(loop: asyncio.AbstractEventLoop) -> None:
    with made(pipe_pair) as (reading, writing):

        async def main() -> list[Any]:
            reader, _ = await connected(reading)
            writer, _ = await loop.connect_write_pipe(Recorder, writing)
            return [reader, writer]

        transports = run(loop, main())
        loop.close()
        for transport in transports:
            transport.close()
            transport.close()
        assert is_closed(reading)
        assert is_closed(writing)


@pytest.mark.loopcore_only  # asyncio cannot read this device
def test_a_device_is_read_on_after_its_protocol_has_ended_a_run(loop: asyncio.AbstractEventLoop) -> None:
    def end() -> None:
        del protocol.react["data"]
        raise SystemExit

    with open("/dev/zero", "rb", 0) as device:
        transport, protocol = run(loop, loop.connect_read_pipe(Recorder, device))
        protocol.react["data"] = end
        with pytest.raises(SystemExit):
            run(loop, protocol.seen("lost"))
        before = len(protocol.received())
        run(loop, protocol.until(lambda: len(protocol.received()) > before))
        transport.close()
        run(loop, protocol.seen("lost"))
