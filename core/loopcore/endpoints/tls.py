"""TLS: the implementation of `ssl=` and `start_tls`.

The only module of the endpoints that knows how TLS is implemented: by an `SSLTransport` over a plain one. The others
pass `TlsSettings` through and get a transport back.

Thread: the loop's own. Timeouts are in seconds; None means asyncio's default (60 for the handshake, 30 for
the shutdown), zero or less raises ValueError.
"""

import asyncio
import socket
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from loopcore.transports.tls import SSLTransport
from loopcore.transports.tls_sending import HANDSHAKE_TIMEOUT, SHUTDOWN_TIMEOUT

try:
    import ssl
except ImportError:  # a Python built without OpenSSL
    ssl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from ssl import SSLContext

    from loopcore.kernel.scheduler import Scheduler
    from loopcore.transports.server import MakeTransport, Server

SslArgument: TypeAlias = "bool | SSLContext | None"
"""asyncio's `ssl=` argument: a context; True for a client's default context; or a false value for no TLS."""


class TlsSettings(NamedTuple):
    """The TLS settings of one connection, or of all connections of a server."""

    context: "SSLContext | None"
    """None means a client's default context."""

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
    """Check the TLS arguments of an endpoint against each other, and return the settings; None means no TLS.

    Raises ValueError for an argument that is only meaningful with `ssl`.
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
    """Raise TypeError for a socket that does TLS itself: transports need the raw bytes."""
    if ssl is not None and isinstance(sock, ssl.SSLSocket):
        raise TypeError("Socket cannot be of type SSLSocket")


def refuse_bool(argument: object) -> None:
    """Raise TypeError if a server is given `ssl=True`: there is no default certificate."""
    if isinstance(argument, bool):
        raise TypeError("ssl argument must be an SSLContext or None")


def positive(name: str, value: float | None, default: float) -> float:
    """Return the timeout `value`, or the `default` for None. Raises ValueError unless it is positive."""
    if value is None:
        return default
    if value <= 0:
        raise ValueError(f"{name} should be a positive number, got {value}")
    return value


def default_context(settings: TlsSettings) -> "SSLContext":
    """Return the default context for a client. Raises ValueError for a server."""
    if settings.server_side:
        raise ValueError("Server side SSL needs a valid SSLContext")
    context = ssl.create_default_context()
    if not settings.server_hostname:
        context.check_hostname = False
    return context


def take_unread(protocol: object) -> tuple[bytes, bool]:
    """Remove the unread bytes from the reader of a stream protocol of asyncio's.

    Before an upgrade to TLS, they are the beginning of the handshake, received together with the last plain message
    (python/cpython#142352). Returns them, and whether the peer has ended the stream.
    """
    reader = getattr(protocol, "_stream_reader", None)
    if not isinstance(reader, asyncio.StreamReader):
        return b"", False
    known: Any = reader
    data = bytes(known._buffer)
    known._buffer.clear()
    known._paused = False  # it may have paused the transport; the upgrade resumes it
    return data, known._eof


class Tls:
    """Creates TLS transports over plain ones."""

    def __init__(self, scheduler: "Scheduler", make_transport: "MakeTransport") -> None:
        self._scheduler = scheduler  # an EndpointHost is not enough: SSLTransport needs a Scheduler
        self._make_transport = make_transport

    def make_transport(
        self,
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        settings: TlsSettings,
        *,
        waiter: asyncio.Future[Any] | None = None,
        extra: dict[str, Any] | None = None,
        server: "Server | None" = None,
    ) -> asyncio.Transport:
        """Return the TLS transport for `protocol`; `waiter` is resolved when the handshake is over.

        Takes over the socket unless it raises. Raises ValueError for a timeout that is not positive, or for a
        server without a context.
        """
        secured = self._secured(protocol, settings, waiter=waiter, server=server)
        self._make_transport(sock, secured, extra=extra)
        return cast("asyncio.Transport", secured)

    async def start_tls(
        self,
        transport: asyncio.Transport,
        protocol: asyncio.BaseProtocol,
        sslcontext: "SSLContext",
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
    ) -> asyncio.Transport:
        """Put TLS between `transport` and `protocol`, and return the transport that `protocol` should use now.

        Raises TypeError for an unsuitable context or transport. If the handshake fails, its error is raised and the
        transport is closed; it is also closed if this is cancelled.
        """
        if ssl is None:
            raise RuntimeError("Python ssl module is not available")
        if not isinstance(sslcontext, ssl.SSLContext):
            raise TypeError(f"sslcontext is expected to be an instance of ssl.SSLContext, got {sslcontext!r}")
        if not getattr(transport, "_start_tls_compatible", False):
            raise TypeError(f"transport {transport!r} is not supported by start_tls()")
        settings = TlsSettings(sslcontext, server_side, server_hostname, ssl_handshake_timeout, ssl_shutdown_timeout)
        waiter = self._scheduler.create_future()
        secured = self._secured(protocol, settings, waiter=waiter, connected=True)
        # Data from the peer now belongs to the handshake, so reading is paused until `secured` has its transport:
        # the two callbacks below run in this order.
        transport.pause_reading()
        unread, ended = take_unread(protocol)
        secured.take_early(unread, ended or getattr(transport, "_eof_received", False))
        transport.set_protocol(secured)
        made = self._scheduler.call_soon(secured.connection_made, transport)
        resumed = self._scheduler.call_soon(transport.resume_reading)
        try:
            await waiter
        except BaseException:
            transport.close()
            made.cancel()
            resumed.cancel()
            raise
        finally:
            # A failed waiter keeps its exception, whose traceback keeps this frame.
            del waiter
        return cast("asyncio.Transport", secured)

    def _secured(
        self,
        protocol: asyncio.BaseProtocol,
        settings: TlsSettings,
        *,
        waiter: asyncio.Future[Any] | None,
        connected: bool = False,
        server: "Server | None" = None,
    ) -> Any:
        # Any: for type checkers an SSLTransport is neither an asyncio transport nor a protocol.
        return SSLTransport(
            self._scheduler,
            protocol,
            settings.context or default_context(settings),
            server_side=settings.server_side,
            server_hostname=None if settings.server_side else settings.server_hostname or None,
            handshake_timeout=positive("ssl_handshake_timeout", settings.handshake_timeout, HANDSHAKE_TIMEOUT),
            shutdown_timeout=positive("ssl_shutdown_timeout", settings.shutdown_timeout, SHUTDOWN_TIMEOUT),
            connected=connected,
            waiter=waiter,
            server=server,
        )
