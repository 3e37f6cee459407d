"""Server: accepting, refusing, and how a server ends."""

import asyncio
import contextlib
import gc
import socket
import sys
import threading
import weakref
from asyncio.trsock import TransportSocket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.transports.recorder import Handled, Recorder, receive_all, run, settle

Loop = asyncio.AbstractEventLoop

needs_312 = pytest.mark.skipif(sys.version_info < (3, 12), reason="wait_closed waits for connections since Python 3.12")


@contextlib.asynccontextmanager
async def serving(factory: Callable[[], Any], **options: Any) -> AsyncIterator[Any]:
    """A server on a free port; closed in the end, and its connections aborted."""
    made: list[Any] = []

    def make() -> Any:
        protocol = factory()
        made.append(protocol)
        return protocol

    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0, **options)
    try:
        yield server
    finally:
        server.close()
        for protocol in made:
            transport = getattr(protocol, "transport", None)
            if getattr(transport, "_sock", None) is not None:
                transport.abort()
        await server.wait_closed()
        await settle()


async def connect(server: Any) -> socket.socket:
    sock = socket.socket()
    sock.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(sock, server.sockets[0].getsockname())
    except BaseException:
        sock.close()
        raise
    return sock


class Counter(Recorder):
    """Recorders that know of each other, because a server makes them."""

    def __init__(self, made: list[Any]) -> None:
        super().__init__()
        made.append(self)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


@pytest.mark.covers("EventLoop.create_server(backlog, host, port)")
async def test_every_waiting_connection_is_accepted() -> None:
    made: list[Any] = []
    async with serving(lambda: Counter(made), backlog=50) as server:
        with contextlib.ExitStack() as stack:
            for _ in range(40):
                stack.enter_context(await connect(server))
            await until(lambda: len(made) == 40)
            await until(lambda: all("made" in each.kinds() for each in made))


@pytest.mark.loopcore_only  # before Python 3.14, asyncio's accepts no connection
async def test_a_backlog_of_zero_accepts_one_after_the_other() -> None:
    made: list[Any] = []
    async with serving(lambda: Counter(made), backlog=0) as server:
        with await connect(server):
            await until(lambda: len(made) == 1)
        with await connect(server):
            await until(lambda: len(made) == 2)


@pytest.mark.loopcore_only  # asyncio's closes in that thread
async def test_a_server_that_another_thread_closes_is_closed_by_the_loop() -> None:
    async with serving(Recorder) as server:
        thread = threading.Thread(target=server.close)
        thread.start()
        thread.join()
        assert len(server.sockets) == 1
        await until(lambda: not server.sockets)


async def test_an_accepted_connection_knows_its_addresses_and_has_no_delay() -> None:
    made: list[Any] = []
    async with serving(lambda: Counter(made)) as server:
        with await connect(server) as peer:
            await until(lambda: bool(made) and made[0].transport is not None)
            transport = made[0].transport
            assert transport.get_extra_info("peername") == peer.getsockname()
            assert transport.get_extra_info("sockname") == server.sockets[0].getsockname()
            assert transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.covers("Server.sockets", "Server.close", "Server.get_loop")
async def test_sockets_are_protected_and_gone_after_close(loop: Loop) -> None:
    async with serving(asyncio.Protocol) as server:
        (sock,) = server.sockets
        assert isinstance(sock, TransportSocket)
        assert repr(server).startswith("<Server sockets=(<asyncio.TransportSocket fd=")
        assert server.get_loop() is loop
        server.close()
        server.close()
        assert server.sockets == ()
        assert sock.fileno() == -1
        assert repr(server) == "<Server sockets=()>"


async def test_an_address_can_be_used_again_as_soon_as_close_returns(loop: Loop) -> None:
    async with serving(asyncio.Protocol) as server:
        address = server.sockets[0].getsockname()
        server.close()
        again = await loop.create_server(asyncio.Protocol, *address)
        again.close()
        await again.wait_closed()


@pytest.mark.covers("Server.start_serving", "Server.is_serving")
async def test_start_serving_twice_is_once() -> None:
    made: list[Any] = []
    async with serving(lambda: Counter(made), start_serving=False) as server:
        assert not server.is_serving()
        await server.start_serving()
        await server.start_serving()
        assert server.is_serving()
        with await connect(server):
            await until(lambda: len(made) == 1)
        server.close()
        assert not server.is_serving()


