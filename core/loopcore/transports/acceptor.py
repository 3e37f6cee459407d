"""Acceptors: a listening socket over either port, and what becomes of a connection that nobody can take.

A listening socket is closed in `stop` itself. Its number cannot be mixed up: the readiness table forgets it first,
and an event of this tick is not for an entry made in it; a completion port has let go of it when `cancel` returns. A
connection that such a port had accepted by then, and tells of later, is closed.

Thread: the loop's own. Accepting never stops for an error: of one connection, it is left to the server; of the
process or system (no descriptors, no memory), it is reported and tried again after a second.
"""

import errno
import socket
import struct
from asyncio.trsock import TransportSocket
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Final

from loopcore.kernel.runnable import Runnable
from loopcore.log import logger
from loopcore.native.interpreted_accepting import accept_one as accept_any
from loopcore.operations import Accept
from loopcore.transports.accepted import AcceptedSocket, real_socket
from loopcore.transports.clients import note_no_delay
from loopcore.transports.lifecycle import InheritedSockname, disable_nagle, has_no_delay, inherited_sockname

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.native.accepting import accept_one, peer_of
    from cython.cimports.loopcore.native.cpython import context_enter, context_exit
else:
    from loopcore.native.interpreted_accepting import accept_one

if TYPE_CHECKING:
    from loopcore.transports.server import Server

RETRY_DELAY: Final = 1.0
"""Seconds to rest when the system has no resources for another connection; asyncio's."""

OUT_OF_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


INTERNET: Final = (socket.AF_INET, socket.AF_INET6)
NON_BLOCKING: Final = getattr(socket, "SOCK_NONBLOCK", 0)
"""With this in its type, the constructor takes a descriptor as non-blocking, and makes no system call to find out."""


