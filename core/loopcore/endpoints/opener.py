"""From a connected socket to a transport and its protocol: the last step of every stream endpoint.

`StreamOpener` implements that step; `connect_accepted_socket` is only this step, for sockets that the program accepted
itself.
"""

import asyncio
import socket
import sys
from typing import TYPE_CHECKING, Any, Final

from loopcore.endpoints.needs import Connection, EndpointHost, ProtocolFactory
from loopcore.endpoints.tls import SslArgument, Tls, TlsSettings, refuse_tls_socket, tls_settings
from loopcore.log import logger

if TYPE_CHECKING:
    from loopcore.transports.server import MakeTransport, Server

CLOSES_PASSED_SOCKETS: Final = sys.version_info >= (3, 14)
"""Whether a socket that the program passed in is closed if its transport is never made (gh-153133)."""


def require_stream(sock: socket.socket) -> None:
    """Raise ValueError for a socket that is not SOCK_STREAM."""
    if sock.type != socket.SOCK_STREAM:
        raise ValueError(f"A Stream Socket was expected, got {sock!r}")


class StreamOpener:
    """Makes transports, plain or with TLS, and waits until they are open. Thread: the loop's own."""

    def __init__(self, host: EndpointHost, make_transport: "MakeTransport", tls: Tls) -> None:
        self._host = host
        self._make_transport = make_transport
        self._tls = tls

    def make_transport(
        self,
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        *,
        tls: TlsSettings | None,
        waiter: asyncio.Future[Any] | None = None,
        extra: dict[str, Any] | None = None,
        server: "Server | None" = None,
    ) -> asyncio.Transport:
        """Return the transport that `connection_made` of `protocol` will get; `waiter` is resolved when it is open."""
        if tls is None:
            return self._make_transport(sock, protocol, waiter=waiter, extra=extra, server=server)
        return self._tls.make_transport(sock, protocol, tls, waiter=waiter, extra=extra, server=server)

    async def open(
        self,
        sock: socket.socket,
        protocol_factory: ProtocolFactory,
        tls: TlsSettings | None,
        *,
        ours: bool = False,
    ) -> Connection:
        """Open `sock` for a new protocol; with TLS, this includes the handshake.

        Until a transport owns the socket, an error closes it only if it is `ours`: created for this connection or, from
        Python 3.14 on, passed in by the program. After that the transport closes it. One that has a transport already
        is refused, with RuntimeError, and stays open.
        """
        if not ours:
            self._host._transports.check_free(sock.fileno(), sock)
        try:
            sock.setblocking(False)
            protocol = protocol_factory()
            waiter = self._host.create_future()
            transport = self.make_transport(sock, protocol, tls=tls, waiter=waiter)
        except BaseException:
            if ours or CLOSES_PASSED_SOCKETS:
                sock.close()
            raise
        try:
            await waiter
        except BaseException:
            transport.close()
            raise
        finally:
            # A failed waiter holds its exception, whose traceback holds this frame.
            del waiter
        return transport, protocol

    async def connect_accepted_socket(
        self,
        protocol_factory: ProtocolFactory,
        sock: socket.socket,
        *,
        ssl: SslArgument = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
    ) -> Connection:
        """Serve a connection that was accepted outside the loop. Parameters and errors are asyncio's."""
        require_stream(sock)
        tls = tls_settings(
            ssl,
            server_side=True,
            handshake_timeout=ssl_handshake_timeout,
            shutdown_timeout=ssl_shutdown_timeout,
        )
        refuse_tls_socket(sock)
        transport, protocol = await self.open(sock, protocol_factory, tls)
        if self._host.get_debug():
            logger.debug("%r handled: (%r, %r)", transport.get_extra_info("socket"), transport, protocol)
        return transport, protocol
