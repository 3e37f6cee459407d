"""Streams, asyncio's and loopcore's own: what programs that never see a transport rely on."""

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import pytest

import loopcore
from tests.transports.endpoints_support import echo, finish, stop
from tests.transports.recorder import Handled

pytestmark = pytest.mark.settles

Ends: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Handler: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@pytest.fixture(params=[asyncio, loopcore], ids=["asyncio", "own"])
def streams(request: pytest.FixtureRequest) -> ModuleType:
    """Whose streams: on every loop, asyncio's too."""
    module: ModuleType = request.param
    return module


@contextlib.asynccontextmanager
async def connected(streams: ModuleType, handler: Handler, **options: Any) -> AsyncIterator[Ends]:
    """A client of a server that runs `handler`, which closes its writer itself."""
    server = await streams.start_server(handler, "127.0.0.1", 0)
    reader, writer = await streams.open_connection(*server.sockets[0].getsockname(), **options)
    try:
        yield reader, writer
    finally:
        await finish(writer)
        await stop(server)


def says(data: bytes) -> Handler:
    """A handler that sends `data` and hangs up."""

    async def handler(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await finish(writer)

    return handler


async def test_readline_splits_lines_and_gives_the_unfinished_last_one(streams: ModuleType) -> None:
    async with connected(streams, says(b"one\ntwo\nthr")) as (reader, _):
        assert [line async for line in reader] == [b"one\n", b"two\n", b"thr"]


async def test_readuntil_takes_a_separator_of_any_length(streams: ModuleType) -> None:
    async with connected(streams, says(b"a: 1\r\nb: 2\r\n\r\nbody")) as (reader, _):
        assert await reader.readuntil(b"\r\n\r\n") == b"a: 1\r\nb: 2\r\n\r\n"
        with pytest.raises(asyncio.IncompleteReadError) as caught:
            await reader.readuntil(b"\r\n")
        assert caught.value.partial == b"body"


async def test_readexactly_waits_for_all_or_says_what_there_was(streams: ModuleType) -> None:
    async with connected(streams, says(b"12345678")) as (reader, _):
        assert await reader.readexactly(6) == b"123456"
        with pytest.raises(asyncio.IncompleteReadError) as caught:
            await reader.readexactly(6)
        assert (caught.value.partial, caught.value.expected) == (b"78", 6)


async def test_counts_larger_than_any_memory_are_counts(streams: ModuleType) -> None:
    for wanted in (2**70, -(2**70)):
        async with connected(streams, says(b"12345678")) as (reader, _):
            assert await reader.read(wanted) == b"12345678"
    async with connected(streams, says(b"12345678")) as (reader, _):
        with pytest.raises(ValueError, match="less than zero"):
            await reader.readexactly(-(2**70))
        with pytest.raises(asyncio.IncompleteReadError) as caught:
            await reader.readexactly(2**70)
        assert (caught.value.partial, caught.value.expected) == (b"12345678", 2**70)


async def test_what_a_plain_callback_raises_is_reported_and_the_connection_closed(
    loop: asyncio.AbstractEventLoop, streams: ModuleType
) -> None:
    if streams is asyncio and sys.version_info < (3, 14):
        pytest.skip("asyncio's streams leave the connection open before Python 3.14")
    handled = Handled(loop)

    def handler(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        raise LookupError("no handler")

    async with connected(streams, handler) as (reader, _):  # type: ignore[arg-type]
        assert await reader.read() == b""
    (report,) = handled.contexts
    assert report["message"] == "Unhandled exception in client_connected_cb"
    assert isinstance(report["exception"], LookupError)
    assert report["transport"].is_closing()


async def test_a_line_over_the_limit_is_an_error_and_the_next_one_is_read(streams: ModuleType) -> None:
    async with connected(streams, says(b"x" * 1000 + b"\n" + b"short\n"), limit=100) as (reader, _):
        with pytest.raises(ValueError, match="Separator is found"):
            await reader.readline()
        assert await reader.readline() == b"short\n"


async def test_what_is_over_the_limit_and_no_line_is_dropped(streams: ModuleType) -> None:
    async with connected(streams, says(b"x" * 1000), limit=100) as (reader, _):
        with pytest.raises(ValueError, match="Separator is not found"):
            await reader.readline()
        assert await reader.read() == b""


async def test_a_reader_at_its_limit_holds_the_peer_up_and_loses_nothing(streams: ModuleType) -> None:
    data = bytes(range(256)) * 8192  # 2 MiB
    async with connected(streams, says(data), limit=1024) as (reader, writer):
        received = bytearray()
        while not reader.at_eof():
            received += await reader.read(700)
        assert received == data
        assert not writer.transport.get_write_buffer_size()


async def test_drain_waits_for_a_peer_that_does_not_read(loop: asyncio.AbstractEventLoop, streams: ModuleType) -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    with theirs:
        _, writer = await streams.open_connection(sock=ours)
        chunk = b"x" * 262144
        written = 0
        draining = loop.create_task(writer.drain())
        while draining.done() or not writer.transport.get_write_buffer_size():
            writer.write(chunk)
            written += len(chunk)
            draining = loop.create_task(writer.drain())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        received = 0
        while received < written:  # the writer may be told later than the reader that this was all
            received += len(await loop.sock_recv(theirs, 262144))
        await draining
        assert received == written
        await finish(writer)


async def test_drain_raises_when_the_peer_has_gone(loop: asyncio.AbstractEventLoop, streams: ModuleType) -> None:
    ours, theirs = socket.socketpair()
    _, writer = await streams.open_connection(sock=ours)
    writer.write(b"x" * 4194304)
    draining = loop.create_task(writer.drain())
    await asyncio.sleep(0)
    theirs.close()
    with pytest.raises(ConnectionError):
        await draining
    await finish(writer)


async def test_write_eof_ends_one_direction_only(streams: ModuleType) -> None:
    async def shout_at_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        await finish(writer)

    async with connected(streams, shout_at_the_end) as (reader, writer):
        assert writer.can_write_eof()
        writer.write(b"hello")
        writer.write_eof()
        assert await reader.read() == b"HELLO"
        assert reader.at_eof()


@pytest.mark.parametrize("size", [1, 1000, 3_000_000])
async def test_what_is_echoed_comes_back(streams: ModuleType, size: int) -> None:
    data = (b"0123456789" * (size // 10 + 1))[:size]
    async with connected(streams, echo) as (reader, writer):

        async def send() -> None:
            writer.writelines([data[: size // 2], data[size // 2 :]])
            await writer.drain()

        received, _ = await asyncio.gather(reader.readexactly(size), send())
        assert received == data


async def test_many_clients_at_once_get_their_own_answers(streams: ModuleType) -> None:
    async def ask(address: tuple[str, int], number: int) -> bytes:
        reader, writer = await streams.open_connection(*address)
        writer.write(b"%d\n" % number)
        answer = await reader.readline()
        await finish(writer)
        return answer

    server = await streams.start_server(echo, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    answers = await asyncio.gather(*(ask(address, number) for number in range(50)))
    assert answers == [b"%d\n" % number for number in range(50)]
    server.close()
    await server.wait_closed()


async def test_streams_over_a_unix_socket(streams: ModuleType, tmp_path: Path) -> None:
    server = await streams.start_unix_server(echo, tmp_path / "s")
    reader, writer = await streams.open_unix_connection(tmp_path / "s")
    writer.write(b"over a path\n")
    assert await reader.readline() == b"over a path\n"
    await finish(writer)
    await stop(server)


@pytest.mark.loopcore_only
async def test_without_unix_sockets_an_error_says_what_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is on Windows, where asyncio has no such functions and its loops raise NotImplementedError, too."""
    monkeypatch.delattr(socket, "AF_UNIX", raising=False)
    with pytest.raises(NotImplementedError, match=r"create_server and create_connection on 127\.0\.0\.1"):
        await loopcore.start_unix_server(echo, "name")
    with pytest.raises(NotImplementedError, match=r"create_server and create_connection on 127\.0\.0\.1"):
        await loopcore.open_unix_connection("name")


async def test_wait_closed_returns_when_the_connection_is_gone(streams: ModuleType) -> None:
    async with connected(streams, echo) as (_, writer):
        writer.close()
        assert writer.is_closing()
        await writer.wait_closed()
        assert writer.transport.get_extra_info("socket").fileno() == -1


async def test_a_waiting_reader_hears_of_a_reset(streams: ModuleType) -> None:
    async def reset(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        writer.transport.abort()

    async with connected(streams, reset) as (reader, _):
        with pytest.raises(ConnectionResetError):
            await reader.read()


async def test_a_cancelled_read_leaves_the_data_for_the_next(
    loop: asyncio.AbstractEventLoop, streams: ModuleType
) -> None:
    async with connected(streams, echo) as (reader, writer):
        reading = loop.create_task(reader.readline())
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        writer.write(b"later\n")
        assert await reader.readline() == b"later\n"


@pytest.mark.reports_errors
async def test_an_error_of_a_handler_is_reported_and_the_server_goes_on(
    loop: asyncio.AbstractEventLoop, streams: ModuleType
) -> None:
    contexts: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _loop, context: contexts.append(context))

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.readline() == b"fail\n":
            writer.close()
            raise RuntimeError("on request")
        writer.write(b"fine\n")
        await finish(writer)

    server = await streams.start_server(handler, "127.0.0.1", 0)
    answers = []
    for question in (b"fail\n", b"go on\n"):
        reader, writer = await streams.open_connection(*server.sockets[0].getsockname())
        writer.write(question)
        answers.append(await reader.read())
        await finish(writer)
    assert answers == [b"", b"fine\n"]
    server.close()
    await server.wait_closed()
    # Whether the streams report it or the loop, when the task is collected, depends on the Python.
    assert all(isinstance(context["exception"], RuntimeError) for context in contexts)


async def test_a_stream_reader_protocol_can_be_used_by_hand(
    loop: asyncio.AbstractEventLoop, streams: ModuleType
) -> None:
    ours, theirs = socket.socketpair()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.create_connection(lambda: protocol, sock=ours)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    with theirs:
        theirs.setblocking(False)
        await loop.sock_sendall(theirs, b"in\n")
        assert await reader.readline() == b"in\n"
        writer.write(b"out\n")
        await writer.drain()
        assert await loop.sock_recv(theirs, 100) == b"out\n"
        await finish(writer)


async def test_serve_forever_ends_when_cancelled(loop: asyncio.AbstractEventLoop, streams: ModuleType) -> None:
    server = await streams.start_server(echo, "127.0.0.1", 0, start_serving=False)
    async with server:
        serving = loop.create_task(server.serve_forever())
        while not server.is_serving():
            await asyncio.sleep(0)
        reader, writer = await streams.open_connection(*server.sockets[0].getsockname())
        writer.write(b"served\n")
        assert await reader.readline() == b"served\n"
        await finish(writer)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
    assert not server.is_serving()