async def test_a_server_that_never_started_closes_its_sockets() -> None:
    async with serving(asyncio.Protocol, start_serving=False) as server:
        (sock,) = server.sockets
        server.close()
        assert sock.fileno() == -1


@pytest.mark.covers("Server.serve_forever")
async def test_serve_forever_ends_with_cancellation_and_closes(loop: Loop) -> None:
    async with serving(asyncio.Protocol, start_serving=False) as server:
        task = loop.create_task(server.serve_forever())
        await settle()
        assert server.is_serving()
        with pytest.raises(RuntimeError, match=r"is already being awaited on serve_forever\(\)"):
            await server.serve_forever()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert server.sockets == ()
        with pytest.raises(RuntimeError, match="is closed"):
            await server.serve_forever()


@pytest.mark.skipif(sys.version_info < (3, 14), reason="before Python 3.14 it waits until the clients hang up")
async def test_serve_forever_closes_its_clients_when_it_is_cancelled(loop: Loop) -> None:
    made: list[Any] = []
    async with serving(lambda: Counter(made)) as server:
        with await connect(server) as sock:
            await until(lambda: bool(made) and made[0].transport is not None)
            task = loop.create_task(server.serve_forever())
            await settle()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await loop.sock_recv(sock, 1) == b""
            assert "lost" in made[0].kinds()


async def test_close_ends_serve_forever(loop: Loop) -> None:
    async with serving(asyncio.Protocol) as server:
        task = loop.create_task(server.serve_forever())
        await settle()
        server.close()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.covers("Server.__aenter__", "Server.__aexit__")
async def test_async_with_closes_the_server() -> None:
    async with serving(asyncio.Protocol) as server:
        async with server as entered:
            assert entered is server
        assert server.sockets == ()


async def test_wait_closed_waits_for_close(loop: Loop) -> None:
    async with serving(asyncio.Protocol) as server:
        task = loop.create_task(server.wait_closed())
        await settle()
        assert not task.done()
        server.close()
        await task
        await server.wait_closed()


@pytest.mark.loopcore_only
async def test_a_wait_that_timed_out_leaves_nothing_in_the_server() -> None:
    async with serving(asyncio.Protocol) as server:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(server.wait_closed(), 0.001)
        assert not server._waiters


@pytest.mark.covers("Server.wait_closed")
@needs_312
async def test_wait_closed_waits_for_the_connections(loop: Loop) -> None:
    made: list[Any] = []
    async with serving(lambda: Counter(made)) as server:
        with await connect(server):
            await until(lambda: bool(made) and made[0].transport is not None)
            server.close()
            task = loop.create_task(server.wait_closed())
            await settle()
            assert not task.done()
            made[0].transport.close()
            await task
            assert "lost" in made[0].kinds()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="wait_closed waits for connections since Python 3.12")
async def test_wait_closed_of_a_closed_server_returns_at_once() -> None:
    made: list[Any] = []
    async with serving(lambda: Counter(made)) as server:
        with await connect(server):
            await until(lambda: bool(made) and made[0].transport is not None)
            server.close()
            await server.wait_closed()
            assert "lost" not in made[0].kinds()


def needs_client_methods(backend_name: str) -> None:
    if backend_name == "asyncio" and sys.version_info < (3, 13):
        pytest.skip("asyncio has close_clients and abort_clients since Python 3.13")


@pytest.mark.covers("Server.close_clients")
async def test_close_clients_sends_what_was_written(backend_name: str) -> None:
    needs_client_methods(backend_name)
    made: list[Any] = []
    async with serving(lambda: Counter(made)) as server:
        with await connect(server) as first, await connect(server) as second:
            await until(lambda: len(made) == 2 and all(each.transport for each in made))
            for each in made:
                each.transport.write(b"bye")
            server.close()
            server.close_clients()
            assert await receive_all(first) == b"bye"
            assert await receive_all(second) == b"bye"
            await until(lambda: all("lost" in each.kinds() for each in made))


@pytest.mark.covers("Server.abort_clients")
async def test_abort_clients_does_not_wait(backend_name: str) -> None:
    needs_client_methods(backend_name)
    made: list[Any] = []
    async with serving(lambda: Counter(made)) as server:
        with await connect(server):
            await until(lambda: bool(made) and made[0].transport is not None)
            made[0].transport.write(b"x" * 10_000_000)
            server.abort_clients()
            await made[0].seen("lost")
            assert made[0].lost_with() is None


