"""Operations on plain sockets: the sock_* coroutines."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from loopcore.ports.operations import CONNECT
from loopcore.services.sockops import SockOps
from loopcore.services.transport_table import TransportTable

Loop = asyncio.AbstractEventLoop
Pair = tuple[socket.socket, socket.socket]

BIG = 4 << 20


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        sock.setblocking(False)
        yield sock


def udp() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setblocking(False)
    sock.bind(("127.0.0.1", 0))
    return sock


def test_recv_of_what_is_there_does_not_wait(loop: Loop, pair: Pair) -> None:
    left, right = pair
    right.send(b"hello")
    asking = loop.sock_recv(left, 3)
    with pytest.raises(StopIteration) as done:
        asking.send(None)
    assert done.value.value == b"hel"


@pytest.mark.covers("EventLoop.sock_recv")
def test_recv_waits_for_what_will_come(loop: Loop, pair: Pair) -> None:
    left, right = pair
    loop.call_soon(right.send, b"hello")
    assert loop.run_until_complete(loop.sock_recv(left, 100)) == b"hello"
    assert loop.remove_reader(left) is False


def test_recv_of_an_ended_stream_is_empty(loop: Loop, pair: Pair) -> None:
    left, right = pair
    loop.call_soon(right.close)
    assert loop.run_until_complete(loop.sock_recv(left, 100)) == b""


@pytest.mark.covers("EventLoop.sock_recv_into")
def test_recv_into(loop: Loop, pair: Pair) -> None:
    left, right = pair
    buffer = bytearray(8)
    loop.call_soon(right.send, b"hello")
    assert loop.run_until_complete(loop.sock_recv_into(left, buffer)) == 5
    assert buffer == b"hello\0\0\0"


@pytest.mark.covers("EventLoop.sock_sendall")
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: memoryview(data).cast("I")])
async def test_sendall_sends_more_than_the_kernel_takes_at_once(
    loop: Loop, pair: Pair, kind: Any, backend_name: str
) -> None:
    left, right = pair
    if backend_name == "asyncio" and getattr(kind(bytes(4)), "itemsize", 1) > 1:
        pytest.skip("asyncio counts items where the kernel counts bytes")
    sent = bytes(range(256)) * (BIG // 256)

    async def receive() -> bytes:
        received = bytearray()
        while len(received) < BIG:
            received += await loop.sock_recv(right, 1 << 20)
        return bytes(received)

    _, received = await asyncio.gather(loop.sock_sendall(left, kind(sent)), receive())
    assert received == sent
    assert loop.remove_writer(left) is False


async def test_sendall_fails_when_the_peer_has_gone(loop: Loop, pair: Pair) -> None:
    left, right = pair
    sending = asyncio.ensure_future(loop.sock_sendall(left, bytes(BIG)))
    await asyncio.sleep(0)
    right.close()
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        await sending


@pytest.mark.parametrize("operation", ["sock_recv", "sock_sendall", "sock_accept"])
async def test_cancelled_operation_watches_no_more(
    loop: Loop, pair: Pair, listener: socket.socket, operation: str
) -> None:
    sock = listener if operation == "sock_accept" else pair[0]
    arguments: dict[str, list[Any]] = {
        "sock_recv": [sock, 1],
        "sock_sendall": [sock, bytes(BIG)],
        "sock_accept": [sock],
    }
    task = asyncio.ensure_future(getattr(loop, operation)(*arguments[operation]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert loop.remove_reader(sock) is False
    assert loop.remove_writer(sock) is False


async def test_cancelled_recv_loses_nothing(loop: Loop, pair: Pair) -> None:
    left, right = pair
    task = asyncio.ensure_future(loop.sock_recv(left, 10))
    await asyncio.sleep(0)
    right.send(b"kept")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await loop.sock_recv(left, 10) == b"kept"


def settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


async def test_operation_leaves_a_reader_that_took_its_place_alone(loop: Loop, pair: Pair) -> None:
    left, right = pair
    task = asyncio.ensure_future(loop.sock_recv(left, 10))
    await asyncio.sleep(0)
    came = loop.create_future()
    loop.add_reader(left, settle, came)
    task.cancel()
    await asyncio.wait([task])
    right.send(b"x")
    await came
    assert loop.remove_reader(left) is True


@pytest.mark.covers("EventLoop.sock_accept", "EventLoop.sock_connect")
async def test_accept_and_connect(loop: Loop, listener: socket.socket) -> None:
    client = socket.socket()
    client.setblocking(False)
    accepting = asyncio.ensure_future(loop.sock_accept(listener))
    await loop.sock_connect(client, listener.getsockname())
    server, address = await accepting
    with client, server:
        assert address == client.getsockname()
        assert server.gettimeout() == 0
        await loop.sock_sendall(client, b"ping")
        assert await loop.sock_recv(server, 10) == b"ping"


async def test_connect_to_a_name(loop: Loop, listener: socket.socket) -> None:
    with socket.socket() as client:
        client.setblocking(False)
        await loop.sock_connect(client, ("localhost", listener.getsockname()[1]))
        assert client.getpeername() == listener.getsockname()


async def test_a_name_is_looked_up_for_the_kind_of_the_socket(
    loop: Loop, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def look_up(host: str, port: int, *kind: int) -> list[Any]:
        asked.append((host, *kind[:3]))
        return [(*kind[:3], "", listener.getsockname())]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as client:
        client.setblocking(False)
        await loop.sock_connect(client, ("name", 80))
    assert set(asked) == {("name", socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)}


async def test_connect_that_is_refused(loop: Loop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = gone.getsockname()
    with socket.socket() as client:
        client.setblocking(False)
        with pytest.raises(ConnectionRefusedError, match="Connect call failed"):
            await loop.sock_connect(client, address)


async def test_connect_over_ipv6_keeps_flow_and_scope(loop: Loop) -> None:
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError as exc:
        pytest.skip(f"no IPv6 here: {exc}")
    with listener, socket.socket(socket.AF_INET6) as client:
        client.setblocking(False)
        await loop.sock_connect(client, ("::1", listener.getsockname()[1], 0, 0))
        assert client.getpeername()[:2] == listener.getsockname()[:2]


class Between:
    """A loop with something before its completion port that keeps what is asked of it."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self._completions = self
        self.asked: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loop, name)

    def submit(self, operation: Any) -> None:
        self.asked.append(operation)
        self.loop._completions.submit(operation)

    def begin(self) -> None:
        self.loop._completions.begin()


