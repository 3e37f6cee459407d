"""TLS: what `ssl=` and `start_tls` stand on.

This is the one module that knows how TLS is done. The others pass `TlsSettings` through and get a transport
back. Today the work is done by `asyncio.sslproto.SSLProtocol` of the running Python, as the protocol of a
loopcore transport, so its behaviour, errors and texts are asyncio's by construction; a TLS layer of our own
replaces the bodies of `Tls` and nothing else.

`SSLProtocol` takes a loop and uses five methods of it; `CallScheduler` lists them.

Thread: the loop's own. Timeouts are in seconds; None means asyncio's default (60 for the handshake, 30 for
the shutdown), zero or less is a ValueError.
"""

import asyncio
import socket
from asyncio import sslproto
from typing import Any, NamedTuple, TypeAlias

from loopcore.endpoints.needs import CallScheduler, CreateFuture, TransportFactory

try:
    import ssl
except ImportError:  # a Python built without OpenSSL
    ssl = None  # type: ignore[assignment]

SslArgument: TypeAlias = "bool | ssl.SSLContext | None"
"""What asyncio's `ssl=` takes: a context; True for a client's default context; or a false value for no TLS."""


class TlsSettings(NamedTuple):
    """What one connection, or all connections of a server, are secured with."""

    context: "ssl.SSLContext | None"
    """None stands for a client's default context."""

    server_side: bool = False
    server_hostname: str | None = None
    handshake_timeout: float | None = None
    shutdown_timeout: float | None = None


def tls_settings(
    argument: SslArgument,
    *,
    server_side: bool = False,
    server_hostname: str | None = None,
    handshake_timeout: float | None = None,
    shutdown_timeout: float | None = None,
) -> TlsSettings | None:
    """Check the TLS arguments of an endpoint against each other; None means without TLS.

    Raises ValueError for an argument that needs `ssl` and does not have it.
    """
    if not argument:
        for name, value in (
            ("server_hostname", server_hostname),
            ("ssl_handshake_timeout", handshake_timeout),
            ("ssl_shutdown_timeout", shutdown_timeout),
        ):
            if value is not None:
                raise ValueError(f"{name} is only meaningful with ssl")
        return None
    context = None if isinstance(argument, bool) else argument
    return TlsSettings(context, server_side, server_hostname, handshake_timeout, shutdown_timeout)


def refuse_tls_socket(sock: socket.socket) -> None:
    """Raise TypeError for a socket that does TLS itself: the transport would see its records twice."""
    if ssl is not None and isinstance(sock, ssl.SSLSocket):
        raise TypeError("Socket cannot be of type SSLSocket")


def refuse_bool(argument: object) -> None:
    """Raise TypeError where a server is given `ssl=True`: it has no default certificate."""
    if isinstance(argument, bool):
        raise TypeError("ssl argument must be an SSLContext or None")


class Tls:
    """Makes transports that speak TLS over plain ones."""

    def __init__(
        self,
        scheduler: CallScheduler,
        *,
        create_future: CreateFuture,
        make_transport: TransportFactory,
    ) -> None:
        self._scheduler = scheduler
        self._create_future = create_future
        self._make_transport = make_transport

    def make_transport(
        self,
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        settings: TlsSettings,
        *,
        waiter: "asyncio.Future[Any] | None" = None,
        extra: dict[str, Any] | None = None,
        server: Any = None,
    ) -> asyncio.Transport:
        """Return the transport `protocol` will see; `waiter` is resolved when the handshake is over.

        Takes the socket over, except when it raises: ValueError for a timeout that is not positive, or for a
        server without a context.
        """
        layer = self._layer(protocol, settings, waiter, call_connection_made=True)
        secured: asyncio.Transport = layer._get_app_transport()
        self._make_transport(sock, layer, extra=extra, server=server)
        return secured

    async def start_tls(
        self,
        transport: Any,
        protocol: asyncio.BaseProtocol,
        sslcontext: "ssl.SSLContext",
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
    ) -> asyncio.Transport:
        """Put TLS between `transport` and `protocol`, and return the transport that `protocol` should use now.

        Raises TypeError for a context or a transport that cannot do it, and what the handshake raised; the
        transport is closed then, as it is when this is cancelled.
        """
        if ssl is None:
            raise RuntimeError("Python ssl module is not available")
        if not isinstance(sslcontext, ssl.SSLContext):
            raise TypeError(f"sslcontext is expected to be an instance of ssl.SSLContext, got {sslcontext!r}")
        if not getattr(transport, "_start_tls_compatible", False):
            raise TypeError(f"transport {transport!r} is not supported by start_tls()")
        settings = TlsSettings(sslcontext, server_side, server_hostname, ssl_handshake_timeout, ssl_shutdown_timeout)
        waiter = self._create_future()
        layer = self._layer(protocol, settings, waiter, call_connection_made=False)
        secured: asyncio.Transport = layer._get_app_transport()
        # What the peer sends first belongs to the handshake: reading rests until the layer has been told of its
        # transport, and both calls below keep this order.
        transport.pause_reading()
        transport.set_protocol(layer)
        made = self._scheduler.call_soon(layer.connection_made, transport)
        resumed = self._scheduler.call_soon(transport.resume_reading)
        try:
            await waiter
        except BaseException:
            transport.close()
            made.cancel()
            resumed.cancel()
            raise
        finally:
            # A failed waiter holds its exception, whose traceback holds this frame.
            del waiter
        return secured

    def _layer(
        self,
        protocol: asyncio.BaseProtocol,
        settings: TlsSettings,
        waiter: "asyncio.Future[Any] | None",
        *,
        call_connection_made: bool,
    ) -> Any:
        # Typed as Any: what we use of SSLProtocol is private, and typeshed describes another Python's.
        make: Any = sslproto.SSLProtocol
        return make(
            self._scheduler,
            protocol,
            settings.context,
            waiter,
            settings.server_side,
            settings.server_hostname,
            call_connection_made=call_connection_made,
            ssl_handshake_timeout=settings.handshake_timeout,
            ssl_shutdown_timeout=settings.shutdown_timeout,
        )
