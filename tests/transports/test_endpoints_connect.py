"""create_connection: every parameter, every refusal, and no socket left behind by any of them."""

import asyncio
import errno
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.coroutines import PATIENCE
from tests.transports.endpoints_support import row, run

pytestmark = pytest.mark.settles


class Recorder(asyncio.Protocol):
    def __init__(self) -> None:
        self.events: list[str] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.events.append("made")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")
        self.lost.set_result(exc)


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that is bound, so that nobody else is given it, and does not listen."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


@pytest.fixture
def resolves_to(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make every name resolve to the given rows, whoever asks."""

    def install(*rows: tuple[Any, ...]) -> None:
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_kwargs: list(rows))

    return install


async def close(protocol: asyncio.BaseProtocol) -> None:
    assert isinstance(protocol, Recorder)
    protocol.transport.close()
    assert await protocol.lost is None


@pytest.mark.covers("EventLoop.create_connection(host, port)")
async def test_the_protocol_is_connected_before_create_connection_returns(
    loop: asyncio.AbstractEventLoop, listening: socket.socket
) -> None:
    transport, protocol = await loop.create_connection(Recorder, *listening.getsockname())
    assert protocol.events == ["made"]
    assert protocol.transport is transport
    assert transport.get_extra_info("peername") == listening.getsockname()
    await close(protocol)
    assert protocol.events == ["made", "lost"]


@pytest.mark.parametrize("convert", [int, str], ids=["number", "text"])
async def test_a_port_may_be_a_number_or_text(
    loop: asyncio.AbstractEventLoop, listening: socket.socket, convert: Callable[[int], Any]
) -> None:
    port = listening.getsockname()[1]
    _, protocol = await loop.create_connection(Recorder, "127.0.0.1", convert(port))
    await close(protocol)


async def test_a_literal_address_needs_no_resolver(
    loop: asyncio.AbstractEventLoop, listening: socket.socket, resolves_to: Callable[..., None], closed_port: int
) -> None:
    resolves_to(row("127.0.0.1", closed_port))
    _, protocol = await loop.create_connection(Recorder, "127.0.0.1", listening.getsockname()[1])
    await close(protocol)


def test_a_refused_connection_names_the_address(loop: asyncio.AbstractEventLoop, closed_port: int) -> None:
    with pytest.raises(ConnectionRefusedError, match=rf"Connect call failed \('127.0.0.1', {closed_port}\)") as caught:
        run(loop, loop.create_connection(Recorder, "127.0.0.1", closed_port))
    assert caught.value.errno == errno.ECONNREFUSED


async def test_the_next_address_is_tried_when_one_refuses(
    loop: asyncio.AbstractEventLoop, listening: socket.socket, closed_port: int, resolves_to: Callable[..., None]
) -> None:
    resolves_to(row("127.0.0.1", closed_port), row("127.0.0.1", listening.getsockname()[1]))
    transport, protocol = await loop.create_connection(Recorder, "name.test", 80)
    assert transport.get_extra_info("peername") == listening.getsockname()
    await close(protocol)


def test_different_errors_are_joined_into_one_text(
    loop: asyncio.AbstractEventLoop, closed_port: int, resolves_to: Callable[..., None]
) -> None:
    resolves_to(row("127.0.0.1", closed_port), row("127.0.0.2", closed_port))
    with pytest.raises(OSError) as caught:
        run(loop, loop.create_connection(Recorder, "name.test", 80))
    one, other = (f"[Errno {errno.ECONNREFUSED}] Connect call failed ('127.0.0.{n}', {closed_port})" for n in (1, 2))
    assert str(caught.value) == f"Multiple exceptions: {one}, {other}"
    assert type(caught.value) is OSError


def test_equal_errors_are_raised_as_one(
    loop: asyncio.AbstractEventLoop, closed_port: int, resolves_to: Callable[..., None]
) -> None:
    resolves_to(row("127.0.0.1", closed_port), row("127.0.0.1", closed_port))
    with pytest.raises(ConnectionRefusedError, match=r"^\[Errno \d+\] Connect call failed"):
        run(loop, loop.create_connection(Recorder, "name.test", 80))


@pytest.mark.covers("EventLoop.create_connection(all_errors)")
def test_all_errors_raises_a_group_of_every_attempt(
    loop: asyncio.AbstractEventLoop, closed_port: int, resolves_to: Callable[..., None], backend_name: str
) -> None:
    if backend_name == "asyncio" and sys.version_info < (3, 12):
        pytest.skip("asyncio has all_errors since Python 3.12")
    resolves_to(row("127.0.0.1", closed_port), row("127.0.0.2", closed_port))
    options: dict[str, Any] = {"all_errors": True}
    with pytest.raises(ExceptionGroup, match="create_connection failed") as caught:
        run(loop, loop.create_connection(Recorder, "name.test", 80, **options))
    assert [type(each) for each in caught.value.exceptions] == [ConnectionRefusedError] * 2


def test_a_name_without_addresses_is_an_error(
    loop: asyncio.AbstractEventLoop, resolves_to: Callable[..., None]
) -> None:
    resolves_to()
    with pytest.raises(OSError, match=r"^getaddrinfo\(\) returned empty list$"):
        run(loop, loop.create_connection(Recorder, "name.test", 80))


@pytest.mark.covers("EventLoop.create_connection(family)")
def test_a_literal_of_the_wrong_family_is_a_resolver_error(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(socket.gaierror):
        run(loop, loop.create_connection(Recorder, "127.0.0.1", 80, family=socket.AF_INET6))


@pytest.mark.covers("EventLoop.create_connection(local_addr)")
async def test_local_addr_is_where_the_connection_comes_from(
    loop: asyncio.AbstractEventLoop, listening: socket.socket
) -> None:
    transport, protocol = await loop.create_connection(Recorder, *listening.getsockname(), local_addr=("127.0.0.3", 0))
    assert transport.get_extra_info("sockname")[0] == "127.0.0.3"
    await close(protocol)


def test_a_local_address_in_use_is_named(loop: asyncio.AbstractEventLoop, listening: socket.socket) -> None:
    taken = listening.getsockname()
    with pytest.raises(OSError) as caught:
        run(loop, loop.create_connection(Recorder, *taken, local_addr=taken))
    assert caught.value.errno == errno.EADDRINUSE
    assert f"error while attempting to bind on address {taken!r}: " in str(caught.value)
    assert str(caught.value).endswith("address already in use")


@pytest.mark.parametrize("spare", [False, True])
def test_the_error_names_all_local_addresses_that_were_refused(
    loop: asyncio.AbstractEventLoop, closed_port: int, monkeypatch: pytest.MonkeyPatch, spare: bool
) -> None:
    with socket.create_server(("127.0.0.2", 0)) as other:
        taken = [row("127.0.0.1", closed_port), row(*other.getsockname())]
        rows = {"name.test": [row("127.0.0.1", closed_port)], "local.test": taken}
        if spare:
            taken.append(row("127.0.0.3", 0))
        monkeypatch.setattr(socket, "getaddrinfo", lambda host, *_args, **_kwargs: rows[host])
        with pytest.raises(OSError) as caught:
            run(loop, loop.create_connection(Recorder, "name.test", 80, local_addr=("local.test", 0)))
        named = [f"bind on address {address!r}" for *_, address in taken[:2]]
        named += ["Connect call failed"] * spare
    assert [text in str(caught.value) for text in named] == [True] * len(named)


def test_a_local_address_of_another_family_is_an_error(
    loop: asyncio.AbstractEventLoop, listening: socket.socket
) -> None:
    with pytest.raises(OSError, match=r"no matching local address with family=.*AF_INET.* found"):
        run(loop, loop.create_connection(Recorder, *listening.getsockname(), local_addr=("::1", 0)))


@pytest.mark.covers("EventLoop.create_connection(proto, flags)")
async def test_both_names_are_looked_up_as_the_caller_says(
    loop: asyncio.AbstractEventLoop, listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    async def getaddrinfo(host: str, port: int, **options: Any) -> list[Any]:
        asked.append((host, port, options))
        return [row("127.0.0.1", 0) if host == "local.test" else row(*listening.getsockname())]

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
    given: dict[str, Any] = {"family": socket.AF_INET, "proto": socket.IPPROTO_TCP, "flags": socket.AI_ADDRCONFIG}
    _, protocol = await loop.create_connection(Recorder, "name.test", 80, local_addr=("local.test", 0), **given)
    options = {"type": socket.SOCK_STREAM, **given}
    assert asked == [("name.test", 80, options), ("local.test", 0, options)]
    await close(protocol)


def test_a_local_name_without_addresses_is_an_error(
    loop: asyncio.AbstractEventLoop, closed_port: int, resolves_to: Callable[..., None]
) -> None:
    resolves_to()
    connecting = loop.create_connection(Recorder, "127.0.0.1", closed_port, local_addr=("local.test", 0))
    with pytest.raises(OSError, match=r"^getaddrinfo\(\) returned empty list$"):
        run(loop, connecting)


@pytest.mark.covers("EventLoop.create_connection(sock)")
async def test_a_connected_socket_is_taken_over(loop: asyncio.AbstractEventLoop, listening: socket.socket) -> None:
    sock = socket.create_connection(listening.getsockname())
    transport, protocol = await loop.create_connection(Recorder, sock=sock)
    assert sock.gettimeout() == 0.0
    assert transport.get_extra_info("sockname") == sock.getsockname()
    await close(protocol)
    assert sock.fileno() == -1


async def test_a_unix_socket_is_a_stream_too(loop: asyncio.AbstractEventLoop) -> None:
    ours, peer = socket.socketpair()
    with peer:
        _, protocol = await loop.create_connection(Recorder, sock=ours)
        await close(protocol)


@pytest.mark.parametrize("method", ["create_connection", "create_unix_connection", "connect_accepted_socket"])
async def test_a_socket_that_has_a_transport_is_refused(
    loop: asyncio.AbstractEventLoop, backend_name: str, method: str
) -> None:
    if backend_name == "asyncio" and sys.version_info < (3, 12):
        pytest.skip("asyncio does so since Python 3.12")
    ours, peer = socket.socketpair()
    with peer:
        transport, protocol = await loop.create_connection(Recorder, sock=ours)
        with pytest.raises(RuntimeError, match=r"^File descriptor <socket.socket fd=.*> is used by transport <"):
            await getattr(loop, method)(Recorder, sock=ours)
        if backend_name == "asyncio" and sys.version_info >= (3, 14):
            transport.abort()  # asyncio has closed its socket
        assert (ours.fileno() == -1) == transport.is_closing()
        transport.close()
        await protocol.lost


def test_a_socket_excludes_host_and_port(loop: asyncio.AbstractEventLoop) -> None:
    with socket.socket() as sock, pytest.raises(ValueError, match="can not be specified at the same time"):
        run(loop, loop.create_connection(Recorder, "127.0.0.1", 80, sock=sock))  # type: ignore[call-overload]


def test_without_host_port_and_socket_there_is_nothing_to_connect(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(ValueError, match="host and port was not specified and no sock specified"):
        run(loop, loop.create_connection(Recorder))


def test_a_datagram_socket_is_refused(loop: asyncio.AbstractEventLoop) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as sock, pytest.raises(ValueError, match="A Stream Socket was expected"):
        run(loop, loop.create_connection(Recorder, sock=sock))


@pytest.mark.parametrize(
    "option", [{"server_hostname": "x"}, {"ssl_handshake_timeout": 1.0}, {"ssl_shutdown_timeout": 1.0}]
)
def test_what_needs_tls_is_refused_without(loop: asyncio.AbstractEventLoop, option: dict[str, Any]) -> None:
    (name,) = option
    with pytest.raises(ValueError, match=f"^{name} is only meaningful with ssl$"):
        run(loop, loop.create_connection(Recorder, "127.0.0.1", 80, **option))


def test_an_error_of_the_factory_leaves_the_programs_socket_alone_before_python_3_14(
    loop: asyncio.AbstractEventLoop, listening: socket.socket
) -> None:
    def factory() -> asyncio.Protocol:
        raise RuntimeError("no protocol today")

    with socket.create_connection(listening.getsockname()) as sock:
        with pytest.raises(RuntimeError, match="no protocol today"):
            run(loop, loop.create_connection(factory, sock=sock))
        assert (sock.fileno() == -1) == (sys.version_info >= (3, 14))


async def test_an_error_of_closing_does_not_hide_why_connecting_has_failed(
    loop: asyncio.AbstractEventLoop, backend_name: str, monkeypatch: pytest.MonkeyPatch, listening: socket.socket
) -> None:
    if backend_name == "asyncio" and sys.version_info < (3, 14):
        pytest.skip("with asyncio's loop it does")

    async def refuse(sock: socket.socket, address: object) -> None:
        raise LookupError("no connection today")

    class Sticking(socket.socket):
        """Closed, it complains."""

        def close(self) -> None:
            super().close()
            raise OSError("the socket sticks")

    monkeypatch.setattr(loop, "sock_connect", refuse)
    address = listening.getsockname()
    with monkeypatch.context() as patched:
        patched.setattr(socket, "socket", Sticking)
        with pytest.raises(LookupError, match="no connection today"):
            await loop.create_connection(Recorder, *address)


@pytest.mark.differs(
    "EventLoop.create_connection",
    why="If the protocol's factory raises, the socket is closed; asyncio leaves it to the garbage collector.",
)
@pytest.mark.loopcore_only  # asyncio leaves the socket to the garbage collector
def test_an_error_of_the_factory_closes_the_socket_made_for_it(
    loop: asyncio.AbstractEventLoop, listening: socket.socket
) -> None:
    def factory() -> asyncio.Protocol:
        raise RuntimeError("no protocol today")

    with pytest.raises(RuntimeError, match="no protocol today"):
        run(loop, loop.create_connection(factory, *listening.getsockname()))
    accepted, _ = listening.accept()
    with accepted:
        accepted.settimeout(PATIENCE)
        assert accepted.recv(1) == b""


async def test_a_cancelled_connect_closes_its_socket(
    loop: asyncio.AbstractEventLoop, full_listener: tuple[str, int]
) -> None:
    connecting = loop.create_task(loop.create_connection(Recorder, *full_listener))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not connecting.done()
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting


@pytest.fixture
def full_listener() -> Iterator[tuple[str, int]]:
    """An address that neither accepts nor refuses: its queue of connections is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as sock:
        fillers = []
        for _ in range(3):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(sock.getsockname())
            fillers.append(filler)
        yield sock.getsockname()
        for filler in fillers:
            filler.close()
