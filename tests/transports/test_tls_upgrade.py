"""start_tls: from plain to TLS in the middle of a stream, and what has been received by then.

asyncio of the Pythons before December 2025 loses what its StreamReader has buffered, and then waits for it
(python/cpython#142352, MagicStack/uvloop#707); those tests have no oracle.
"""

import asyncio
import socket
import ssl
from typing import Any
from unittest.mock import Mock

import pytest

import loopcore
from tests.transports.recorder import Recorder, settle, unix_pair
from tests.transports.tls_support import Peer, client_context, server_context, stranger_context

ROLES = pytest.mark.parametrize("server_side", [True, False], ids=["server", "client"])


def peer_of(sock: socket.socket, server_side: bool) -> Peer:
    return Peer(sock, client_context() if server_side else server_context(), server_side=not server_side)


async def upgrade(transport: Any, protocol: Any, server_side: bool, **options: Any) -> Any:
    context = options.pop("context", None) or (server_context() if server_side else client_context())
    name = None if server_side else "localhost"
    return await asyncio.get_running_loop().start_tls(
        transport, protocol, context, server_side=server_side, server_hostname=name, **options
    )


@ROLES
async def test_a_protocol_is_upgraded(loop: asyncio.AbstractEventLoop, server_side: bool) -> None:
    near, far = unix_pair()
    protocol = Recorder()
    with far:
        plain, _ = await loop.connect_accepted_socket(lambda: protocol, near)
        plain.write(b"plain words first")
        assert await loop.sock_recv(far, 100) == b"plain words first"
        peer = peer_of(far, server_side)
        secured, _ = await asyncio.gather(upgrade(plain, protocol, server_side), peer.handshake())
        assert secured is not plain
        assert secured.get_protocol() is protocol
        secured.write(b"secret")
        assert await peer.receive(6) == b"secret"
        await peer.send(b"too")
        await protocol.seen("data")
        await peer.notify()
        await protocol.seen("lost")
        assert protocol.events == [("made",), ("data", b"too"), ("eof",), ("lost", None)]


async def test_what_was_written_plain_leaves_before_the_handshake(loop: asyncio.AbstractEventLoop) -> None:
    near, far = unix_pair()
    protocol = Recorder()
    with far:
        plain, _ = await loop.connect_accepted_socket(lambda: protocol, near)
        plain.write(b"220 go ahead\r\n" * 10_000)
        upgrading = asyncio.ensure_future(upgrade(plain, protocol, server_side=False))
        got = b""
        while len(got) < 140_000:
            got += await loop.sock_recv(far, 140_000 - len(got))
        assert got == b"220 go ahead\r\n" * 10_000
        await peer_of(far, server_side=False).handshake()
        (await upgrading).abort()
        await protocol.seen("lost")


async def test_a_stream_that_was_ended_below_tls_ends_only_its_own_connection(loop: asyncio.AbstractEventLoop) -> None:
    near, far = unix_pair()
    protocol = Recorder()
    reports: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: reports.append(context))
    with far:
        plain, _ = await loop.connect_accepted_socket(lambda: protocol, near)
        secured, _ = await asyncio.gather(
            upgrade(plain, protocol, server_side=False), peer_of(far, server_side=False).handshake()
        )
        plain.write_eof()
        secured.write(b"too late")
        await protocol.seen("lost")
    (report,) = reports
    assert str(report["exception"]) == "Cannot call write() after write_eof()"
    assert protocol.events == [("made",), ("lost", report["exception"])]


