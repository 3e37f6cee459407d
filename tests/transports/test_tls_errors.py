"""How a TLS connection fails: in the handshake, by garbage, by resets; and who is told what."""

import asyncio
import contextlib
import gc
import shutil
import socket
import ssl
import subprocess
from typing import Any

import pytest

from tests.transports.recorder import BufferedRecorder, Recorder, reset, settle, tcp_pair, unix_pair
from tests.transports.tls_support import (
    Peer,
    client_context,
    connect,
    secured,
    server_context,
    stranger_context,
)


async def test_the_handshake_times_out() -> None:
    near, far = unix_pair()
    with far:
        protocol = Recorder()
        message = r"^SSL handshake is taking longer than 0\.05 seconds: aborting the connection$"
        with pytest.raises(ConnectionAbortedError, match=message):
            await connect(protocol, near, server_side=False, ssl_handshake_timeout=0.05)
        await settle()
        assert protocol.events == []


@pytest.mark.parametrize("server_side", [True, False], ids=["server", "client"])
async def test_a_peer_that_leaves_in_the_handshake_is_a_reset(server_side: bool) -> None:
    near, far = unix_pair()
    protocol = Recorder()
    far.shutdown(socket.SHUT_WR)
    with far, pytest.raises(ConnectionResetError):
        await connect(protocol, near, server_side=server_side)
    await settle()
    assert protocol.events == []


@pytest.mark.parametrize("server_side", [True, False], ids=["server", "client"])
async def test_garbage_in_the_handshake_is_an_error_of_tls(server_side: bool) -> None:
    near, far = unix_pair()
    protocol = Recorder()
    with far:
        far.send(b"GET / HTTP/1.0\r\n\r\n")
        with pytest.raises(ssl.SSLError, match="HTTP_REQUEST"):
            await connect(protocol, near, server_side=server_side)
        await settle()
        assert protocol.events == []


async def test_the_reason_of_a_failed_verification_reaches_the_caller() -> None:
    near, far = unix_pair()
    peer = Peer(far, server_context(), server_side=True)
    with far:
        told = await asyncio.gather(
            connect(Recorder(), near, server_side=False, ssl=stranger_context()),
            peer.handshake(),
            return_exceptions=True,
        )
        assert isinstance(told[0], ssl.SSLCertVerificationError)
        assert told[0].verify_message == "unable to get local issuer certificate"


@pytest.mark.differs(
    "EventLoop.create_connection(ssl)",
    why="A side whose handshake fails sends an alert with the reason; asyncio's peers see a reset.",
)
@pytest.mark.loopcore_only
async def test_the_peer_learns_why_the_handshake_failed() -> None:
    """asyncio drops the alert with the connection: its peers see a reset."""
    near, far = tcp_pair()
    peer = Peer(far, server_context(), server_side=True)
    with far:
        told = await asyncio.gather(
            connect(Recorder(), near, server_side=False, ssl=stranger_context()),
            peer.handshake(),
            return_exceptions=True,
        )
        assert isinstance(told[1], ssl.SSLError)
        assert "unknown ca" in str(told[1])


@pytest.mark.covers("SSLTransport.is_closing")
async def test_a_garbled_record_ends_the_connection() -> None:
    protocol = Recorder()
    async with secured(protocol) as (transport, peer):
        await peer.send(b"good")
        await protocol.seen("data")
        await asyncio.get_running_loop().sock_sendall(peer.sock, b"\x17\x03\x03\x00\x20" + bytes(32))
        await protocol.seen("lost")
        assert isinstance(protocol.lost_with(), ssl.SSLError)
        assert protocol.received() == b"good"
        assert transport.is_closing()


