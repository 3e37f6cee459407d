"""asyncio's StreamReader over a transport: fed by C as long as nobody has changed it, and by its methods else."""

import asyncio
import contextlib
import gc
import random
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from loopcore.transports import reader_feed
from tests.transports.recorder import Handled, run, settle, tcp_pair, unix_pair
from tests.transports.tls_support import client_context, server_context

Loop = asyncio.AbstractEventLoop
SIZES = [1, 100, 8191, 8192, 8192, 16_384, 16_384, 16_384, 102_400, 102_400, 102_401, 70_000, 300_000, 5]
LARGE = 50_000


@contextlib.asynccontextmanager
async def streams(
    loop: Loop, make_pair: Any = unix_pair, reader: Any = None, protocol_class: Any = asyncio.StreamReaderProtocol
) -> AsyncIterator[tuple[Any, Any, Any]]:
    """Yield a StreamReader over a transport, the protocol between them and the peer's socket."""
    near, far = make_pair()
    if reader is None:
        reader = asyncio.StreamReader(loop=loop)
    protocol = protocol_class(reader, loop=loop)
    with far:
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, near)
        try:
            yield reader, protocol, far
        finally:
            transport.close()
            await settle()


async def exchange(loop: Loop, reader: Any, peer: Any, size: int) -> None:
    """Have three messages of that size read, so that the transport expects it."""
    for _ in range(3):
        await loop.sock_sendall(peer, bytes(size))
        await reader.readexactly(size)


def test_asyncio_is_written_as_it_was() -> None:
    """For a Python that fails this see whether `feed_data` and the others still do what ReaderFeed does."""
    assert reader_feed.IS_WRITTEN_AS_KNOWN


@pytest.mark.parametrize("tls", [False, True])
async def test_all_that_is_sent_is_read(tls: bool) -> None:
    messages = [random.Random(size).randbytes(size) for size in SIZES]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for size in SIZES:
            writer.write(await reader.readexactly(size))
            await writer.drain()
        assert await reader.read() == b"the end"
        writer.close()
        await writer.wait_closed()

    async def ask(port: int) -> None:
        context = client_context() if tls else None
        reader, writer = await asyncio.open_connection("localhost", port, ssl=context, family=2)
        for message in messages:
            writer.write(message)
            assert await reader.readexactly(len(message)) == message
        writer.write(b"the end")
        if tls:
            writer.close()
        else:
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()
        await writer.wait_closed()

    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: Any, writer: Any) -> None:
        tasks.add(asyncio.create_task(answer(reader, writer)))

    context = server_context() if tls else None
    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    async with server:
        await asyncio.gather(*(ask(server.sockets[0].getsockname()[1]) for _ in range(3)))
        await asyncio.gather(*tasks)


@pytest.mark.parametrize("make_pair", [unix_pair, tcp_pair])
async def test_pieces_of_any_size_are_joined(loop: Loop, make_pair: Any) -> None:
    chance = random.Random(5)
    pieces = [chance.randbytes(chance.choice([1, 3000, 9000, 9000, 20_000, 130_000])) for _ in range(60)]

    async def send(peer: Any) -> None:
        for piece in pieces:
            await loop.sock_sendall(peer, piece)
            if chance.random() < 0.3:
                await asyncio.sleep(0)

    async with streams(loop, make_pair) as (reader, _, peer):
        sending = asyncio.create_task(send(peer))
        left = whole = b"".join(pieces)
        while left:
            part = await reader.read(chance.choice([10, 5000, 60_000, 1 << 20]))
            assert part == left[: len(part)]
            left = left[len(part) :]
        await sending
        assert len(whole) > len(pieces)