class Acceptor(Runnable):
    """One listening socket over a readiness port. To run it is to accept what waits, at most `backlog` an event."""

    __slots__ = (
        "server",
        "sock",
        "fd",
        "backlog",
        "kind",
        "context",
        "retry",
        "name",
        "_accepts_natively",
        "_inherits",
    )

    def __init__(self, server: "Server", sock: socket.socket, backlog: int) -> None:
        self.server = server
        self.sock = sock
        self.fd: int = sock.fileno()
        self.backlog: int = max(1, backlog)
        # Kept, because `socket.family` and `socket.type` make enum members of their numbers each time they are asked.
        self.kind: tuple[int, int, int] = (int(sock.family), int(sock.type) | NON_BLOCKING, sock.proto)
        # The context that started the server; each connection is made in a copy of it.
        self.context: Context = copy_context()
        self.retry: Any = None
        self.name: InheritedSockname | None = inherited_sockname(sock)
        self._accepts_natively: bool = cython.compiled and sock.family in INTERNET
        self._inherits: bool = False
        """Whether TCP_NODELAY was seen to go over to connections from the listening socket."""
        disable_nagle(sock)

    def start(self) -> None:
        """Accept from now on."""
        self.retry = None
        self._listen()

    def stop(self) -> None:
        """Close the socket, at once."""
        if self.retry is not None:
            self.retry.cancel()
            self.retry = None
        if not self.server._loop.is_closed():  # or else the port is gone already
            self._forget()
        self.sock.close()

    def _listen(self) -> None:
        self.server._loop.readiness.set_reader(self.fd, self)

    def _pause_accepting(self) -> None:
        # The socket stays readable, and the loop would spin.
        self.server._loop.readiness.clear_reader(self.fd)

    def _forget(self) -> None:
        self.server._loop.readiness.forget(self.fd)

    def _run(self) -> None:
        server = self.server
        for _ in range(self.backlog):
            if server._sockets is None:  # closed by the protocol of the connection before
                return
            try:
                if self._accepts_natively:
                    accepted = accept_one(self.sock, self.fd)
                else:
                    accepted = accept_any(self.sock, self.fd)
            except OSError as exc:
                self._rest(exc)
                return
            if accepted is None:
                return
            self._take(self._socket_of(accepted[0]), accepted[1])

    def _socket_of(self, fd: int) -> Any:
        """Return a socket of `fd`, or one that is made when it is asked for something."""
        if self._accepts_natively and self._inherits:
            return AcceptedSocket(fd, self.kind)
        return socket.socket(*self.kind, fileno=fd)

    def _take(self, connection: Any, address: Any) -> None:
        if not self._admit(connection):
            return
        extra = {"peername": address}
        if self.name is not None:
            extra["sockname"] = self.name
        if not self._inherits:
            self._inherits = has_no_delay(connection)
        note_no_delay(self.server, self._inherits)
        context = self.context.copy()
        if cython.compiled:
            context_enter(context)
            try:
                self._open(connection, extra)
            finally:
                context_exit(context)
        else:
            context.run(self._open, connection, extra)

    def _admit(self, connection: socket.socket) -> bool:
        """Ask the policy, if there is one; reset the connection if it says no."""
        server = self.server
        loop = server._loop
        probes = loop.probes
        if (
            not probes.deciding
            or probes.owner("loopcore_admit_connection") is None
            or probes.ask("loopcore_admit_connection", loop, server, real_socket(connection)) is not False
        ):
            loop.stats.connections_accepted += 1
            return True
        loop.stats.connections_refused += 1
        try:
            # Not lingering, it is reset: no memory of it stays, and the peer knows at once.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass  # the BSDs refuse it for a connection that its peer has reset already
        connection.close()
        return False

    def _open(self, connection: socket.socket, extra: dict[str, Any]) -> None:
        """Give the connection a protocol and a transport. An error ends this connection and no other.

        `extra` is what is known of it: the peer's address, and perhaps its own.
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
            if server._sockets is None:  # by the factory
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

    def _rest(self, exc: OSError) -> None:
        """Accept nothing for a while."""
        loop = self.server._loop
        cause = "out of system resource" if exc.errno in OUT_OF_RESOURCES else "failed"
        self._pause_accepting()
        self.retry = loop.call_later(RETRY_DELAY, self.start)
        loop.call_exception_handler(
            {"message": f"socket.accept() {cause}", "exception": exc, "socket": TransportSocket(self.sock)}
        )


class CompletionAcceptor(Acceptor):
    """One listening socket over a completion port. To run it is to take one connection, which is accepted already."""

    __slots__ = ("operation",)

    def __init__(self, server: "Server", sock: socket.socket, backlog: int) -> None:
        Acceptor.__init__(self, server, sock, backlog)
        self.operation = Accept(self.fd)

    def _listen(self) -> None:
        self.operation.target = self
        self.server._loop.completions.submit(self.operation)

    def _pause_accepting(self) -> None:
        """Do nothing: the operation has ended with the error."""

    def _forget(self) -> None:
        self.server._loop.completions.cancel(self.operation)

    def _run(self) -> None:
        operation, server = self.operation, self.server
        result = operation.result
        operation.result = None
        try:
            if not isinstance(result, OSError):
                self._take_or_close(result)
            elif server._sockets is not None and not _concerns_one(result):
                self._rest(result)
        finally:
            if not operation.pending:
                operation.target = None  # or else the two would keep each other alive
                if server._sockets is not None and self.retry is None:
                    self._listen()

    def _take_or_close(self, fd: int) -> None:
        if self.server._sockets is None:
            socket.close(fd)
            return
        connection = self._socket_of(fd)
        if cython.compiled and type(connection) is AcceptedSocket:
            self._take(connection, peer_of(fd))
            return
        try:
            address = connection.getpeername()
        except OSError:
            address = None  # reset already; the first receive will tell
        self._take(connection, address)


def _concerns_one(exc: OSError) -> bool:
    """Tell whether `exc` is about one connection only, or about nothing."""
    return isinstance(exc, BlockingIOError | InterruptedError | ConnectionAbortedError)
