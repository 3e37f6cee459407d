"""The interface between transports and ports: drivers below, sinks above.

A *driver* moves the bytes or datagrams of one socket over one kind of port. A *sink* is the transport above it.
The transport knows protocols, flow control and states; the driver knows descriptors, readiness or operations.
Neither knows the other's part, so one transport works on every port:

    transport -> driver    start_reading  stop_reading  flush  run_flush  discard  release  describe
                           streams: write  write_some  shut_down_writing      datagrams: send  queue
    driver -> transport    _failed  _on_written
                           streams: _on_received  _get_buffer + _buffer_updated  _get_unread + _unread_grown
                                    _end_of_file
                           datagrams: _on_datagram  _refused

Writes to a stream are joined: `write` only queues, and asks the scheduler to run the sink once near the end of the
tick; the sink then calls `run_flush`, which sends the queue in one vectored send. Datagrams are sent at once, one
by one; only those that the kernel has no room for are queued.

Guaranteed by a driver: it calls nothing back from inside `start_reading`, `stop_reading`, `write`, `send`,
`queue` or `release`; it calls nothing at all after `release`; it delivers nothing after `stop_reading`, not even
within the current event. `flush`, `run_flush` and `write_some` may call `_on_written`, `_refused` or `_failed`.
Guaranteed by a sink: it raises nothing but SystemExit and KeyboardInterrupt, and makes no request after
`release`.

Thread: the loop's own, for everything here. Sizes are in bytes.
"""

import socket
from typing import TYPE_CHECKING, Any

from loopcore.kernel.runnable import Runnable
from loopcore.transports.accepted import number_of
from loopcore.transports.buffers import Buffer

if TYPE_CHECKING:
    from contextvars import Context

    from _typeshed import ReadableBuffer

    from loopcore.kernel.scheduler import Scheduler


class Sink(Runnable):
    """The interface that a driver calls back. Running a sink lets the driver write.

    Compiled, the callbacks made for every message are C methods, called without looking for an override in the dict
    that a transport may have (docs/adr/0007).
    """

    __slots__ = ()

    def _on_received(self, data: bytes) -> None:
        """Some bytes were received; never empty."""
        raise NotImplementedError

    def _get_buffer(self) -> Any:
        """Return a writable buffer to receive into, or None if there is none and the error was handled."""
        raise NotImplementedError

    def _get_unread(self) -> "bytearray | None":
        """Return a bytearray to append received bytes to, followed by `_unread_grown`; None: call `_on_received`."""
        return None

    def _unread_grown(self) -> None:
        """Bytes were appended to the bytearray that `_get_unread` returned."""
        raise NotImplementedError

    def _buffer_updated(self, nbytes: int) -> None:
        """The first `nbytes` of the buffer returned by `_get_buffer` were filled; never 0."""
        raise NotImplementedError

    def _end_of_file(self) -> None:
        """The peer will send no more."""
        raise NotImplementedError

    def _on_datagram(self, data: bytes, address: Any) -> None:
        """A datagram was received; it may be empty. Called in the driver's context."""
        raise NotImplementedError

    def _refused(self, exc: OSError) -> None:
        """A datagram could not be sent, or was rejected (ICMP); the socket stays open. In the driver's context."""
        raise NotImplementedError

    def _failed(self, exc: BaseException, message: str) -> None:
        """Reading or writing failed for good; if it was writing, the queue has been dropped."""
        raise NotImplementedError

    def _on_written(self) -> None:
        """The kernel took some or all of the queue; `driver.unsent` is what is left."""
        raise NotImplementedError