@pytest.mark.parametrize("size", [100, LARGE])
async def test_too_much_pauses_the_transport_until_it_is_read(loop: Loop, size: int) -> None:
    async with streams(loop, reader=asyncio.StreamReader(size, loop=loop)) as (reader, protocol, peer):
        transport = protocol._transport
        for _ in range(2):
            await loop.sock_sendall(peer, bytes(2 * size))
            while len(reader._buffer) < 2 * size:
                await asyncio.sleep(0.001)
            await settle()
            assert transport.is_reading()
            await loop.sock_sendall(peer, b"x")
            while transport.is_reading():
                await asyncio.sleep(0.001)
            await loop.sock_sendall(peer, b"y")
            await settle(10)
            assert len(reader._buffer) == 2 * size + 1
            assert await reader.readexactly(2 * size + 2) == bytes(2 * size) + b"xy"
            assert transport.is_reading()


@pytest.mark.parametrize("limit", [10**30, 2.5, float("inf")])
async def test_a_limit_is_any_number(loop: Loop, limit: Any) -> None:
    async with streams(loop, reader=asyncio.StreamReader(limit, loop=loop)) as (reader, protocol, peer):
        await loop.sock_sendall(peer, b"12345")
        assert await reader.read(1) == b"1"
        await settle()
        assert protocol._transport.is_reading()
        await loop.sock_sendall(peer, b"67")
        while len(reader._buffer) < 6:
            await asyncio.sleep(0.001)
        assert protocol._transport.is_reading() == (limit != 2.5)


@pytest.mark.parametrize("size", [1, LARGE])
async def test_a_read_that_was_cancelled_takes_nothing_along(loop: Loop, size: int) -> None:
    async with streams(loop) as (reader, _, peer):
        for _ in range(3):
            reading = asyncio.create_task(reader.readexactly(2 * size))
            await settle()
            await loop.sock_sendall(peer, b"a" * size)
            await settle(10)
            reading.cancel()  # perhaps woken already
            with contextlib.suppress(asyncio.CancelledError):
                await reading
            await loop.sock_sendall(peer, b"b" * size)
            assert await reader.readexactly(2 * size) == b"a" * size + b"b" * size


class CountingReader(asyncio.StreamReader):
    fed = 0

    def feed_data(self, data: Any) -> None:
        self.fed += len(data)
        super().feed_data(data)


class PlainReader(asyncio.StreamReader):
    """Inherits everything."""


class CountingProtocol(asyncio.StreamReaderProtocol):
    fed = 0

    def data_received(self, data: bytes) -> None:
        self.fed += len(data)
        super().data_received(data)


@pytest.mark.parametrize("kind", [CountingReader, PlainReader])
async def test_readers_of_a_program(loop: Loop, kind: Any) -> None:
    async with streams(loop, reader=kind(loop=loop)) as (reader, _, peer):
        for size in (1, LARGE, LARGE, LARGE):
            await loop.sock_sendall(peer, bytes(size))
            assert await reader.readexactly(size) == bytes(size)
        assert getattr(reader, "fed", 1 + 3 * LARGE) == 1 + 3 * LARGE


class LateProtocol(asyncio.StreamReaderProtocol):
    """Hears of its reader with the connection."""

    def __init__(self, reader: Any, loop: Loop) -> None:
        self.given = reader, loop

    def connection_made(self, transport: Any) -> None:
        reader, loop = self.given
        super().__init__(reader, loop=loop)
        super().connection_made(transport)


@pytest.mark.parametrize("kind", [asyncio.StreamReaderProtocol, LateProtocol])
async def test_a_protocol_may_have_another_reader(loop: Loop, kind: Any) -> None:
    async with streams(loop, protocol_class=kind) as (reader, protocol, peer):
        await loop.sock_sendall(peer, b"one")
        assert await reader.readexactly(3) == b"one"
        other = asyncio.StreamReader(loop=loop)
        protocol._stream_reader_wr = weakref.ref(other)
        await loop.sock_sendall(peer, b"two")
        assert await other.readexactly(3) == b"two"
        assert not reader._buffer


async def test_protocols_of_a_program(loop: Loop) -> None:
    async with streams(loop, protocol_class=CountingProtocol) as (reader, protocol, peer):
        for size in (1, LARGE, LARGE, LARGE):
            await loop.sock_sendall(peer, bytes(size))
            assert await reader.readexactly(size) == bytes(size)
        assert protocol.fed == 1 + 3 * LARGE


