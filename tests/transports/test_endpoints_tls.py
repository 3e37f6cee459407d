"""TLS at every endpoint: echo, upgrade, wrong certificates, peers that never finish a handshake."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.transports.authority import CA
from tests.transports.endpoints_support import echo, finish, run, stop

pytestmark = pytest.mark.settles

LARGE = b"0123456789abcdef" * 65536  # 1 MiB: many records, more than any buffer on the way


@pytest.fixture(scope="module")
def authority() -> CA:
    return CA()


@pytest.fixture(scope="module")
def server_context(authority: CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    return context


@pytest.fixture(scope="module")
def client_context(authority: CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    return context


class Losing(asyncio.Protocol):
    """Says when and why the connection was lost."""

    def __init__(self) -> None:
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


@contextlib.asynccontextmanager
async def echo_server(**options: Any) -> AsyncIterator[tuple[str, int]]:
    server = await asyncio.start_server(echo, "127.0.0.1", 0, **options)
    try:
        yield server.sockets[0].getsockname()
    finally:
        await stop(server)


async def send_and_receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> bytes:
    async def send() -> None:
        writer.write(data)
        await writer.drain()

    received, _ = await asyncio.gather(reader.readexactly(len(data)), send())
    return received


@pytest.mark.covers("EventLoop.create_connection(ssl)", "EventLoop.create_server(ssl)")
@pytest.mark.parametrize("data", [b"x", LARGE], ids=["a byte", "a mebibyte"])
async def test_what_is_sent_over_tls_comes_back(
    server_context: ssl.SSLContext, client_context: ssl.SSLContext, data: bytes
) -> None:
    async with echo_server(ssl=server_context) as address:
        reader, writer = await asyncio.open_connection(*address, ssl=client_context)
        assert await send_and_receive(reader, writer, data) == data
        await finish(writer)


@pytest.mark.covers("SSLTransport.get_extra_info(default)")
async def test_the_transport_reports_its_tls_session(
    server_context: ssl.SSLContext, client_context: ssl.SSLContext
) -> None:
    async with echo_server(ssl=server_context) as address:
        _, writer = await asyncio.open_connection(*address, ssl=client_context, server_hostname="localhost")
        assert writer.get_extra_info("sslcontext") is client_context
        assert writer.get_extra_info("peername") == address
        assert writer.get_extra_info("cipher")
        assert ("DNS", "localhost") in writer.get_extra_info("peercert")["subjectAltName"]
        assert not writer.can_write_eof()
        await finish(writer)


@pytest.mark.covers("EventLoop.create_unix_connection(ssl, server_hostname)", "EventLoop.create_unix_server(ssl)")
async def test_tls_over_a_unix_socket(
    server_context: ssl.SSLContext, client_context: ssl.SSLContext, tmp_path: Path
) -> None:
    server = await asyncio.start_unix_server(echo, tmp_path / "s", ssl=server_context)
    reader, writer = await asyncio.open_unix_connection(tmp_path / "s", ssl=client_context, server_hostname="localhost")
    assert await send_and_receive(reader, writer, LARGE) == LARGE
    await finish(writer)
    await stop(server)


async def test_accepted_and_connected_sockets_take_tls(
    loop: asyncio.AbstractEventLoop, server_context: ssl.SSLContext, client_context: ssl.SSLContext
) -> None:
    ours, theirs = socket.socketpair()

    def factory() -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), echo)

    accepting = loop.create_task(loop.connect_accepted_socket(factory, theirs, ssl=server_context))
    reader, writer = await asyncio.open_connection(sock=ours, ssl=client_context, server_hostname="localhost")
    await accepting
    assert await send_and_receive(reader, writer, b"ping") == b"ping"
    await finish(writer)


async def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext | bool, name: str) -> Any:
    """Let two ends of a socket pair meet; return for each, client first, its connection or its exception."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    return await asyncio.gather(
        loop.create_connection(Losing, sock=ours, ssl=client, server_hostname=name),
        loop.connect_accepted_socket(Losing, theirs, ssl=server),
        return_exceptions=True,
    )