class Driver(Runnable):
    """Moves the bytes or datagrams of one socket for a transport. Running it receives."""

    __slots__ = ("scheduler", "sink", "sock", "fd", "context", "unsent", "reading", "received", "sent")

    def __init__(self, scheduler: "Scheduler", sink: Sink, sock: socket.socket, context: "Context") -> None:
        self._prepare(scheduler, sink, sock, context)

    def _prepare(self, scheduler: "Scheduler", sink: Sink, sock: socket.socket, context: "Context") -> None:
        """Set the attributes, those of the bases first: `__init__` of all of them in one, as a C method."""
        # `sink` and `sock` are None after `release`, which breaks the cycle of transport and driver.
        self.scheduler: Scheduler = scheduler
        self.sink: Sink = sink
        self.sock: socket.socket = sock
        self.fd: int = number_of(sock)
        self.context: Context = context
        """The context in which the sink is called back."""
        self.unsent: int = 0
        """Bytes queued and not yet taken by the kernel."""
        self.reading: bool = False
        self.received: int = 0
        """Bytes received so far; for datagrams, their content only."""
        self.sent: int = 0
        """Bytes that the kernel has taken so far."""

    def _work(self) -> object:
        return type(self) if self.sink is None else self.sink._work()

    def __repr__(self) -> str:
        # Debug mode and plugins show what ran: a driver receives for its transport.
        transport: Any = self.sink
        if transport is None:
            return f"<{type(self).__name__} closed>"
        return f"<{type(self).__name__} of {transport!r} for {type(transport.get_protocol()).__qualname__}>"

    def count_received(self, size: int) -> None:
        """Count `size` received bytes, here and in the loop's total."""
        self.received += size
        self.scheduler._bytes_received += size

    def count_sent(self, size: int) -> None:
        """Count `size` bytes that the kernel has taken, here and in the loop's total."""
        self.sent += size
        self.scheduler._bytes_sent += size

    def start_reading(self) -> None:
        """Deliver incoming data to the sink. Idempotent. Raises OSError if the port refuses the socket."""
        raise NotImplementedError

    def stop_reading(self) -> None:
        """Leave incoming data to the kernel. Idempotent."""
        raise NotImplementedError

    def flush(self) -> None:
        """Send as much of the queue as the kernel takes now. The rest is sent when it takes more."""
        raise NotImplementedError

    def run_flush(self) -> None:
        """Send the queue: the sink runs, near the end of a tick or because the kernel takes more."""
        raise NotImplementedError

    def discard(self) -> None:
        """Drop the queue."""
        raise NotImplementedError

    def release(self) -> None:
        """Close the socket or pipe, and drop the queue. Idempotent.

        Over a readiness port the socket is closed at once, not in the close phase (docs/adr/0008): the next
        callback may inspect it, or wait for the peer to react. The readiness table keeps old events from a new
        owner of the descriptor number.
        """
        raise NotImplementedError

    def _arrived(self, result: Any) -> None:
        """Take a result of a completion port's receiving operation, or the OSError that ended it."""
        raise NotImplementedError

    def _answer(self) -> None:
        """Send what the sink wrote in answer to the bytes just received. Outside of `context`."""

    def describe(self) -> str:
        """Describe what is being waited for, for the transport's repr."""
        raise NotImplementedError


class StreamDriver(Driver):
    """Moves the bytes of one connected stream socket."""

    __slots__ = ("buffered",)

    def _prepare(self, scheduler: "Scheduler", sink: Sink, sock: socket.socket, context: "Context") -> None:
        Driver._prepare(self, scheduler, sink, sock, context)
        self.buffered: bool = False
        """Set by the transport: receive through `_get_buffer`, not through `_on_received`."""

    def write(self, item: Buffer, size: int) -> None:
        """Queue `item`, which is `size` bytes long and not empty, to be sent near the end of this tick."""
        raise NotImplementedError

    def write_some(self, item: Buffer) -> int:
        """Send some of `item` now if nothing is queued before it; return how many bytes were sent."""
        raise NotImplementedError

    def shut_down_writing(self) -> None:
        """Send the end of the stream to the peer; nothing may be queued. Raises OSError, as shutdown(2) does."""
        raise NotImplementedError


class DatagramDriver(Driver):
    """Moves the datagrams of one socket, connected or not."""

    __slots__ = ()

    def send(self, item: "ReadableBuffer", address: Any, connected: bool) -> bool:
        """Send the bytes-like `item` now: to the peer if `connected`, otherwise to `address`.

        False: the kernel has no room, and the item must be given to `queue`. Raises what the socket raises: OSError
        for a datagram that cannot be sent, another exception for an item that is not a datagram.
        """
        raise NotImplementedError

    def queue(self, item: bytes, address: Any, connected: bool, size: int) -> None:
        """Send `item`, which counts as `size` bytes, when the kernel takes it, after everything queued before.

        Raises OSError, and queues nothing, if the port does not watch the socket.
        """
        raise NotImplementedError
