"""Transports that a finalizer closes in another thread, or inside any allocation of the loop's own (issue 32).

A program drops a connection in a reference cycle, and the collector runs wherever an allocation sets it off: in a
thread of the pool, while the loop waits in the kernel. Closing it is left to the loop's thread.
"""

import asyncio
import gc
import os
import socket
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from loopcore.testing.conformance.surroundings import collected_inside
from tests.transports.tls_support import client_context, server_context

Loop = asyncio.AbstractEventLoop
LoopFactory = Callable[[], Loop]

PATIENCE = 30


class Told(asyncio.Protocol, asyncio.DatagramProtocol):
    """Notes how often, and in which thread, it is told that its connection is lost."""

    def __init__(self) -> None:
        self.lost_in: list[int] = []
        self.lost = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost_in.append(threading.get_ident())
        self.lost.set()


class Dropped:
    """A cycle whose finalizer closes a transport, and notes what that says of itself then."""

    def __init__(self, method: Callable[[], None], transport: Any, said: list[Any]) -> None:
        self.me = self
        self._method = method
        self._transport = transport
        self._said = said

    def __del__(self) -> None:
        try:
            self._method()
            self._said.append(self._transport.is_closing())
        except BaseException as exc:
            self._said.append(exc)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nothing is collected unless a test asks for it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def stream_pair() -> tuple[socket.socket, socket.socket]:
    one, other = socket.socketpair()
    one.setblocking(False)
    other.settimeout(PATIENCE)
    return one, other


async def open_stream(loop: Loop) -> tuple[Any, Told, list[Any]]:
    one, other = stream_pair()
    transport, protocol = await loop.create_connection(Told, sock=one)
    return transport, protocol, [other]


async def open_datagrams(loop: Loop) -> tuple[Any, Told, list[Any]]:
    transport, protocol = await loop.create_datagram_endpoint(Told, local_addr=("127.0.0.1", 0))
    return transport, protocol, []


async def open_reader(loop: Loop) -> tuple[Any, Told, list[Any]]:
    reader, writer = os.pipe()
    transport, protocol = await loop.connect_read_pipe(Told, os.fdopen(reader, "rb", 0))
    return transport, protocol, [os.fdopen(writer, "wb", 0)]


async def open_writer(loop: Loop) -> tuple[Any, Told, list[Any]]:
    reader, writer = os.pipe()
    transport, protocol = await loop.connect_write_pipe(Told, os.fdopen(writer, "wb", 0))
    return transport, protocol, [os.fdopen(reader, "rb", 0)]


async def open_tls(loop: Loop) -> tuple[Any, Told, list[Any]]:
    one, other = socket.socketpair()
    accepted = asyncio.ensure_future(loop.connect_accepted_socket(Told, other, ssl=server_context()))
    transport, protocol = await loop.create_connection(
        Told, sock=one, ssl=client_context(), server_hostname="localhost"
    )
    peer, _ = await accepted
    return transport, protocol, [peer]


OPENERS = [open_stream, open_datagrams, open_reader, open_writer, open_tls]
Opener = Callable[[Loop], Awaitable[tuple[Any, Told, list[Any]]]]
each_kind = pytest.mark.parametrize("opened", OPENERS, ids=[opener.__name__[5:] for opener in OPENERS])


def closers(transport: Any) -> Iterator[Callable[[], None]]:
    yield transport.close
    if hasattr(transport, "abort"):
        yield transport.abort