@pytest.mark.parametrize("by_default", [True, False], ids=["ssl=True", "a context"])
def test_an_unknown_authority_is_not_trusted(
    loop: asyncio.AbstractEventLoop, server_context: ssl.SSLContext, by_default: bool
) -> None:
    client = True if by_default else ssl.create_default_context()
    ours, theirs = run(loop, shake_hands(server_context, client, "localhost"))
    assert isinstance(ours, ssl.SSLCertVerificationError)
    assert "unable to get local issuer certificate" in str(ours)
    assert isinstance(theirs, ssl.SSLError | ConnectionError)


def test_a_certificate_for_another_name_is_refused(
    loop: asyncio.AbstractEventLoop, server_context: ssl.SSLContext, client_context: ssl.SSLContext
) -> None:
    ours, theirs = run(loop, shake_hands(server_context, client_context, "elsewhere.test"))
    assert isinstance(ours, ssl.SSLCertVerificationError)
    assert "Hostname mismatch" in str(ours)
    assert isinstance(theirs, ssl.SSLError | ConnectionError)


@pytest.mark.covers("EventLoop.create_connection(server_hostname)")
async def test_an_empty_server_hostname_switches_the_check_of_the_name_off(
    server_context: ssl.SSLContext, authority: CA
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    authority.configure_trust(context)
    for transport, protocol in await shake_hands(server_context, context, ""):
        transport.close()
        await protocol.lost


def test_a_connected_socket_needs_a_name_to_check(
    loop: asyncio.AbstractEventLoop, client_context: ssl.SSLContext
) -> None:
    with socket.socket() as sock, pytest.raises(ValueError, match="You must set server_hostname when using ssl"):
        run(loop, loop.create_connection(asyncio.Protocol, sock=sock, ssl=client_context))


def test_a_socket_that_does_tls_itself_is_refused(
    loop: asyncio.AbstractEventLoop, client_context: ssl.SSLContext
) -> None:
    with (
        client_context.wrap_socket(socket.socket(), server_hostname="x", do_handshake_on_connect=False) as sock,
        pytest.raises(TypeError, match="Socket cannot be of type SSLSocket"),
    ):
        run(loop, loop.create_connection(asyncio.Protocol, sock=sock))


@pytest.mark.parametrize("name", ["ssl_handshake_timeout", "ssl_shutdown_timeout"])
def test_a_timeout_of_zero_is_refused(
    loop: asyncio.AbstractEventLoop, client_context: ssl.SSLContext, name: str
) -> None:
    option: dict[str, Any] = {name: 0}
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()) as sock:
        with pytest.raises(ValueError, match=f"{name} should be a positive number, got 0"):
            run(
                loop,
                loop.create_connection(asyncio.Protocol, sock=sock, ssl=client_context, server_hostname="x", **option),
            )


