"""Acceptors: listening sockets over either port, and what happens when a connection cannot be accepted.

`stop` closes the listening socket itself. A reused descriptor number cannot be confused with it: the readiness table
forgets the number first, and never gives an event of this tick to an entry made during the tick; a completion port has
released the number when `cancel` returns. A connection that such a port had already accepted, but reports later, is
closed.

Thread: the loop's own. No error stops accepting for good. An error of one connection is left to the server, and the
next one is accepted. Any other (no descriptors, no memory) is reported, and accepting resumes after a second.
"""

import errno
import os
import socket
import struct
from asyncio.trsock import TransportSocket
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final

from loopcore.kernel.runnable import Runnable
from loopcore.log import logger
from loopcore.ports.operations import Accept
from loopcore.transports.accepted import AcceptedSocket, real_socket
from loopcore.transports.clients import note_no_delay
from loopcore.transports.lifecycle import InheritedSockname, disable_nagle, has_no_delay, inherited_sockname

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.interpreter import run_in_context
else:
    from loopcore._native.interpreter import run_in_context

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from loopcore.transports.server import Server

RETRY_DELAY: Final = 1.0
"""Seconds to pause when the system has no resources for another connection; asyncio's value."""

OUT_OF_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

_NAMES = (
    "EPROTO",
    "ENOPROTOOPT",
    "EOPNOTSUPP",
    "ENETDOWN",
    "ENETUNREACH",
    "EHOSTDOWN",
    "EHOSTUNREACH",
    "ENONET",
)
OF_ONE_CONNECTION: Final = {getattr(errno, name) for name in _NAMES if hasattr(errno, name)}
"""accept(2), "Error handling": what became of a connection that waited in the queue. The next one may be fine.

Not EPERM: if a policy of the system forbids the call, each one fails, and the loop would spin without a report.
"""

INTERNET: Final = (socket.AF_INET, socket.AF_INET6)
NON_BLOCKING: Final = getattr(socket, "SOCK_NONBLOCK", 0)
"""With this flag in its type, the socket constructor takes the descriptor as non-blocking without a system call."""


class Acceptor(Runnable):
    """One listening socket over a readiness port. Running it accepts what is pending, at most `backlog` an event."""

    __slots__ = (
        "server",
        "sock",
        "fd",
        "backlog",
        "kind",
        "context",
        "retry",
        "name",
        "_is_internet",
        "_inherits",
    )

    def __init__(self, server: "Server", sock: socket.socket, backlog: int) -> None:
        self.server = server
        self.sock = sock
        self.fd: int = sock.fileno()
        self.backlog: int = max(1, backlog)
        # Kept, because `socket.family` and `socket.type` make enum members on every access.
        self.kind: tuple[int, int, int] = (int(sock.family), int(sock.type) | NON_BLOCKING, sock.proto)
        self.context: Context = server._context
        self.retry: TimerHandle | None = None
        self.name: InheritedSockname | None = inherited_sockname(sock)
        self._is_internet: bool = sock.family in INTERNET
        self._inherits: bool = False
        """Whether connections were seen to inherit TCP_NODELAY from the listening socket."""
        disable_nagle(sock)

    def start(self) -> None:
        """Start accepting."""
        self.retry = None
        self._listen()

    def _start_again(self) -> None:
        try:
            self.start()
        except OSError as exc:  # the port has no resources either
            self._pause_after_error(exc)

    def stop(self) -> None:
        """Close the socket, at once."""
        if self.retry is not None:
            self.retry.cancel()
            self.retry = None
        if not self.server._loop.is_closed():  # otherwise the port is already gone
            self._forget()
        self.sock.close()

    def _listen(self) -> None:
        self.server._loop._readiness.set_reader(self.fd, self)

    def _pause_accepting(self) -> None:
        # The socket stays readable, and the loop would spin.
        self.server._loop._readiness.clear_reader(self.fd)

    def _forget(self) -> None:
        self.server._loop._readiness.forget(self.fd)

    def _run(self) -> None:
        server = self.server
        for _ in range(self.backlog):
            if server._sockets is None:  # closed by the protocol of the connection before
                return
            try:
                accepted = accept_one(self.sock)
            except OSError as exc:
                self._pause_after_error(exc)
                return
            if accepted is None:
                return
            self._take(self._socket_of(accepted[0]), accepted[1])

    def _socket_of(self, fd: int) -> "socket.socket | AcceptedSocket":
        """Return a socket for `fd`, or an AcceptedSocket, which makes its socket on demand."""
        if self._is_internet and self._inherits:
            return AcceptedSocket(fd, self.kind)
        return self._make_socket(fd)

    def _take(self, connection: Any, address: Any) -> None:
        if not self._admit(connection):
            return
        extra = {"peername": address}
        if self.name is not None:
            extra["sockname"] = self.name
        if self._is_internet and not self._inherits:
            self._inherits = has_no_delay(connection)
        note_no_delay(self.server, self._inherits)
        run_in_context(self.context.copy(), self._open, (connection, extra))

    def _make_socket(self, fd: int) -> socket.socket:
        """Return a socket for the descriptor `fd`. On an error, such as MemoryError, `fd` is closed first."""
        try:
            return socket.socket(*self.kind, fileno=fd)
        except BaseException:
            socket.close(fd)
            raise

    def _admit(self, connection: socket.socket) -> bool:
        """Ask the admission policy, if there is one; reset the connection if it is refused."""
        server = self.server
        loop = server._loop
        probes = loop.probes
        if (
            not probes.deciding
            or probes.owner("loopcore_admit_connection") is None
            or probes.ask("loopcore_admit_connection", loop, server, real_socket(connection)) is not False
        ):
            loop._stats.connections_accepted += 1
            return True
        loop._stats.connections_refused += 1
        try:
            # Without lingering, close(2) resets: the kernel keeps no state, and the peer learns at once.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass  # the BSDs refuse this for a connection that its peer has already reset
        connection.close()
        return False

    def _open(self, connection: socket.socket, extra: dict[str, Any]) -> None:
        """Give the connection a protocol and a transport. An error ends only this connection.

        `extra` holds the peer's address, and the connection's own if it is known.
        """
        server = self.server
        loop = server._loop
        protocol = waiter = None
        try:
            debug = loop._slow_path_flags and loop.get_debug()
            if debug:
                connection = real_socket(connection)
                logger.debug("%r got a new connection from %r: %r", server, extra["peername"], connection)
            if not NON_BLOCKING:
                connection.setblocking(False)
            protocol = server._protocol_factory()
            if server._sockets is None:  # closed by the protocol factory
                connection.close()
                return
            if debug:
                waiter = server._watch(protocol)
            server._make_transport(connection, protocol, waiter=waiter, extra=extra, server=server)
        except BaseException as exc:
            connection.close()
            if isinstance(exc, (SystemExit, KeyboardInterrupt)):
                raise
            server._report_connection(exc, protocol)

    def _pause_after_error(self, exc: OSError) -> None:
        """Pause accepting for RETRY_DELAY."""
        loop = self.server._loop
        cause = "out of system resource" if exc.errno in OUT_OF_RESOURCES else "failed"
        self._pause_accepting()
        self.retry = loop.call_later(RETRY_DELAY, self._start_again)
        loop.call_exception_handler(
            {"message": f"socket.accept() {cause}", "exception": exc, "socket": TransportSocket(self.sock)}
        )