@pytest.mark.loopcore_only
async def test_what_came_before_a_garbled_record_is_received() -> None:
    protocol = Recorder()
    async with secured(protocol) as (_, peer):
        peer.tls.write(b"good")
        garbled = peer.outgoing.read() + b"\x17\x03\x03\x00\x20" + bytes(32)
        await asyncio.get_running_loop().sock_sendall(peer.sock, garbled)
        await protocol.seen("lost")
        assert isinstance(protocol.lost_with(), ssl.SSLError)
        assert protocol.received() == b"good"
        with pytest.raises(ssl.SSLError, match="alert"):
            await peer.receive()


async def test_a_reset_is_handed_to_the_protocol() -> None:
    protocol = Recorder()
    async with secured(protocol, make_pair=tcp_pair) as (_, peer):
        await peer.send(b"x")
        await protocol.seen("data")
        reset(peer.sock)
        await protocol.seen("lost")
        assert isinstance(protocol.lost_with(), ConnectionResetError)
        await settle()
        assert protocol.kinds() == ["made", "data", "lost"]


@pytest.mark.covers("SSLTransport.write")
async def test_one_write_to_a_peer_that_has_gone_is_one_write(caplog: pytest.LogCaptureFixture) -> None:
    protocol = Recorder()
    async with secured(protocol, make_pair=tcp_pair) as (transport, peer):
        reset(peer.sock)  # the loop has not looked yet
        transport.write(bytes(10_000_000))
        await protocol.seen("lost")
    assert isinstance(protocol.lost_with(), ConnectionResetError | BrokenPipeError)
    assert "socket.send() raised exception." not in caplog.text


@pytest.mark.reports_errors
async def test_a_protocol_that_fails_in_connection_made_loses_the_connection() -> None:
    protocol = Recorder()
    error = ValueError("not now")

    def fail() -> None:
        raise error

    protocol.react["made"] = fail
    near, far = unix_pair()
    with far:
        peer = Peer(far, client_context(), server_side=False)
        told = await asyncio.gather(connect(protocol, near, server_side=True), peer.handshake(), return_exceptions=True)
        assert told[0] is error
        await settle()
        assert protocol.events == [("made",), ("lost", error)]


@pytest.mark.reports_errors
async def test_a_protocol_that_fails_in_eof_received_loses_the_connection() -> None:
    protocol = Recorder()
    error = ValueError("not now")

    def fail() -> None:
        raise error

    protocol.react["eof"] = fail
    async with secured(protocol) as (_, peer):
        await peer.notify()
        await protocol.seen("lost")
        assert protocol.lost_with() is error


@pytest.mark.parametrize("failing", ["data", "eof"])
@pytest.mark.parametrize("recorder", [Recorder, BufferedRecorder])
@pytest.mark.reports_errors
async def test_what_a_protocol_wrote_before_its_error_is_sent(failing: str, recorder: type[Any]) -> None:
    protocol = recorder()

    def fail() -> None:
        protocol.transport.write(b"the answer")
        raise ZeroDivisionError

    protocol.react[failing] = fail
    async with secured(protocol, make_pair=tcp_pair) as (_, peer):
        await peer.send(b"question")
        if failing == "eof":
            await peer.notify()
        assert await peer.receive() == b"the answer"
        await protocol.seen("lost")
        assert isinstance(protocol.lost_with(), ZeroDivisionError)


@pytest.mark.reports_errors
async def test_a_protocol_that_aborts_and_then_fails_hears_of_an_abort() -> None:
    protocol = Recorder()

    def fail() -> None:
        protocol.transport.abort()
        raise ZeroDivisionError

    protocol.react["data"] = fail
    async with secured(protocol) as (_, peer):
        await peer.send(b"question")
        await protocol.seen("lost")
        assert protocol.lost_with() is None


@pytest.mark.reports_errors
async def test_a_protocol_that_fails_in_connection_lost_is_reported() -> None:
    protocol = Recorder()

    def fail() -> None:
        raise ValueError("not now")

    protocol.react["lost"] = fail
    async with secured(protocol) as (transport, peer):
        transport.abort()
        assert await peer.receive() == b""


