"""The life of a connection: its states, how it ends, and when resources are released.

A transport moves through four states and never back:

    OPEN     reads and writes
    CLOSING  `close` was called while bytes were waiting for the kernel: reads no more, still sends
    LOST     `connection_lost` is scheduled: neither reads nor sends
    CLOSED   `connection_lost` was called: the socket is released, and with it the protocol and the server

        close, end of file      abort, error     all is sent     connection_lost ran
    OPEN     CLOSING or LOST         LOST             -                 -
    CLOSING        -                 LOST            LOST               -
    LOST           -                  -               -              CLOSED

The socket or pipe has one owner, the driver, and is closed once: by `release`, right after `connection_lost`.
Only a transport that was never closed closes it in its finalizer, with a ResourceWarning.

Thread: the loop's own, except `close` and `abort`. Finalizers call these two, and the collector runs in any
thread: outside the loop's thread they leave the work to it (see `close`). Errors of the protocol and of the socket
end the connection; `connection_lost` receives the error.
"""

import asyncio
import socket
import warnings
from socket import IPPROTO_TCP, TCP_NODELAY
from typing import TYPE_CHECKING, Any, Final

from loopcore.log import logger
from loopcore.services.transport_table import TransportTable
from loopcore.transports.accepted import AcceptedSocket, real_socket
from loopcore.transports.clients import detach, resolve
from loopcore.transports.flow import FlowControl, fire_dropped_hook, fire_transport_hook
from loopcore.transports.transport_socket import TransportSocket

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopcore.kernel.scheduler import Scheduler
    from loopcore.transports.server import Server

ANY_ADDRESS: Final = ("0.0.0.0", "::", "::ffff:0.0.0.0")

OPEN = 0
CLOSING = 1
LOST = 2
CLOSED = 3
_OPEN, _CLOSING, _LOST, _CLOSED = OPEN, CLOSING, LOST, CLOSED

STATES: Final = ("open", "closing", "closing", "closed")
"""The text for each state in the repr."""


def disable_nagle(sock: socket.socket) -> None:
    """Send small writes at once (TCP_NODELAY); no effect on a socket that is not TCP."""
    # `proto` first: `family` makes an enum member on every access, which takes longer than everything else here.
    # A socket made without a protocol has 0, the default, which is TCP for the Internet families.
    proto = sock.proto
    if proto == IPPROTO_TCP or (proto == 0 and sock.family in (socket.AF_INET, socket.AF_INET6)):
        try:
            sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        except OSError:
            pass  # macOS says EINVAL when the peer has already gone; the first receive will report it


def has_no_delay(sock: socket.socket) -> bool:
    """Return whether small writes are sent at once (TCP_NODELAY)."""
    try:
        return sock.getsockopt(IPPROTO_TCP, TCP_NODELAY) != 0
    except OSError:
        return False  # not TCP


class InheritedSockname:
    """The address that a connection inherits from its listening socket, reported once its own socket is closed.

    While the socket is open the kernel is asked: a filter may have redirected a connection for another address here.
    """

    __slots__ = ("name",)

    def __init__(self, name: Any) -> None:
        self.name: Final = name


