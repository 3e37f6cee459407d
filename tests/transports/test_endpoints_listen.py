"""create_server, connect_accepted_socket: every parameter, every refusal, and nothing left open by any."""

import asyncio
import errno
import logging
import socket
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.coroutines import PATIENCE
from tests.transports.endpoints_support import Greeter, noting_backlogs, row, run, stop

pytestmark = pytest.mark.settles


def ports(server: asyncio.AbstractServer) -> list[int]:
    return [sock.getsockname()[1] for sock in server.sockets]  # type: ignore[attr-defined]


def hosts(server: asyncio.AbstractServer) -> list[str]:
    return sorted(sock.getsockname()[0] for sock in server.sockets)  # type: ignore[attr-defined]


async def greeting(host: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


def needs_ipv6() -> None:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError as exc:
        pytest.skip(f"no IPv6 loopback here: {exc}")


@pytest.fixture
def resolves_to(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make every name resolve to the given rows, whoever asks."""

    def install(*rows: tuple[Any, ...]) -> None:
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_kwargs: list(rows))

    return install


async def test_port_zero_serves_on_a_free_port(loop: asyncio.AbstractEventLoop) -> None:
    server = await loop.create_server(Greeter, "127.0.0.1", 0)
    assert server.is_serving()
    (port,) = ports(server)
    assert port
    assert await greeting("127.0.0.1", port) == b"hello"
    await stop(server)


@pytest.mark.parametrize("host", [None, ""])
async def test_no_host_means_every_interface(loop: asyncio.AbstractEventLoop, host: str | None) -> None:
    server = await loop.create_server(Greeter, host, 0)
    assert set(hosts(server)) <= {"0.0.0.0", "::"}
    assert "0.0.0.0" in hosts(server)
    port = next(sock.getsockname()[1] for sock in server.sockets if sock.family == socket.AF_INET)
    assert await greeting("127.0.0.1", port) == b"hello"
    await stop(server)


async def test_a_list_of_hosts_is_served_one_socket_each(loop: asyncio.AbstractEventLoop) -> None:
    server = await loop.create_server(Greeter, ["127.0.0.1", "127.0.0.2"], 0)
    assert hosts(server) == ["127.0.0.1", "127.0.0.2"]
    for sock in server.sockets:
        assert await greeting(*sock.getsockname()) == b"hello"
    await stop(server)


async def test_a_host_named_twice_is_bound_once(loop: asyncio.AbstractEventLoop) -> None:
    server = await loop.create_server(Greeter, ["127.0.0.1", "127.0.0.1"], 0)
    assert hosts(server) == ["127.0.0.1"]
    await stop(server)


async def test_ipv4_and_ipv6_share_a_port_number(loop: asyncio.AbstractEventLoop) -> None:
    needs_ipv6()
    four = None
    while four is None:
        six = await loop.create_server(Greeter, "::", 0)
        (port,) = ports(six)
        (sock,) = six.sockets
        assert sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 1
        try:
            four = await loop.create_server(Greeter, "0.0.0.0", port)
        except OSError as exc:
            await stop(six)
            if exc.errno != errno.EADDRINUSE:  # else the number was free for IPv6 alone: take another
                raise
    assert await greeting("::1", port) == b"hello"
    assert await greeting("127.0.0.1", port) == b"hello"
    await stop(four)
    await stop(six)


@pytest.mark.covers("EventLoop.create_server(family)")
async def test_family_limits_what_a_name_means(loop: asyncio.AbstractEventLoop) -> None:
    server = await loop.create_server(Greeter, None, 0, family=socket.AF_INET)
    assert hosts(server) == ["0.0.0.0"]
    await stop(server)


@pytest.mark.covers("EventLoop.create_server(reuse_address)")
@pytest.mark.parametrize(("asked", "set_to"), [(None, True), (True, True), (False, False)])
async def test_reuse_address_is_on_unless_refused(
    loop: asyncio.AbstractEventLoop, asked: bool | None, set_to: bool
) -> None:
    server = await loop.create_server(Greeter, "127.0.0.1", 0, reuse_address=asked)
    (sock,) = server.sockets
    assert bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)) is set_to
    await stop(server)


@pytest.mark.covers("EventLoop.create_server(reuse_port)")
async def test_reuse_port_lets_two_servers_share_a_port(loop: asyncio.AbstractEventLoop) -> None:
    one = await loop.create_server(Greeter, "127.0.0.1", 0, reuse_port=True)
    (port,) = ports(one)
    two = await loop.create_server(Greeter, "127.0.0.1", port, reuse_port=True)
    assert ports(two) == [port]
    await stop(one)
    assert await greeting("127.0.0.1", port) == b"hello"
    await stop(two)


def test_reuse_port_without_system_support_is_a_value_error(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(socket, "SO_REUSEPORT")
    with pytest.raises(ValueError, match="reuse_port not supported by socket module"):
        run(loop, loop.create_server(Greeter, "127.0.0.1", 0, reuse_port=True))


@pytest.mark.covers("EventLoop.create_server(keep_alive)")
async def test_keep_alive_is_set_on_the_listening_socket(loop: asyncio.AbstractEventLoop, backend_name: str) -> None:
    if backend_name == "asyncio" and sys.version_info < (3, 13):
        pytest.skip("asyncio has keep_alive since Python 3.13")
    options: dict[str, Any] = {"keep_alive": True}
    server = await loop.create_server(Greeter, "127.0.0.1", 0, **options)
    (sock,) = server.sockets
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    await stop(server)


@pytest.mark.covers("EventLoop.create_server(sock)")
async def test_a_bound_socket_is_taken_over(loop: asyncio.AbstractEventLoop) -> None:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    server = await loop.create_server(Greeter, sock=sock)
    assert await greeting(*sock.getsockname()) == b"hello"
    await stop(server)
    assert sock.fileno() == -1


async def test_what_listens_has_the_backlog_and_does_not_block(loop: asyncio.AbstractEventLoop) -> None:
    sock, asked = noting_backlogs(socket.AF_INET)
    sock.bind(("127.0.0.1", 0))
    server = await loop.create_server(Greeter, sock=sock, backlog=7)
    assert asked == [7]
    assert not sock.getblocking()
    await stop(server)


async def test_hosts_are_looked_up_as_the_caller_says(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    async def getaddrinfo(host: str, port: int, **options: Any) -> list[Any]:
        asked.append((host, port, options))
        return [row("127.0.0.1", 0)]

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
    given: dict[str, Any] = {"family": socket.AF_INET, "flags": socket.AI_ADDRCONFIG}
    server = await loop.create_server(Greeter, "name.test", 80, **given)
    assert asked == [("name.test", 80, {"type": socket.SOCK_STREAM, "proto": 0, **given})]
    await stop(server)


@pytest.mark.covers("EventLoop.create_server(start_serving)")
async def test_a_server_that_does_not_start_yet_refuses(loop: asyncio.AbstractEventLoop) -> None:
    server = await loop.create_server(Greeter, "127.0.0.1", 0, start_serving=False)
    assert not server.is_serving()
    (port,) = ports(server)
    with pytest.raises(ConnectionRefusedError):
        await greeting("127.0.0.1", port)
    await server.start_serving()
    assert await greeting("127.0.0.1", port) == b"hello"
    await stop(server)


def test_an_address_in_use_is_named_and_nothing_stays_bound(loop: asyncio.AbstractEventLoop) -> None:
    with socket.create_server(("127.0.0.2", 0)) as taken:
        address = taken.getsockname()
        with pytest.raises(OSError) as caught:
            # Not 127.0.0.1, where the same port may be taken by anything else.
            run(loop, loop.create_server(Greeter, ["127.0.0.3", "127.0.0.2"], address[1]))
        assert caught.value.errno == errno.EADDRINUSE
        assert f"error while attempting to bind on address {address!r}: " in str(caught.value)
        assert str(caught.value).endswith("address already in use")
        with socket.create_server(("127.0.0.3", address[1])):
            pass


@pytest.mark.loopcore_only  # asyncio has it since 3.11.8, 3.12.2
async def test_an_address_this_machine_does_not_have_is_skipped(
    loop: asyncio.AbstractEventLoop, resolves_to: Callable[..., None]
) -> None:
    resolves_to(row("203.0.113.7", 0), row("127.0.0.1", 0))
    server = await loop.create_server(Greeter, "name.test", 0)
    assert hosts(server) == ["127.0.0.1"]
    await stop(server)


@pytest.mark.loopcore_only  # asyncio has it since 3.11.8, 3.12.2
def test_no_address_at_all_is_an_error(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(OSError, match=r"could not bind on any address out of \[\('203.0.113.7', 0\)\]"):
        run(loop, loop.create_server(Greeter, "203.0.113.7", 0))


def test_a_name_without_addresses_is_an_error(
    loop: asyncio.AbstractEventLoop, resolves_to: Callable[..., None]
) -> None:
    resolves_to()
    with pytest.raises(OSError, match=r"^getaddrinfo\('name.test'\) returned empty list$"):
        run(loop, loop.create_server(Greeter, "name.test", 0))


async def test_a_socket_of_an_unknown_family_is_skipped(
    loop: asyncio.AbstractEventLoop, resolves_to: Callable[..., None]
) -> None:
    resolves_to((12345, socket.SOCK_STREAM, 0, "", ("x", 0)), row("127.0.0.1", 0))
    server = await loop.create_server(Greeter, "name.test", 0)
    assert hosts(server) == ["127.0.0.1"]
    await stop(server)


@pytest.mark.differs(
    "EventLoop.create_server",
    why="If listening fails, the sockets are closed; asyncio leaves them to the garbage collector.",
)
@pytest.mark.loopcore_only  # asyncio leaves the sockets to the garbage collector
def test_a_server_that_cannot_listen_closes_its_sockets(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as sock:
        # Two sockets may be bound to one port with SO_REUSEADDR, but only one of them may listen.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]

        class Slow(socket.socket):
            def listen(self, *args: int) -> None:
                sock.listen()
                super().listen(*args)

        monkeypatch.setattr(socket, "socket", Slow)
        with pytest.raises(OSError) as caught:
            run(loop, loop.create_server(Greeter, "127.0.0.1", port))
        assert caught.value.errno == errno.EADDRINUSE


async def test_a_cancelled_look_up_leaves_nothing(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    asked, answer = threading.Event(), threading.Event()

    def slow(*_args: Any, **_kwargs: Any) -> list[Any]:
        if threading.current_thread() is threading.main_thread():
            raise socket.gaierror  # not a literal: ask a thread
        asked.set()
        assert answer.wait(PATIENCE)
        return [row("127.0.0.1", 0)]

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    creating = loop.create_task(loop.create_server(Greeter, "name.test", 0))
    while not asked.is_set():
        await asyncio.sleep(0)
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    answer.set()


def test_a_socket_excludes_host_and_port(loop: asyncio.AbstractEventLoop) -> None:
    with socket.socket() as sock, pytest.raises(ValueError, match="can not be specified at the same time"):
        run(loop, loop.create_server(Greeter, "127.0.0.1", 0, sock=sock))  # type: ignore[call-overload]


def test_without_host_port_and_socket_there_is_nothing_to_serve(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(ValueError, match="Neither host/port nor sock were specified"):
        run(loop, loop.create_server(Greeter))  # type: ignore[call-overload]


def test_a_datagram_socket_is_refused(loop: asyncio.AbstractEventLoop) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        with pytest.raises(ValueError, match="A Stream Socket was expected"):
            run(loop, loop.create_server(Greeter, sock=sock))
        with pytest.raises(ValueError, match="A Stream Socket was expected"):
            run(loop, loop.connect_accepted_socket(Greeter, sock))


@pytest.mark.parametrize("ssl", [True, False])
def test_ssl_is_a_context_or_none(loop: asyncio.AbstractEventLoop, ssl: Any) -> None:
    with pytest.raises(TypeError, match="ssl argument must be an SSLContext or None"):
        run(loop, loop.create_server(Greeter, "127.0.0.1", 0, ssl=ssl))


@pytest.mark.parametrize("name", ["ssl_handshake_timeout", "ssl_shutdown_timeout"])
def test_what_needs_tls_is_refused_without(loop: asyncio.AbstractEventLoop, name: str) -> None:
    option: dict[str, Any] = {name: 1.0}
    with pytest.raises(ValueError, match=f"^{name} is only meaningful with ssl$"):
        run(loop, loop.create_server(Greeter, "127.0.0.1", 0, **option))
    with socket.socket() as sock, pytest.raises(ValueError, match=f"^{name} is only meaningful with ssl$"):
        run(loop, loop.connect_accepted_socket(Greeter, sock, **option))


async def test_debug_mode_says_what_is_served(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    loop.set_debug(True)
    caplog.set_level(logging.INFO)
    server = await loop.create_server(Greeter, "127.0.0.1", 0)
    await stop(server)
    assert any("is serving" in message for message in caplog.messages)


@pytest.mark.covers("EventLoop.connect_accepted_socket")
async def test_an_accepted_socket_becomes_a_connection(loop: asyncio.AbstractEventLoop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()
    with client:
        transport, protocol = await loop.connect_accepted_socket(Greeter, accepted)
        assert isinstance(protocol, Greeter)
        assert transport.get_extra_info("peername") == client.getsockname()
        client.setblocking(False)
        assert await loop.sock_recv(client, 100) == b"hello"
        assert await loop.sock_recv(client, 100) == b""