class CompletionAcceptor(Acceptor):
    """One listening socket over a completion port. Running it takes one connection, which is already accepted."""

    __slots__ = ("operation",)

    def __init__(self, server: "Server", sock: socket.socket, backlog: int) -> None:
        Acceptor.__init__(self, server, sock, backlog)
        self.operation = Accept(self.fd)

    def _listen(self) -> None:
        self.operation.target = self
        self.server._loop._completions.submit(self.operation)

    def _pause_accepting(self) -> None:
        """Do nothing: the operation has ended with the error."""

    def _forget(self) -> None:
        self.server._loop._completions.cancel(self.operation)

    def _run(self) -> None:
        operation, server = self.operation, self.server
        result = operation.result
        operation.result = None
        try:
            if not isinstance(result, OSError):
                self._take_or_close(result)
            elif server._sockets is not None and not _concerns_one(result):
                self._pause_after_error(result)
        finally:
            if not operation.pending:
                operation.target = None  # otherwise the two would keep each other alive
                if server._sockets is not None and self.retry is None:
                    self._listen()

    def _take_or_close(self, fd: int) -> None:
        if self.server._sockets is None:
            socket.close(fd)
            return
        connection = self._make_socket(fd)
        try:
            address = connection.getpeername()
        except OSError:
            address = None  # already reset; the first receive will report it
        self._take(connection, address)


def accept_one(sock: socket.socket) -> tuple[int, Any] | None:
    """Accept a connection; return its descriptor, non-blocking, and the peer's address, or None for "not now".

    Where SOCK_NONBLOCK does not exist, the descriptor is left blocking.
    """
    try:
        # Private, but socket.accept() is built on it, on every Python. That method makes a socket object, which would
        # be detached at once: 3.9 us instead of 2.3 for each connection (Python 3.14; 5.5 instead of 2.2 on 3.11).
        made, address = sock._accept()  # type: ignore[attr-defined]
    except OSError as exc:
        if _concerns_one(exc):
            return None
        raise
    if NON_BLOCKING:
        os.set_blocking(made, False)
    return made, address


def _concerns_one(exc: OSError) -> bool:
    """Return whether `exc` concerns a single connection, which Windows calls reset, or nothing at all."""
    errors = BlockingIOError | InterruptedError | ConnectionAbortedError | ConnectionResetError
    return isinstance(exc, errors) or exc.errno in OF_ONE_CONNECTION