def inherited_sockname(sock: socket.socket) -> InheritedSockname | None:
    """Return the address that connections accepted by `sock` share; None if each has its own."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    name = sock.getsockname()
    return None if name[0] in ANY_ADDRESS else InheritedSockname(name)


def initial_extra_info(sock: socket.socket, extra: dict[str, Any] | None) -> dict[str, Any]:
    """Return the initial extra info; facts that the caller already has (accept, TLS) are not looked up again."""
    facts: dict[str, Any] = {} if extra is None else extra
    facts["socket"] = sock  # shown as a TransportSocket, which is made on demand
    if "sockname" not in facts:
        try:
            facts["sockname"] = sock.getsockname()
        except OSError:
            facts["sockname"] = None
    if "peername" not in facts:
        try:
            facts["peername"] = sock.getpeername()
        except OSError:
            facts["peername"] = None
    return facts


class Connection(FlowControl):
    """The part of a transport that is the same for every kind of data. Subclasses make the driver."""

    __slots__ = (
        "_extra",
        "_server",
        "_transport_table",
        "_state",
        "_paused",
        "_refuses",
        "_awaits_drain",
        "_empty_waiter",
    )

    def _begin(self, loop: "Scheduler", extra: dict[str, Any]) -> None:
        """Set the attributes; the first step of a subclass's `__init__`."""
        self._begin_flow(loop)
        self._extra: dict[str, Any] = extra
        self._server: Server | None = None
        self._transport_table: Any = None
        self._state: int = _OPEN
        self._paused: bool = False
        """Whether the program has paused reading."""
        self._refuses: bool = False
        """Whether `write` must check first: the end was written, the connection lost, or a file is being sent."""
        self._awaits_drain: bool = False
        """Whether an action waits until all is sent: closing, the end of our half, `_empty_waiter`."""
        self._empty_waiter: asyncio.Future[None] | None = None

    def _own_descriptor(self) -> None:
        """Register the descriptor, so that add_reader and sock_recv refuse it as a transport's."""
        self._transport_table = getattr(self._loop, "_transports", None)  # EventLoop's
        if self._transport_table is not None:
            self._transport_table[self._driver.fd] = self

    def _open_soon(
        self, connection_made: "Callable[[asyncio.BaseTransport], object]", waiter: "asyncio.Future[None] | None"
    ) -> None:
        """Register the descriptor and schedule the first calls of a connection; on failure, release the socket."""
        try:
            self._own_descriptor()
            self._loop._schedule(connection_made, (self,), self._context)
            self._loop._schedule(self._start_reading, (), self._context)
            if waiter is not None:
                self._loop._schedule(resolve, (waiter,), self._context)
        except BaseException:
            self._drop_references()
            raise

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return asyncio.Transport

    def __repr__(self) -> str:
        info = [type(self).__name__]
        if self._state != _OPEN:
            info.append(STATES[self._state])
        info.append(f"fd={self._driver.fd}")
        if self._state != _CLOSED:
            info.append(self._driver.describe())
        return f"<{' '.join(info)}>"

    def __del__(self) -> None:
        driver = getattr(self, "_driver", None)  # absent if the constructor failed
        if driver is None or driver.sock is None:
            return
        try:
            warnings.warn(f"unclosed transport {self!r}", ResourceWarning, stacklevel=1, source=self)
        finally:  # the warning may be an error
            driver.sock.close()
            if self._server is not None:
                detach(self._server, self)
            fire_dropped_hook(self)

    # Looked up by asyncio's own code and by libraries.

    @property
    def _sock(self) -> socket.socket | None:
        return real_socket(self._driver.sock)

    @property
    def _sock_fd(self) -> int:
        return self._driver.fd

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return "socket", "sockname", "peername" or whatever else is known under `name`.

        "loopcore.bytes" is a pair: how many bytes were received and sent so far.
        """
        if name == "loopcore.bytes":
            return (self._driver.received, self._driver.sent)
        if name == "socket" or name == "sockname":
            self._resolve_extra(name)
        return self._extra.get(name, default)

    def _resolve_extra(self, name: str) -> None:
        """Replace the internal value of `name` by the one that programs see."""
        fact = self._extra.get(name)
        if name == "socket" and isinstance(fact, (socket.socket, AcceptedSocket)):
            self._extra[name] = TransportSocket(real_socket(fact), self)
        elif isinstance(fact, InheritedSockname):
            try:
                self._extra[name] = self._driver.sock.getsockname()
            except (AttributeError, OSError):  # closed here or elsewhere
                self._extra[name] = fact.name

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the current protocol; None once the connection is lost."""
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Call `protocol` from now on; received bytes that were not delivered yet go to it."""
        self._protocol = protocol

    # Reading

    def _start_reading(self) -> None:
        """Begin to receive, after `connection_made`, which may have paused or closed the transport."""
        if self._loop._watching_transports:
            fire_transport_hook(self, "opened")
        if self._state != _OPEN or self._paused:
            return
        try:
            self._start_receiving()
        except (OSError, ValueError) as exc:  # the backend cannot take the descriptor; its message names one that can
            self._failed(exc, "Fatal error on transport")

    def _start_receiving(self) -> None:
        self._driver.start_reading()

    def is_reading(self) -> bool:
        """Return whether incoming data reaches the protocol."""
        return self._state == _OPEN and not self._paused

    def pause_reading(self) -> None:
        """Leave incoming data to the kernel. No effect when closing or paused.

        The kernel holds up the peer of a stream or pipe, and drops datagrams that it has no room for.
        """
        if self._state == _OPEN and not self._paused:
            self._paused = True
            self._driver.stop_reading()
            self._reading_changed("paused", "pauses")

    def resume_reading(self) -> None:
        """Undo `pause_reading`. No effect when closing or not paused."""
        if self._state == _OPEN and self._paused:
            self._paused = False
            self._start_receiving()
            self._reading_changed("resumed", "resumes")

    def _reading_changed(self, what: str, verb: str) -> None:
        if self._loop._watching_transports:
            fire_transport_hook(self, what, "reading")
        if self._loop.get_debug():
            logger.debug("%r %s reading", self, verb)

    # Writing

    def _run(self) -> None:
        self._driver.run_flush()

    def _on_written(self) -> None:
        try:
            if self._protocol_paused:
                self._resume_if_low(self._driver.unsent)
        finally:  # whatever the protocol raises: nothing else would end a transport that waits for this
            if self._awaits_drain and self._driver.unsent == 0:
                self._awaits_drain = False
                self._drained()

    def _drained(self) -> None:
        """Complete the action that was waiting until all is sent."""
        if self._state == _CLOSING:
            self._lose(None)

    # Closing

    def is_closing(self) -> bool:
        """Return whether the transport is closing or closed."""
        return self._state != _OPEN

    @property
    def _closing(self) -> bool:
        """`is_closing`, under the name that libraries look up in asyncio's transports."""
        return self._state != _OPEN

    def close(self) -> None:
        """Stop reading, send what was written, then close. Idempotent.

        Thread: any. If the loop runs in another thread, the loop's thread closes in its next tick.
        """
        if self._state != _OPEN:
            return
        self._state = _CLOSING
        if self._loop._is_elsewhere():
            self._loop.call_soon_threadsafe(self._finish_closing, context=self._context)
        else:
            self._finish_closing()

    def _finish_closing(self) -> None:
        self._stop_reading()
        if self._state != _CLOSING:
            return  # the connection was lost before the loop's thread got here
        self._driver.flush()
        if self._driver.unsent:
            self._awaits_drain = True
        elif self._state == _CLOSING:
            self._lose(None)

    def abort(self) -> None:
        """Close at once; bytes that the kernel has no room for are dropped. Thread: as for `close`."""
        is_open = self._state == _OPEN
        if not self._loop._is_elsewhere():
            self._abort(is_open)
        elif self._state < _LOST:
            self._state = _CLOSING
            self._loop.call_soon_threadsafe(self._abort, is_open, context=self._context)

    def _abort(self, is_open: bool) -> None:
        if is_open and self._state < _LOST:
            self._driver.flush()  # asyncio's `write` would have sent it by now
        self._force_close(None)

    def _failed(self, exc: BaseException, message: str) -> None:
        if not isinstance(exc, OSError):
            if self._state == _OPEN:
                self._driver.flush()  # the socket still works: asyncio's `write` would have sent it by now
            self._report(exc, message)
        elif self._loop.get_debug():
            logger.debug("%r: %s", self, message, exc_info=exc)
        self._force_close(exc)

    def _force_close(self, exc: BaseException | None) -> None:
        if self._state < _LOST:
            self._stop_reading()
            self._driver.discard()
            self._lose(exc)

    def _stop_reading(self) -> None:
        """Stop reading before the transport ends.

        If the port refuses even that, as it does in a child that was forked past Python's hooks, the steps that follow
        would never run: the socket is closed now, and the caller gets the refusal.
        """
        try:
            self._driver.stop_reading()
        except BaseException:
            sock = self._driver.sock
            self._state = _CLOSED
            self._refuses = True
            self._driver.sock = None  # type: ignore[assignment]
            if sock is not None:
                sock.close()
            raise

    def _lose(self, exc: BaseException | None) -> None:
        self._state = _LOST
        self._refuses = True
        self._loop._schedule(self._call_connection_lost, (exc,), self._context)

    def _call_connection_lost(self, exc: BaseException | None) -> None:
        try:
            if self._loop._watching_transports:
                fire_transport_hook(self, "closed", exc)
        finally:  # also if a hook exits
            try:
                self._protocol.connection_lost(exc)  # type: ignore[arg-type]
            finally:
                self._drop_references()

    def _drop_references(self) -> None:
        """Release the socket, and every reference that could keep this transport alive or be kept alive by it."""
        self._state = _CLOSED
        self._protocol = None  # type: ignore[assignment]
        if self._server is not None:
            detach(self._server, self)
            self._server = None
        if self._empty_waiter is not None and not self._empty_waiter.done():
            self._empty_waiter.set_exception(ConnectionError("Connection is closed by peer"))
        if isinstance(self._transport_table, TransportTable):
            table = self._transport_table
            table.discard(self._driver.fd, self)
        self._driver.release()  # raises if the descriptor was closed elsewhere
