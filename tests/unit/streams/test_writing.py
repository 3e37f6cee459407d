"""StreamWriter and its protocol: drain, the end of the connection, handlers, being dropped."""

import asyncio
import gc
import socket
from collections.abc import Callable
from typing import Any

import pytest

import loopcore
from loopcore import StreamReader, StreamReaderProtocol, StreamWriter
from tests.transports.endpoints_support import echo, finish, run, stop
from tests.transports.tls_support import client_context, server_context

pytestmark = pytest.mark.settles


class Remembered(asyncio.Transport):
    """Is closing when it is told so, and remembers what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.closing = False
        self.written: list[bytes] = []

    def write(self, data: Any) -> None:
        self.written.append(data)

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True


def ends(loop: asyncio.AbstractEventLoop) -> tuple[StreamWriter, Any, Remembered]:
    """A writer over a transport that only remembers, with its protocol."""
    reader, transport = StreamReader(loop=loop), Remembered()
    protocol = StreamReaderProtocol(reader, loop=loop)
    protocol.connection_made(transport)
    return StreamWriter(transport, protocol, reader, loop), protocol, transport


async def test_all_calls_of_drain_wait_until_writing_is_resumed(loop: asyncio.AbstractEventLoop) -> None:
    writer, protocol, transport = ends(loop)
    await writer.drain()
    protocol.pause_writing()
    draining = [asyncio.create_task(writer.drain()) for _ in range(3)]
    await asyncio.sleep(0)
    draining[1].cancel()
    await asyncio.sleep(0)
    assert [task.done() for task in draining] == [False, True, False]
    protocol.resume_writing()
    await asyncio.gather(draining[0], draining[2])
    assert not protocol._drain_waiters
    transport.closing = True


@pytest.mark.parametrize("error", [None, ConnectionResetError("cut")])
async def test_drain_ends_with_the_connection(loop: asyncio.AbstractEventLoop, error: Exception | None) -> None:
    writer, protocol, transport = ends(loop)
    protocol.pause_writing()
    draining = asyncio.create_task(writer.drain())
    await asyncio.sleep(0)
    transport.closing = True
    protocol.connection_lost(error)
    (outcome,) = await asyncio.gather(draining, return_exceptions=True)
    assert outcome is error
    with pytest.raises(ConnectionResetError, match="cut" if error else "Connection lost"):
        await writer.drain()


async def test_drain_of_a_closing_writer_lets_the_loop_run(loop: asyncio.AbstractEventLoop) -> None:
    writer, protocol, transport = ends(loop)
    transport.closing = True
    loop.call_soon(protocol.connection_lost, None)
    with pytest.raises(ConnectionResetError):
        await writer.drain()


async def test_a_writer_goes_over_asyncios_protocol(loop: asyncio.AbstractEventLoop) -> None:
    mixin: Any = asyncio.streams.FlowControlMixin(loop)  # type: ignore[attr-defined]
    transport = Remembered()
    writer = StreamWriter(transport, mixin, None, loop)
    await writer.drain()
    mixin.pause_writing()
    draining = asyncio.create_task(writer.drain())
    await asyncio.sleep(0)
    assert not draining.done()
    mixin.resume_writing()
    await draining
    transport.closing = True


async def test_asyncios_writer_goes_over_our_protocol(loop: asyncio.AbstractEventLoop) -> None:
    ours, protocol, transport = ends(loop)
    theirs = asyncio.StreamWriter(transport, protocol, None, loop)
    await theirs.drain()
    protocol.pause_writing()
    draining = asyncio.create_task(theirs.drain())
    await asyncio.sleep(0)
    assert not draining.done()
    transport.closing = True
    protocol.connection_lost(None)
    await draining
    await theirs.wait_closed()
    await ours.wait_closed()


async def test_a_writer_that_is_dropped_closes_with_a_warning(loop: asyncio.AbstractEventLoop) -> None:
    writer, _, transport = ends(loop)
    with pytest.warns(ResourceWarning, match="unclosed <StreamWriter"):  # noqa: PT031 - both make it go
        del writer
        gc.collect()
    assert transport.closing


@pytest.mark.parametrize("error", [None, ConnectionResetError("cut")])
async def test_wait_closed_tells_how_the_connection_ended(
    loop: asyncio.AbstractEventLoop, error: Exception | None
) -> None:
    writer, protocol, transport = ends(loop)
    early = asyncio.create_task(writer.wait_closed())
    await asyncio.sleep(0)
    transport.closing = True
    protocol.connection_lost(error)
    outcomes = await asyncio.gather(early, writer.wait_closed(), return_exceptions=True)
    assert outcomes == [error, error]


def test_an_error_that_nobody_waits_for_is_not_reported(loop: asyncio.AbstractEventLoop) -> None:
    async def main() -> None:
        writer, protocol, transport = ends(loop)
        early = asyncio.create_task(writer.wait_closed())
        await asyncio.sleep(0)
        early.cancel()
        await asyncio.sleep(0)
        transport.closing = True
        protocol.connection_lost(OSError("cut"))

    run(loop, main())
    gc.collect()  # tests/conftest.py fails this test if a handler is called


def test_a_subclass_of_reader_is_fed_by_its_own_methods(loop: asyncio.AbstractEventLoop) -> None:
    class Shouting(StreamReader):
        def feed_data(self, data: Any) -> None:
            super().feed_data(data.upper())

    reader = Shouting(loop=loop)
    protocol = StreamReaderProtocol(reader, loop=loop)
    protocol.data_received(b"hello")
    assert run(loop, reader.read(5)) == b"HELLO"


async def serve(handler: Any, reports: list[dict[str, Any]], **options: Any) -> tuple[Any, Any, StreamWriter]:
    """A server of `handler` with one client."""
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
    server = await loopcore.start_server(handler, "127.0.0.1", 0, **options)
    reader, writer = await loopcore.open_connection(*server.sockets[0].getsockname())
    return server, reader, writer


async def test_the_error_of_a_handler_is_reported_and_ends_its_connection() -> None:
    async def handler(reader: Any, writer: Any) -> None:
        raise ZeroDivisionError("mine")

    reports: list[dict[str, Any]] = []
    server, reader, writer = await serve(handler, reports)
    assert await reader.read() == b""
    assert [(each["message"], str(each["exception"])) for each in reports] == [
        ("Unhandled exception in client_connected_cb", "mine")
    ]
    await finish(writer)
    await stop(server)


async def test_a_handler_that_is_cancelled_ends_its_connection() -> None:
    tasks: list[Any] = []

    async def handler(reader: Any, writer: Any) -> None:
        assert await reader.readexactly(1) == b"x"  # a socket that is closed with something unread is reset
        tasks.append(asyncio.current_task())
        await reader.read()

    reports: list[dict[str, Any]] = []
    server, reader, writer = await serve(handler, reports)
    writer.write(b"x")
    while not tasks:
        await asyncio.sleep(0)
    tasks[0].cancel()
    assert await reader.read() == b""
    assert reports == []
    await finish(writer)
    await stop(server)


async def test_a_plain_function_may_handle_connections() -> None:
    kept: list[Any] = []

    def handler(reader: Any, writer: Any) -> None:
        writer.write(b"hello")
        kept.append(writer)

    server, reader, writer = await serve(handler, [])
    assert await reader.readexactly(5) == b"hello"
    await finish(kept.pop())
    await finish(writer)
    await stop(server)


async def test_a_stream_is_upgraded_to_tls_on_both_sides() -> None:
    async def handler(reader: Any, writer: Any) -> None:
        assert await reader.readline() == b"starttls\n"
        writer.write(b"go\n")
        await writer.start_tls(server_context())
        await echo(reader, writer)

    server, reader, writer = await serve(handler, [])
    writer.write(b"starttls\n")
    assert await reader.readline() == b"go\n"
    await writer.start_tls(client_context(), server_hostname="localhost")
    assert writer.get_extra_info("sslcontext") is not None
    writer.write(b"x" * 100_000)
    await writer.drain()
    assert await reader.readexactly(100_000) == b"x" * 100_000
    assert not writer.can_write_eof()
    await finish(writer)
    await stop(server)


def test_what_came_before_the_upgrade_belongs_to_the_handshake() -> None:
    # On loopcore's loops only: asyncio's of these Pythons loses it.
    async def main() -> None:
        server_may_upgrade = asyncio.Event()

        async def handler(reader: Any, writer: Any) -> None:
            assert await reader.readline() == b"starttls\n"
            while not reader._chunks.size:  # the client's first message of the handshake
                await asyncio.sleep(0)
            server_may_upgrade.set()
            await writer.start_tls(server_context())
            await echo(reader, writer)

        server, reader, writer = await serve(handler, [])
        writer.write(b"starttls\n")
        await writer.start_tls(client_context(), server_hostname="localhost")
        assert server_may_upgrade.is_set()
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        await finish(writer)
        await stop(server)

    loop = loopcore.new_event_loop()
    try:
        run(loop, main())
    finally:
        loop.close()


def test_a_writer_looks_like_asyncios(loop: asyncio.AbstractEventLoop) -> None:
    writer, protocol, transport = ends(loop)
    assert isinstance(writer, asyncio.StreamWriter)
    assert isinstance(protocol, asyncio.StreamReaderProtocol)
    assert isinstance(protocol, asyncio.Protocol)
    assert writer.transport is transport
    transport.closing = True


@pytest.mark.parametrize(
    "make", [lambda path: loopcore.open_unix_connection(path), lambda path: asyncio.open_unix_connection(path)]
)
def test_a_path_that_nobody_listens_on_raises_what_asyncio_raises(
    loop: asyncio.AbstractEventLoop, tmp_path: Any, make: Callable[[Any], Any]
) -> None:
    with pytest.raises(FileNotFoundError):
        run(loop, make(tmp_path / "nothing"))


async def test_a_pair_of_sockets_becomes_streams() -> None:
    ours, theirs = socket.socketpair()
    (reader, writer), (other_reader, other_writer) = (
        await loopcore.open_connection(sock=ours),
        await loopcore.open_connection(sock=theirs),
    )
    writer.writelines([b"one\n", b"two\n"])
    writer.write_eof()
    assert [line async for line in other_reader] == [b"one\n", b"two\n"]
    await finish(other_writer)
    assert await reader.read() == b""
    await finish(writer)