def test_an_error_of_the_factory_ends_that_connection_only(loop: Loop, backend_name: str) -> None:
    handled = Handled(loop)
    made: list[Any] = []
    calls = [0]

    def factory() -> Any:
        calls[0] += 1
        if calls[0] == 1:
            raise ZeroDivisionError
        return Counter(made)

    async def main() -> None:
        loop.set_debug(backend_name == "asyncio")  # asyncio keeps this to itself otherwise
        async with serving(factory) as server:
            with await connect(server) as refused:
                await until(lambda: calls[0] == 1)
                if backend_name != "asyncio":  # where the socket waits for the collector
                    assert await receive_all(refused) == b""
            with await connect(server):
                await until(lambda: len(made) == 1)
        gc.collect()
        assert handled.messages() == ["Error on transport creation for incoming connection"]
        assert isinstance(handled.contexts[0]["exception"], ZeroDivisionError)
        handled.contexts.clear()

    with contextlib.ExitStack() as stack:
        if backend_name == "asyncio":
            stack.enter_context(pytest.warns(ResourceWarning))
        run(loop, main())
        gc.collect()


def test_a_server_cannot_be_started_once_its_loop_is_closed(loop: Loop) -> None:
    server = loop.run_until_complete(loop.create_server(asyncio.Protocol, "127.0.0.1", 0, start_serving=False))
    (sock,) = server.sockets
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        server.start_serving().send(None)  # type: ignore[attr-defined]
    sock._sock.close()  # type: ignore[attr-defined]


@pytest.mark.differs(
    "EventLoop.create_server",
    why="If a factory fails, the error is reported and the connection closed; asyncio reports it in debug mode only.",
)
@pytest.mark.loopcore_only
async def test_a_factory_that_returns_no_protocol_ends_that_connection_only(loop: Loop) -> None:
    handled = Handled(loop)
    server = await loop.create_server(lambda: None, "127.0.0.1", 0)  # type: ignore[arg-type, return-value]
    for _ in range(2):
        with await connect(server) as refused:
            assert await receive_all(refused) == b""
    server.close()
    await server.wait_closed()
    assert len(handled.contexts) == 2


@pytest.mark.differs(
    "EventLoop.create_server",
    why="Accepting a connection does not create a task, so cancelling all tasks does not end a connection that is "
    "being accepted, nor a `wait_closed` that waits for it; `Server.abort_clients` ends both. asyncio creates one.",
)
@pytest.mark.loopcore_only
async def test_accepting_a_connection_creates_no_task(loop: Loop) -> None:
    made: list[Any] = []
    tasks = []

    def make() -> Counter:
        tasks.append(asyncio.all_tasks())
        return Counter(made)

    async with serving(make) as server:
        with await connect(server) as peer:
            await until(lambda: bool(made))
            server.abort_clients()
            with contextlib.suppress(ConnectionResetError):
                assert await receive_all(peer) == b""
    assert tasks == [{asyncio.current_task()}]


async def test_an_error_in_connection_made_is_reported_and_the_connection_lives(loop: Loop) -> None:
    handled = Handled(loop)
    made: list[Any] = []

    class Failing(Counter):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            raise ZeroDivisionError

    async with serving(lambda: Failing(made)) as server:
        with await connect(server) as peer:
            await loop.sock_sendall(peer, b"data")
            await until(lambda: bool(made) and made[0].received() == b"data")
    assert len(handled.contexts) == 1


async def test_a_server_closed_by_its_own_factory_leaves_nothing_open(backend_name: str) -> None:
    if backend_name == "asyncio":
        pytest.skip("asyncio's transport fails an assertion then")
    servers: list[Any] = []

    def factory() -> Any:
        servers[0].close()
        return asyncio.Protocol()

    async with serving(factory) as server:
        servers.append(server)
        with await connect(server) as first:
            assert await receive_all(first) == b""
        await server.wait_closed()


@pytest.mark.loopcore_only  # asyncio's is in a cycle of its own
def test_nothing_keeps_a_closed_server_alive(loop: Loop) -> None:
    async def main() -> "weakref.ref[Any]":
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        with await connect(server):
            await settle()
        await settle(10)
        server.close()
        await server.wait_closed()
        return weakref.ref(server)

    gc.collect()
    gc.disable()
    try:
        ref = run(loop, main())
        run(loop, settle())
        assert ref() is None
    finally:
        gc.enable()