@pytest.mark.covers("EventLoop.create_connection(ssl_handshake_timeout)")
async def test_a_peer_that_is_silent_in_the_handshake_times_out(
    loop: asyncio.AbstractEventLoop, client_context: ssl.SSLContext
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        with pytest.raises(ConnectionAbortedError, match="SSL handshake is taking longer than"):
            await loop.create_connection(asyncio.Protocol, *address, ssl=client_context, ssl_handshake_timeout=0.05)


@pytest.mark.covers("EventLoop.create_server(ssl_handshake_timeout)")
@pytest.mark.reports_errors  # in debug mode, as asyncio does
async def test_a_client_that_is_silent_in_the_handshake_is_dropped_by_the_server(
    server_context: ssl.SSLContext,
) -> None:
    async with echo_server(ssl=server_context, ssl_handshake_timeout=0.05) as address:
        reader, writer = await asyncio.open_connection(*address)
        assert await reader.read() == b""
        await finish(writer)


@pytest.mark.reports_errors  # in debug mode, as asyncio does
async def test_a_client_that_speaks_no_tls_does_not_disturb_the_server(
    server_context: ssl.SSLContext, client_context: ssl.SSLContext
) -> None:
    async with echo_server(ssl=server_context) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        await finish(writer)
        reader, writer = await asyncio.open_connection(*address, ssl=client_context)
        assert await send_and_receive(reader, writer, b"ping") == b"ping"
        await finish(writer)


async def test_a_cancelled_handshake_closes_the_connection(
    loop: asyncio.AbstractEventLoop, client_context: ssl.SSLContext
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        connecting = loop.create_task(
            loop.create_connection(asyncio.Protocol, *listening.getsockname(), ssl=client_context)
        )
        accepted, _ = await loop.sock_accept(listening)
        with accepted:
            assert await loop.sock_recv(accepted, 1) != b""  # the client's hello: the handshake has begun
            connecting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await connecting
            while await loop.sock_recv(accepted, 65536):
                pass


async def test_closing_ends_the_tls_session_before_the_connection(
    loop: asyncio.AbstractEventLoop, server_context: ssl.SSLContext, client_context: ssl.SSLContext
) -> None:
    async with echo_server(ssl=server_context) as address:
        transport, protocol = await loop.create_connection(Losing, *address, ssl=client_context)
        transport.close()
        assert await protocol.lost is None


async def test_a_server_that_closes_its_clients_ends_tls_connections(
    loop: asyncio.AbstractEventLoop, server_context: ssl.SSLContext, client_context: ssl.SSLContext
) -> None:
    if not hasattr(asyncio.Server, "abort_clients") and isinstance(loop, asyncio.SelectorEventLoop):
        pytest.skip("asyncio has abort_clients since Python 3.13")
    server: Any = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=server_context)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=client_context)
    assert await send_and_receive(reader, writer, b"ping") == b"ping"
    server.close()
    server.abort_clients()
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""
    await finish(writer)
    await server.wait_closed()


async def upgrade_then_echo(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext
) -> None:
    assert await reader.readline() == b"STARTTLS\n"
    writer.write(b"OK\n")
    await writer.drain()
    await writer.start_tls(context)
    await echo(reader, writer)


@pytest.mark.covers("EventLoop.start_tls(server_side, server_hostname)")
async def test_both_ends_upgrade_a_plain_connection(
    server_context: ssl.SSLContext, client_context: ssl.SSLContext
) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await upgrade_then_echo(reader, writer, server_context)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"STARTTLS\n")
    assert await reader.readline() == b"OK\n"
    await writer.start_tls(client_context, server_hostname="localhost")
    assert writer.get_extra_info("cipher")
    assert await send_and_receive(reader, writer, LARGE) == LARGE
    await finish(writer)
    await stop(server)


async def test_a_failed_upgrade_closes_the_connection(
    loop: asyncio.AbstractEventLoop, server_context: ssl.SSLContext
) -> None:
    ours, theirs = socket.socketpair()
    accepting = loop.create_task(loop.connect_accepted_socket(asyncio.Protocol, theirs, ssl=server_context))
    transport, protocol = await loop.create_connection(Losing, sock=ours)
    stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(ssl.SSLCertVerificationError):
        await loop.start_tls(transport, protocol, stranger, server_hostname="localhost")
    assert transport.is_closing()
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await accepting


def test_an_upgrade_needs_a_context_and_a_transport_that_can(
    loop: asyncio.AbstractEventLoop, client_context: ssl.SSLContext
) -> None:
    not_a_context: Any = True
    transport = asyncio.Transport()
    with pytest.raises(TypeError, match=r"sslcontext is expected to be an instance of ssl\.SSLContext, got True"):
        run(loop, loop.start_tls(transport, asyncio.Protocol(), not_a_context))
    with pytest.raises(TypeError, match=r"transport .* is not supported by start_tls\(\)"):
        run(loop, loop.start_tls(transport, asyncio.Protocol(), client_context))


async def test_tls_within_tls(server_context: ssl.SSLContext, client_context: ssl.SSLContext) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await upgrade_then_echo(reader, writer, server_context)

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=server_context)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=client_context)
    writer.write(b"STARTTLS\n")
    assert await reader.readline() == b"OK\n"
    await writer.start_tls(client_context, server_hostname="localhost")
    assert await send_and_receive(reader, writer, b"ping") == b"ping"
    await finish(writer)
    await stop(server)