async def streams(sock: socket.socket, *, server_side: bool, limit: int = 65536) -> tuple[Any, Any]:
    """Open streams on a socket; server_side: as those that asyncio.start_server makes."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit)
    served: asyncio.Future[Any] = loop.create_future()

    def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.set_result(writer)

    protocol = asyncio.StreamReaderProtocol(reader, serve if server_side else None)
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock)
    if server_side:
        return reader, await served
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


@pytest.mark.differs(
    "EventLoop.start_tls",
    why="Data buffered in the protocol's StreamReader is part of the handshake; asyncio loses it.",
)
@ROLES
@pytest.mark.parametrize("together", [True, False], ids=["in one receive", "in two"])
@pytest.mark.loopcore_only
async def test_what_a_stream_has_buffered_belongs_to_the_handshake(
    loop: Any, server_side: bool, together: bool
) -> None:
    """A line (the PROXY protocol's, say) and the beginning of the handshake have come before the upgrade."""
    near, far = unix_pair()
    with far:
        reader, writer = await streams(near, server_side=server_side)
        # The peer begins the handshake, whichever end of the connection it is.
        peer = Peer(far, client_context(), server_side=False)
        with pytest.raises(ssl.SSLWantReadError):
            peer.tls.do_handshake()
        hello = peer.outgoing.read()
        for part in [b"PROXY\r\n" + hello] if together else [b"PROXY\r\n", hello]:
            await loop.sock_sendall(far, part)
            await settle()
        assert await reader.readline() == b"PROXY\r\n"
        secured, _ = await asyncio.gather(
            loop.start_tls(writer.transport, writer.transport.get_protocol(), server_context(), server_side=True),
            peer.handshake(),
        )
        await peer.send(b"line 1\nline 2\n")
        assert await reader.readline() == b"line 1\n"
        assert await reader.readline() == b"line 2\n"
        secured.abort()
        await settle()


@pytest.mark.loopcore_only
async def test_a_client_that_answers_in_advance_is_understood(loop: Any) -> None:
    """The other direction: our end begins the handshake, and the peer's answer came into the reader, too.

    Two TLS clients cannot talk; so the early bytes are a server's answer to a hello it has guessed: an alert.
    """
    near, far = unix_pair()
    with far:
        reader, writer = await streams(near, server_side=False)
        await loop.sock_sendall(far, b"OK\n" + bytes([21, 3, 3, 0, 2, 2, 40]))
        assert await reader.readline() == b"OK\n"
        with pytest.raises(ssl.SSLError, match="handshake failure"):
            await loop.start_tls(
                writer.transport, writer.transport.get_protocol(), client_context(), server_hostname="localhost"
            )
        assert reader._buffer == b""


@pytest.mark.loopcore_only
async def test_writers_upgrade_with_what_is_buffered(loop: Any) -> None:
    near, far = unix_pair()
    with far:
        reader, writer = await streams(near, server_side=True)
        peer = Peer(far, client_context(), server_side=False)
        with pytest.raises(ssl.SSLWantReadError):
            peer.tls.do_handshake()
        await loop.sock_sendall(far, b"PROXY\r\n" + peer.outgoing.read())
        assert await reader.readline() == b"PROXY\r\n"
        await asyncio.gather(writer.start_tls(server_context()), peer.handshake())
        assert writer.get_extra_info("cipher") == peer.tls.cipher()
        writer.write(b"hello")
        assert await peer.receive(5) == b"hello"
        writer.close()
        await peer.receive()
        await peer.notify()
        await writer.wait_closed()


@pytest.mark.loopcore_only
async def test_a_reader_pauses_the_transport_that_has_taken_the_place_of_the_first() -> None:
    """Issue 33: until Python 3.14 asyncio's reader went on pausing the plain one."""
    reader = loopcore.StreamReader(limit=10)
    protocol = loopcore.StreamReaderProtocol(reader)
    first, second = Mock(), Mock()
    protocol.connection_made(first)
    protocol._replace_transport(second)
    protocol.data_received(b"x" * 100)
    assert not first.pause_reading.called
    assert second.pause_reading.called


@pytest.mark.loopcore_only
async def test_a_reader_that_was_full_is_read_again(loop: Any) -> None:
    """A hello longer than the reader's limit has paused the transport; TLS takes it, and reading goes on."""
    near, far = unix_pair()
    with far:
        reader, writer = await streams(near, server_side=True, limit=16)
        peer = Peer(far, client_context(), server_side=False)
        with pytest.raises(ssl.SSLWantReadError):
            peer.tls.do_handshake()
        await loop.sock_sendall(far, b"PROXY\r\n" + peer.outgoing.read())
        assert await reader.readline() == b"PROXY\r\n"
        assert not writer.transport.is_reading()
        await asyncio.gather(writer.start_tls(server_context()), peer.handshake())
        await peer.send(b"hello\n")
        assert await reader.readline() == b"hello\n"
        writer.transport.abort()
        await settle()


@pytest.mark.loopcore_only
async def test_a_stream_that_has_ended_cannot_be_upgraded(loop: Any) -> None:
    near, far = unix_pair()
    with far:
        reader, writer = await streams(near, server_side=True)
        await loop.sock_sendall(far, b"PROXY\r\n")
        far.shutdown(socket.SHUT_WR)
        assert await reader.readline() == b"PROXY\r\n"
        await settle()
        with pytest.raises(ConnectionResetError):
            await writer.start_tls(server_context())
        await settle()


async def test_a_protocol_that_has_seen_the_end_cannot_be_upgraded(loop: asyncio.AbstractEventLoop) -> None:
    near, far = unix_pair()
    protocol = Recorder()
    protocol.keep_open = True
    with far:
        plain, _ = await loop.connect_accepted_socket(lambda: protocol, near)
        far.shutdown(socket.SHUT_WR)
        await protocol.seen("eof")
        with pytest.raises(ConnectionResetError):
            await upgrade(plain, protocol, True)
        await settle()
        assert plain.is_closing()


@ROLES
async def test_an_upgrade_that_fails_ends_the_connection_once(
    loop: asyncio.AbstractEventLoop, server_side: bool
) -> None:
    near, far = unix_pair()
    protocol = Recorder()
    with far:
        plain, _ = await loop.connect_accepted_socket(lambda: protocol, near)
        peer = Peer(far, stranger_context() if server_side else server_context(), server_side=not server_side)
        context = None if server_side else stranger_context()
        told = await asyncio.gather(
            upgrade(plain, protocol, server_side, context=context), peer.handshake(), return_exceptions=True
        )
        assert isinstance(told[0], ssl.SSLError | ConnectionResetError)
        await settle()
        assert plain.is_closing()
        assert protocol.kinds() == ["made", "lost"]
        assert protocol.lost_with() is told[0]


@pytest.mark.differs(
    "EventLoop.start_tls(ssl_handshake_timeout)",
    why="A protocol that knows of the connection is also notified of its end; asyncio does not notify it.",
)
@pytest.mark.loopcore_only
async def test_an_upgrade_that_takes_too_long_ends_the_connection(loop: Any) -> None:
    """asyncio does not tell the protocol, which knows of the connection."""
    near, far = unix_pair()
    protocol = Recorder()
    with far:
        plain, _ = await loop.connect_accepted_socket(lambda: protocol, near)
        with pytest.raises(ConnectionAbortedError, match="SSL handshake is taking longer than"):
            await upgrade(plain, protocol, server_side=True, ssl_handshake_timeout=0.05)
        await settle()
        assert protocol.kinds() == ["made", "lost"]
        assert isinstance(protocol.lost_with(), ConnectionAbortedError)


async def test_an_upgrade_that_is_cancelled_closes_the_connection(loop: asyncio.AbstractEventLoop) -> None:
    near, far = unix_pair()
    protocol = Recorder()
    with far:
        plain, _ = await loop.connect_accepted_socket(lambda: protocol, near)
        upgrading = asyncio.ensure_future(upgrade(plain, protocol, server_side=False))
        assert await loop.sock_recv(far, 1 << 16)
        upgrading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await upgrading
        assert await loop.sock_recv(far, 1) == b""
        await settle()


@pytest.mark.differs(
    "EventLoop.start_tls",
    why="If the connection is aborted meanwhile it raises ConnectionAbortedError; asyncio returns None.",
)
@pytest.mark.loopcore_only
async def test_a_transport_that_is_aborted_during_the_upgrade_fails_it(loop: Any) -> None:
    """asyncio returns None in place of the transport."""
    near, far = unix_pair()
    protocol = Recorder()
    with far:
        plain, _ = await loop.connect_accepted_socket(lambda: protocol, near)
        upgrading = asyncio.ensure_future(upgrade(plain, protocol, server_side=False))
        assert await loop.sock_recv(far, 1 << 16)
        plain.abort()
        with pytest.raises(ConnectionAbortedError, match="closed during the SSL handshake"):
            await upgrading
        assert protocol.kinds() == ["made", "lost"]


@pytest.mark.differs(
    "EventLoop.start_tls",
    why="On a connection that was already closed it raises ConnectionAbortedError; asyncio returns None or never.",
)
@pytest.mark.loopcore_only
async def test_a_transport_that_has_closed_cannot_be_upgraded(loop: Any) -> None:
    """Python 3.11 never returns; 3.12 and 3.13 return None, or never if `connection_lost` was called already."""
    near, far = unix_pair()
    protocol = Recorder()
    with far:
        plain, _ = await loop.connect_accepted_socket(lambda: protocol, near)
        plain.close()
        with pytest.raises(ConnectionAbortedError, match="the connection was closed"):
            await upgrade(plain, protocol, server_side=False)
        await settle()
        with pytest.raises(ConnectionAbortedError, match="the connection was closed"):
            await upgrade(plain, protocol, server_side=False)
        assert protocol.kinds() == ["made", "lost"]


@pytest.mark.loopcore_only
async def test_tls_in_tls_with_both_handshakes_buffered() -> None:
    """The inner hello comes in the same record as the line before it."""
    near, far = unix_pair()
    with far:
        outer = Peer(far, client_context(), server_side=False)
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        loop = asyncio.get_running_loop()
        (transport, _), _ = await asyncio.gather(
            loop.connect_accepted_socket(lambda: protocol, near, ssl=server_context()), outer.handshake()
        )
        inner = Peer(far, client_context(), server_side=False)

        async def flush() -> None:
            await outer.send(inner.outgoing.read())

        async def fetch() -> bool:
            while True:
                try:
                    data = outer.tls.read(1 << 16)
                except ssl.SSLWantReadError:
                    if not await outer.fetch():
                        return False
                    continue
                inner.incoming.write(data)
                return True

        inner.flush, inner.fetch = flush, fetch  # type: ignore[method-assign]
        with pytest.raises(ssl.SSLWantReadError):
            inner.tls.do_handshake()
        await outer.send(b"STARTTLS\r\n" + inner.outgoing.read())
        assert await reader.readline() == b"STARTTLS\r\n"
        secured, _ = await asyncio.gather(
            loop.start_tls(transport, protocol, server_context(), server_side=True), inner.handshake()
        )
        assert isinstance(secured.get_extra_info("socket").fileno(), int)
        secured.write(b"x" * 300_000)
        assert len(await inner.receive(300_000)) == 300_000
        inner.tls.write(b"deep\n")
        await flush()
        assert await reader.readline() == b"deep\n"
        secured.close()
        await inner.receive()
        await inner.notify()
        await outer.receive()
        await outer.notify()
        while near.fileno() >= 0:  # until the outer connection has ended, too
            await asyncio.sleep(0)