def run(loop: Loop, test: Awaitable[None]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(test, PATIENCE)

    loop.run_until_complete(bounded())


@each_kind
@pytest.mark.parametrize("which", [0, 1], ids=["close", "abort"])
@pytest.mark.usefixtures("uncollected")
def test_transport_closed_by_a_finalizer_elsewhere_is_lost_once_in_the_loops_thread(
    loop_factory: LoopFactory, opened: Opener, which: int
) -> None:
    loop = loop_factory()
    said: list[Any] = []

    async def test() -> None:
        transport, protocol, peers = await opened(loop)
        method = [*closers(transport)][-which]
        Dropped(method, transport, said)
        del method
        await loop.run_in_executor(None, gc.collect)
        await protocol.lost.wait()
        assert said == [True]
        assert protocol.lost_in == [threading.get_ident()]
        for peer in peers:
            peer.close()
        await asyncio.sleep(0)

    run(loop, test())


@each_kind
@pytest.mark.parametrize("which", [0, 1], ids=["close", "abort"])
@pytest.mark.parametrize("debug", [False, True], ids=["", "debug"])
def test_transport_closed_in_another_thread_wakes_the_loop(
    loopcore_factory: LoopFactory, opened: Opener, which: int, debug: bool
) -> None:
    """In asyncio `connection_lost` waits for something else to wake the loop, and debug mode refuses the call."""
    loop = loopcore_factory()
    loop.set_debug(debug)

    async def test() -> None:
        transport, protocol, peers = await opened(loop)
        method = [*closers(transport)][-which]
        thread = threading.Thread(target=method)
        thread.start()
        await protocol.lost.wait()
        thread.join()
        assert transport.is_closing()
        assert protocol.lost_in == [threading.get_ident()]
        for peer in peers:
            peer.close()
        await asyncio.sleep(0)

    run(loop, test())


@pytest.mark.differs(
    "Transport.abort",
    "Transport.close",
    why="Another thread may call it in debug mode too; asyncio raises RuntimeError.",
)
@pytest.mark.loopcore_only  # asyncio never tells the protocol after that
async def test_debug_mode_accepts_the_closing_of_a_transport_in_another_thread(loop: Loop) -> None:
    loop.set_debug(True)
    for name in ("close", "abort"):
        transport, protocol, (peer,) = await open_stream(loop)
        await loop.run_in_executor(None, getattr(transport, name))
        await protocol.lost.wait()
        assert protocol.lost_in == [threading.get_ident()]
        peer.close()


def test_what_was_written_before_a_finalizer_elsewhere_closed_it_arrives(loop_factory: LoopFactory) -> None:
    loop = loop_factory()
    written = bytes(range(256)) * 4096

    async def test() -> None:
        transport, protocol, (other,) = await open_stream(loop)
        transport.write(written)
        said: list[Any] = []
        Dropped(transport.close, transport, said)
        del transport
        await loop.run_in_executor(None, gc.collect)

        def read() -> bytes:
            return b"".join(iter(lambda: other.recv(1 << 20), b""))

        assert await loop.run_in_executor(None, read) == written
        await protocol.lost.wait()
        other.close()

    run(loop, test())


def test_other_connections_lose_nothing_while_a_thread_collects(loop_factory: LoopFactory) -> None:
    loop = loop_factory()
    over = threading.Event()

    def collect() -> None:
        while not over.is_set():
            gc.collect(0)

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    async def test() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(*address)
        said: list[Any] = []
        for number in range(100):
            dropped, _ = await loop.create_connection(Told, *address)
            Dropped(dropped.close, dropped, said)
            del dropped
            writer.write(b"%08d" % number)
            assert await reader.readexactly(8) == b"%08d" % number
        over.set()
        thread.join()
        gc.collect()
        assert said == [True] * 100
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0.01)

    gc.disable()
    thread = threading.Thread(target=collect)
    thread.start()
    try:
        run(loop, test())
    finally:
        over.set()
        thread.join()
        gc.enable()


@pytest.mark.parametrize("size", [100, 400_000], ids=["small", "large"])
def test_finalizer_that_closes_a_transport_inside_its_own_sending_doubles_nothing(
    loopcore_factory: LoopFactory, size: int
) -> None:
    loop = loopcore_factory()
    written = os.urandom(size)

    async def test() -> None:
        for allocations in range(1, 60):
            transport, protocol, (other,) = await open_stream(loop)
            transport.write(written[:50])
            transport.write(written[50:])
            with collected_inside(transport.close, allocations):
                await asyncio.sleep(0)
                await asyncio.sleep(0)

            def read(other: socket.socket = other) -> bytes:
                return b"".join(iter(lambda: other.recv(1 << 20), b""))

            assert await loop.run_in_executor(None, read) == written
            await protocol.lost.wait()
            other.close()

    run(loop, test())


@pytest.mark.usefixtures("uncollected")
def test_server_is_done_when_its_last_connection_is_collected_elsewhere(loopcore_factory: LoopFactory) -> None:
    loop = loopcore_factory()

    class Dropping(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            transport.pause_reading()  # the loop has no reason to keep it
            self.transport = transport
            arrived.set()

    async def test() -> None:
        server = await loop.create_server(Dropping, "127.0.0.1", 0)
        waiting = asyncio.ensure_future(server.wait_closed())
        with socket.create_connection(server.sockets[0].getsockname()):
            await arrived.wait()
            await asyncio.sleep(0)
            server.close()
            await asyncio.sleep(0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                thread = threading.Thread(target=gc.collect)
                thread.start()
                await waiting
                thread.join()

    arrived = asyncio.Event()
    run(loop, test())