async def test_a_handshake_that_is_cancelled_closes_the_socket() -> None:
    near, far = unix_pair()
    with far:
        connecting = asyncio.ensure_future(connect(Recorder(), near, server_side=False))
        peer = Peer(far, server_context(), server_side=True)
        assert await peer.fetch()
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        assert not await peer.fetch()


async def test_a_connection_that_is_cancelled_before_it_began_closes_the_socket() -> None:
    near, far = unix_pair()
    with far:
        connecting = asyncio.ensure_future(connect(Recorder(), near, server_side=False))
        await asyncio.sleep(0)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        peer = Peer(far, server_context(), server_side=True)
        while await peer.fetch():
            pass
        assert near.fileno() < 0


async def test_no_exception_is_left_to_complain_of(loop: Any) -> None:
    """A connection that fails while nobody waits for it (a server's) reports nothing."""
    reported: list[Any] = []
    loop.set_exception_handler(lambda _, context: reported.append(context))
    server = await loop.create_server(Recorder, "127.0.0.1", 0, ssl=server_context())
    with socket.socket() as client:
        client.setblocking(False)
        await loop.sock_connect(client, server.sockets[0].getsockname())
        await loop.sock_sendall(client, b"GET / HTTP/1.0\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while await loop.sock_recv(client, 4096):
                pass
    await settle(10)
    server.close()
    await server.wait_closed()
    gc.collect()
    assert not reported


ALLOW_CLIENT_RENEGOTIATION = 1 << 8
"""SSL_OP_ALLOW_CLIENT_RENEGOTIATION of OpenSSL 3, which Python has no name for. Without it a server refuses."""


@pytest.mark.skipif(shutil.which("openssl") is None, reason="Python cannot ask for a renegotiation; openssl(1) can")
@pytest.mark.parametrize("allowed", [True, False], ids=["allowed", "refused"])
async def test_renegotiation_is_what_the_context_says(loop: asyncio.AbstractEventLoop, allowed: bool) -> None:
    """TLS 1.2: `R` makes s_client ask for it. Where it is refused the connection ends: s_client goes not on without."""
    protocol = Recorder()
    context = server_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ALLOW_CLIENT_RENEGOTIATION if allowed else ssl.OP_NO_RENEGOTIATION
    options = context.options
    server = await loop.create_server(lambda: protocol, "127.0.0.1", 0, ssl=context)
    assert context.options == options, "the options are the program's"
    ours, theirs = socket.socketpair()
    process = await loop.run_in_executor(None, start_s_client, server.sockets[0].getsockname(), theirs)
    with ours, process:
        ours.setblocking(False)
        await loop.sock_sendall(ours, b"hello\n")
        await protocol.until(lambda: protocol.received() == b"hello\n")
        await loop.sock_sendall(ours, b"R\n")
        said = b""
        while (b"RENEGOTIATING" if allowed else b"no renegotiation") not in said:
            part = await loop.sock_recv(ours, 4096)
            assert part, said
            said += part
        if allowed:
            await loop.sock_sendall(ours, b"again\n")
            await protocol.until(lambda: protocol.received() == b"hello\nagain\n")
            protocol.transport.write(b"and back")
            while b"and back" not in said:
                said += await loop.sock_recv(ours, 4096)
        process.kill()
    await protocol.seen("lost")
    assert protocol.received() == b"hello\n" + (b"again\n" if allowed else b"")
    server.close()
    await server.wait_closed()
    await loop.shutdown_default_executor()


def start_s_client(address: tuple[str, int], sock: socket.socket) -> Any:
    command = ["openssl", "s_client", "-tls1_2", "-legacy_renegotiation", "-connect", f"{address[0]}:{address[1]}"]
    with sock:
        return subprocess.Popen(command, stdin=sock, stdout=sock, stderr=sock)


async def test_default_contexts_check_names() -> None:
    near, far = unix_pair()
    with far, pytest.raises(ValueError, match=r"You must set server_hostname|check_hostname requires"):
        await connect(Recorder(), near, server_side=False, server_hostname=None)
    near.close()