@pytest.mark.loopcore_only
def test_connect_over_a_completion_port_is_an_operation(loop: Any, listener: socket.socket) -> None:
    if loop._completions is None:
        pytest.skip("a readiness backend")
    between = Between(loop)
    with socket.socket() as sock:
        sock.setblocking(False)
        loop.run_until_complete(SockOps(between, loop, TransportTable()).connect(sock, listener.getsockname()))
        assert sock.getpeername() == listener.getsockname()
    assert [operation.code for operation in between.asked] == [CONNECT]


async def test_connect_that_is_called_off_leaves_the_socket_to_its_owner(
    loop: Loop, full_address: tuple[str, int]
) -> None:
    with socket.socket() as sock:
        sock.setblocking(False)
        connecting = asyncio.ensure_future(loop.sock_connect(sock, full_address))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not connecting.done()
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        assert loop.remove_writer(sock) is False


@pytest.mark.differs(
    "EventLoop.sock_connect",
    why="A full backlog of a Unix socket raises BlockingIOError; asyncio reports success without connecting.",
)
@pytest.mark.loopcore_only
def test_connect_to_a_unix_socket_with_a_full_backlog_is_an_error(loop: Loop) -> None:
    # asyncio reports success, and the socket is not connected.
    clients: list[socket.socket] = []

    async def fill() -> None:
        while len(clients) < 10:
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            clients.append(client)
            await loop.sock_connect(client, server.getsockname())

    with socket.socket(socket.AF_UNIX) as server:
        server.bind("")  # an abstract name of the kernel's choice
        server.listen(1)
        with pytest.raises(BlockingIOError):
            loop.run_until_complete(fill())
        for client in clients:
            client.close()


@pytest.mark.covers("EventLoop.sock_recvfrom", "EventLoop.sock_recvfrom_into(nbytes)", "EventLoop.sock_sendto")
async def test_datagrams(loop: Loop) -> None:
    with udp() as one, udp() as other:
        receiving = asyncio.ensure_future(loop.sock_recvfrom(other, 100))
        await asyncio.sleep(0)
        assert await loop.sock_sendto(one, b"hello", other.getsockname()) == 5
        assert await receiving == (b"hello", one.getsockname())
        buffer = bytearray(10)
        receiving_into = asyncio.ensure_future(loop.sock_recvfrom_into(other, buffer))
        await asyncio.sleep(0)
        await loop.sock_sendto(one, b"again", other.getsockname())
        assert await receiving_into == (5, one.getsockname())
        await loop.sock_sendto(one, b"short", other.getsockname())
        assert await loop.sock_recvfrom_into(other, buffer, 2) == (2, one.getsockname())
        assert buffer == b"shain\0\0\0\0\0"


OPERATIONS: list[Callable[[Loop, Any], Awaitable[Any]]] = [
    lambda loop, sock: loop.sock_recv(sock, 1),
    lambda loop, sock: loop.sock_recv_into(sock, bytearray(1)),
    lambda loop, sock: loop.sock_recvfrom(sock, 1),
    lambda loop, sock: loop.sock_recvfrom_into(sock, bytearray(1)),
    lambda loop, sock: loop.sock_sendall(sock, b"x"),
    lambda loop, sock: loop.sock_sendto(sock, b"x", ("127.0.0.1", 1)),
    lambda loop, sock: loop.sock_connect(sock, ("127.0.0.1", 1)),
    lambda loop, sock: loop.sock_accept(sock),
]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_debug_mode_refuses_blocking_sockets(loop: Loop, operation: Any) -> None:
    loop.set_debug(True)
    with socket.socket() as sock, pytest.raises(ValueError, match=r"^the socket must be non-blocking$"):
        loop.run_until_complete(operation(loop, sock))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_tls_sockets_are_refused(loop: Loop, operation: Any) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with context.wrap_socket(socket.socket(), server_hostname="localhost", do_handshake_on_connect=False) as sock:
        with pytest.raises(TypeError, match=r"^Socket cannot be of type SSLSocket$"):
            loop.run_until_complete(operation(loop, sock))


class Wrapped:
    """A socket in a program's own clothes: `sendto` and `recvfrom` are refused once, then replaced, as mocks do."""

    def __init__(self, sock: socket.socket) -> None:
        self.fileno, self.gettimeout = sock.fileno, sock.gettimeout
        self.family, self.type = sock.family, sock.type
        self.sock = sock

    def __getattr__(self, name: str) -> Any:
        def refuse(*args: Any) -> Any:
            setattr(self, name, getattr(self.sock, name))
            raise BlockingIOError

        return refuse


async def test_an_operation_that_waits_asks_the_socket_anew_for_its_method(loop: Loop) -> None:
    with udp() as one, udp() as two:
        near: Any = Wrapped(one)
        assert await loop.sock_sendto(near, b"data", two.getsockname()) == 4
        two.sendto(b"back", one.getsockname())
        assert await loop.sock_recvfrom(near, 10) == (b"back", two.getsockname())