@pytest.mark.parametrize("name", ["feed_data", "_wakeup_waiter"])
@pytest.mark.parametrize("size", [1, LARGE])
async def test_a_method_that_is_replaced_in_mid_connection_is_called(
    loop: Loop, name: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    original: Callable[..., None] = getattr(asyncio.StreamReader, name)

    def spy(self: Any, *args: Any) -> None:
        calls.append(name)
        original(self, *args)

    async with streams(loop) as (reader, _, peer):
        await exchange(loop, reader, peer, size)
        monkeypatch.setattr(asyncio.StreamReader, name, spy)
        await loop.sock_sendall(peer, bytes(size))
        await reader.readexactly(size)
        assert calls
        monkeypatch.undo()
        calls.clear()
        await loop.sock_sendall(peer, bytes(size))
        await reader.readexactly(size)
        assert not calls


async def test_a_method_of_one_reader_is_called(loop: Loop) -> None:
    reader: Any = asyncio.StreamReader(loop=loop)
    fed: list[bytes] = []
    reader.feed_data = fed.append
    async with streams(loop, reader=reader) as (_, _, peer):
        await loop.sock_sendall(peer, b"one")
        while not fed:
            await asyncio.sleep(0.001)
        assert fed == [b"one"]
        assert not reader._buffer


@pytest.mark.parametrize("name", ["feed_data", "_wakeup_waiter"])
@pytest.mark.parametrize("size", [1, LARGE])
async def test_a_method_put_on_one_reader_in_mid_connection_is_called(loop: Loop, name: str, size: int) -> None:
    """Compiled, it was looked up with the first message only (issue 32)."""
    calls: list[str] = []
    async with streams(loop) as (reader, _, peer):
        await exchange(loop, reader, peer, size)
        original = getattr(reader, name)

        def spy(*args: Any) -> None:
            calls.append(name)
            original(*args)

        setattr(reader, name, spy)
        await exchange(loop, reader, peer, size)
        assert calls
        calls.clear()
        delattr(reader, name)
        await exchange(loop, reader, peer, size)
        assert not calls


@pytest.mark.parametrize("size", [1, LARGE])
async def test_what_comes_after_feed_eof_is_an_error(loop: Loop, size: int) -> None:
    handled = Handled(loop)
    async with streams(loop) as (reader, protocol, peer):
        await exchange(loop, reader, peer, size)
        reader.feed_eof()
        await loop.sock_sendall(peer, bytes(size))
        while not protocol._connection_lost:
            await asyncio.sleep(0.001)
    assert handled.messages() == ["Fatal error: protocol.data_received() call failed."]
    assert isinstance(handled.contexts[0]["exception"], AssertionError)


@pytest.mark.parametrize("size", [1, LARGE])
async def test_a_buffer_that_somebody_looks_into_cannot_grow(loop: Loop, size: int) -> None:
    handled = Handled(loop)
    async with streams(loop) as (reader, protocol, peer):
        await exchange(loop, reader, peer, size)
        with memoryview(reader._buffer):
            await loop.sock_sendall(peer, bytes(size))
            while not protocol._connection_lost:
                await asyncio.sleep(0.001)
    assert handled.messages() == ["Fatal error: protocol.data_received() call failed."]
    assert isinstance(handled.contexts[0]["exception"], BufferError)


def test_nobody_hears_of_what_comes_for_a_reader_that_is_gone(loop: Loop) -> None:
    async def main() -> None:
        async with streams(loop) as (reader, protocol, peer):
            await loop.sock_sendall(peer, bytes(LARGE))
            assert len(await reader.readexactly(LARGE)) == LARGE
            del reader
        del protocol
        gc.collect()

    async def without_reader() -> None:
        near, far = unix_pair()
        reader: Any = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        del reader
        gc.collect()
        with far:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, near)
            await loop.sock_sendall(far, bytes(LARGE))
            await settle(10)
            transport.close()
            await settle()

    run(loop, main())
    run(loop, without_reader())
