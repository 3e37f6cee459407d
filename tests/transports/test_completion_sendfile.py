"""sendfile over a completion port with Capability.SEND_FILE, which ends operations as a test wants."""

import asyncio
import errno
import io
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loopcore.ports.operations import SendFile
from loopcore.ports.readiness import Capability
from loopcore.services.sendfile import PART
from tests.transports.recorder import Recorder, settle
from tests.transports.scripted import ScriptedPort, connection, scripted_fixtures

SENDS = frozenset({Capability.SEND_FILE})
port, loop, run = scripted_fixtures(SENDS)
SIZE = PART + 100


@pytest.fixture
def file(tmp_path: Path) -> Iterator[io.BufferedReader]:
    path = tmp_path / "content"
    path.write_bytes(bytes(SIZE))
    with path.open("rb") as found:
        yield found


def sent_part(port: ScriptedPort) -> tuple[int, int, int]:
    """Return the file, the offset and the count of what the port is asked to send."""
    operation = port.only(SendFile)
    return operation.file, operation.offset, operation.count


async def test_file_goes_part_by_part_and_ends_where_the_file_does(
    loop: Any, port: ScriptedPort, file: io.BufferedReader
) -> None:
    async with connection(port, Recorder()) as (transport, _):
        sending = asyncio.ensure_future(loop.sendfile(transport, file, 10))
        await settle()
        assert sent_part(port) == (file.fileno(), 10, PART)
        port.complete(port.only(SendFile), 50)  # as many as there was room for
        await settle()
        assert sent_part(port) == (file.fileno(), 60, PART)
        port.complete(port.only(SendFile), SIZE - 60)
        await settle()
        port.complete(port.only(SendFile), 0)  # the end of the file
        assert await sending == SIZE - 10
        assert (file.tell(), loop.counters().bytes_sent) == (SIZE, SIZE - 10)


async def test_count_is_not_exceeded(loop: Any, port: ScriptedPort, file: io.BufferedReader) -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    with near, far:
        sending = asyncio.ensure_future(loop.sock_sendfile(near, file, 0, PART + 1))
        await settle()
        port.complete(port.only(SendFile), PART)
        await settle()
        assert sent_part(port) == (file.fileno(), PART, 1)
        port.complete(port.only(SendFile), 1)
        assert await sending == PART + 1


@pytest.mark.parametrize("last", [7, OSError(errno.ECANCELED, "cancelled")])
async def test_cancelled_sending_ends_with_its_operation_and_says_what_has_gone(
    loop: Any, port: ScriptedPort, file: io.BufferedReader, last: Any
) -> None:
    async with connection(port, Recorder()) as (transport, _):
        sending = asyncio.ensure_future(loop.sendfile(transport, file))
        await settle()
        port.complete(port.only(SendFile), 100)
        await settle()
        operation = port.only(SendFile)
        sending.cancel()
        await settle()
        assert operation in port.cancelled
        assert not sending.done(), "the file is still being read"
        port.complete(operation, last)
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert file.tell() == (107 if last == 7 else 100)
        assert transport.is_reading()


@pytest.mark.parametrize("fallback", [True, False])
async def test_lost_connection_ends_the_sending_when_its_operation_has_ended(
    loop: Any, port: ScriptedPort, file: io.BufferedReader, fallback: bool
) -> None:
    protocol = Recorder()
    async with connection(port, protocol) as (transport, _):
        sending = asyncio.ensure_future(loop.sendfile(transport, file, fallback=fallback))
        await settle()
        operation = port.only(SendFile)
        transport.abort()
        await protocol.seen("lost")
        await settle()
        assert operation in port.cancelled
        assert not sending.done(), "the file is still being read"
        port.complete(operation, 30)
        with pytest.raises(ConnectionError, match=r"^Connection is closed by peer$"):
            await sending
        assert file.tell() == 30


async def test_connection_lost_between_two_parts_ends_the_sending(
    loop: Any, port: ScriptedPort, file: io.BufferedReader
) -> None:
    protocol = Recorder()
    async with connection(port, protocol) as (transport, _):
        sending = asyncio.ensure_future(loop.sendfile(transport, file))
        await settle()
        first = port.only(SendFile)
        # Lost in the tick in which the part ends, before who waits for it runs.
        transport.abort()
        port.complete(first, 30)
        with pytest.raises(ConnectionError):
            await sending
        assert [each for each in port.submitted if isinstance(each, SendFile)] == [first]


async def test_what_the_port_refuses_at_first_is_not_available(
    loop: Any, port: ScriptedPort, file: io.BufferedReader
) -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    with near, far:
        sending = asyncio.ensure_future(loop.sock_sendfile(near, file, 0, 1000, fallback=False))
        await settle()
        port.complete(port.only(SendFile), OSError(errno.EINVAL, os.strerror(errno.EINVAL)))
        with pytest.raises(asyncio.SendfileNotAvailableError):
            await sending
        assert file.tell() == 0


async def test_error_after_the_first_bytes_is_the_connections(
    loop: Any, port: ScriptedPort, file: io.BufferedReader
) -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    with near, far:
        sending = asyncio.ensure_future(loop.sock_sendfile(near, file))
        await settle()
        port.complete(port.only(SendFile), 10)
        await settle()
        port.complete(port.only(SendFile), BrokenPipeError(errno.EPIPE, "gone"))
        with pytest.raises(BrokenPipeError, match="gone"):
            await sending
        assert file.tell() == 10
