"""Server: listening sockets, the connections accepted from them, and how both end.

Programs see the running Python's `asyncio.Server`. Taken from newer ones: `close_clients` and
`abort_clients` exist on every Python (asyncio has them since 3.13). `wait_closed` follows the running Python:
before 3.12 it returns at once when the server is closed; since 3.12 it waits for the connections too.

Listening sockets are closed in `close` itself, not in the close phase: programs bind the same address again in
the next line. `loopcore.transports.acceptor` describes how they accept.

Thread: the loop's own. An error of one connection is reported, the connection closed, and accepting continues.
"""

import asyncio
import socket
import sys
from asyncio.trsock import TransportSocket
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from loopcore.transports.acceptor import Acceptor
from loopcore.transports.clients import Clients
from loopcore.transports.driver_choice import make_acceptor

if TYPE_CHECKING:
    from ssl import SSLContext

    from loopcore.kernel.scheduler import Scheduler

WAITS_FOR_CONNECTIONS: Final = sys.version_info >= (3, 12)
"""Whether `wait_closed` of a closed server waits until its connections have ended (gh-79033)."""

CLOSES_CLIENTS: Final = sys.version_info >= (3, 14)
"""Whether `serve_forever`, when cancelled, closes the connections, since it waits for their end (gh-123720)."""

KEEPS_CONTEXT: Final = sys.version_info >= (3, 15)
"""Whether connections see the context that made the server, not the one that started it (gh-140947)."""


class MakeTransport(Protocol):
    """Makes the transport of an accepted, non-blocking socket; the transport owns the socket unless this raises."""

    def __call__(
        self,
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        *,
        waiter: "asyncio.Future[Any] | None" = None,
        extra: dict[str, Any] | None = None,
        server: "Server | None" = None,
    ) -> asyncio.Transport: ...


class Server(Clients, asyncio.AbstractServer):
    """Owns bound, non-blocking sockets. Does not listen before `start_serving` or `serve_forever`.

    `make_transport` decides which protocol connections use (plain or TLS); `ssl_context` is only kept for callers that
    read it. `after_close` is called once, when the listening sockets have been closed.
    """

    def __init__(
        self,
        loop: "Scheduler",
        sockets: list[socket.socket],
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        *,
        make_transport: MakeTransport,
        ssl_context: "SSLContext | None" = None,
        backlog: int = 100,
        after_close: Callable[[], None] | None = None,
    ) -> None:
        Clients.__init__(self)
        self._loop = loop
        self._sockets: list[socket.socket] | None = sockets
        self._protocol_factory = protocol_factory
        self._make_transport = make_transport
        self._ssl_context = ssl_context
        self._backlog = backlog
        self._after_close = after_close
        self._context: Context = copy_context()  # each connection is made in a copy of it
        self._acceptors: list[Acceptor] = []
        self._serving = False
        self._serving_forever_fut: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} sockets={self.sockets!r}>"

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return asyncio.Server  # for isinstance (docs/adr/0007)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop that the server runs on."""
        return cast(asyncio.AbstractEventLoop, self._loop)

    def is_serving(self) -> bool:
        """Return whether connections are being accepted."""
        return self._serving

    @property
    def sockets(self) -> tuple[TransportSocket, ...]:
        """The listening sockets, protected from being closed; none once the server is closed."""
        if self._sockets is None:
            return ()
        return tuple(TransportSocket(sock) for sock in self._sockets)

    # Serving

    def _start_serving(self) -> None:
        if self._serving:
            return
        if self._sockets is None:
            raise RuntimeError(f"server {self!r} is closed")
        self._serving = True
        if not KEEPS_CONTEXT:
            self._context = copy_context()
        for sock in self._sockets:
            sock.listen(self._backlog)
            acceptor = make_acceptor(self, sock, self._backlog)
            self._acceptors.append(acceptor)
            acceptor.start()

    async def start_serving(self) -> None:
        """Listen and accept. Idempotent. Raises RuntimeError if the server is closed."""
        self._start_serving()
        await asyncio.sleep(0)

    async def serve_forever(self) -> None:
        """Serve until cancelled or closed, then close; raises CancelledError either way, RuntimeError if used twice.

        Cancelled or closed on Python 3.14 or later, it also closes every connection.
        """
        if self._serving_forever_fut is not None:
            raise RuntimeError(f"server {self!r} is already being awaited on serve_forever()")
        self._start_serving()
        self._serving_forever_fut = self._loop.create_future()
        try:
            await self._serving_forever_fut
        except asyncio.CancelledError:
            self.close()
            if CLOSES_CLIENTS:
                self.close_clients()
            await self.wait_closed()
            raise
        finally:
            self._serving_forever_fut = None

    def _watch(self, protocol: asyncio.BaseProtocol) -> "asyncio.Future[Any]":
        """Return a future that reports a connection that cannot be opened (TLS); as in asyncio, in debug mode only."""

        def opened(waiter: "asyncio.Future[Any]") -> None:
            exc = None if waiter.cancelled() else waiter.exception()
            if exc is not None:
                self._report_connection(exc, protocol)

        waiter = self._loop.create_future()
        waiter.add_done_callback(opened)
        return waiter

    def _report_connection(self, exc: BaseException, protocol: asyncio.BaseProtocol | None) -> None:
        message = "Error on transport creation for incoming connection"
        context: dict[str, Any] = {"message": message, "exception": exc}
        if protocol is not None:
            context["protocol"] = protocol
        self._loop.call_exception_handler(context)

    # Closing

    def close(self) -> None:
        """Stop accepting and close the listening sockets, at once. Connections stay open. Idempotent.

        Thread: any, as for finalizers. If the loop runs in another thread, the loop's thread closes in its next tick.
        """
        if self._sockets is None:
            return
        if self._loop._is_elsewhere():
            self._loop.call_soon_threadsafe(self.close)
            return
        sockets, self._sockets = self._sockets, None
        acceptors, self._acceptors = self._acceptors, []
        self._serving = False
        for acceptor in acceptors:
            acceptor.stop()
        for sock in sockets:
            sock.close()  # those that never listened
        if self._serving_forever_fut is not None and not self._serving_forever_fut.done():
            self._serving_forever_fut.cancel()
        self._serving_forever_fut = None
        try:
            if self._after_close is not None:
                self._after_close()
        finally:
            self._mark_closed()

    def close_clients(self) -> None:
        """Close every connection once its written bytes have been sent."""
        for transport in self._transports():
            transport.close()

    def abort_clients(self) -> None:
        """Close every connection at once."""
        for transport in self._transports():
            transport.abort()

    async def wait_closed(self) -> None:
        """Wait until the server is closed; since Python 3.12, until its connections have ended as well."""
        if self._waiters is None or (self._sockets is None and not WAITS_FOR_CONNECTIONS):
            return
        waiter = self._loop.create_future()
        self._waiters[waiter] = None
        try:
            await waiter
        finally:
            if self._waiters is not None:
                self._waiters.pop(waiter, None)  # cancelled, perhaps by a timeout: the program will wait again
