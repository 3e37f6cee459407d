"""The seam between transports and ports: what a transport asks for, and what it is told.

A *driver* moves the bytes or datagrams of one socket over one kind of port. A *sink* is the transport above it.
The transport knows protocols, flow control and states; the driver knows descriptors, readiness or operations.
Neither knows the other's half, so one transport stands on every port:

    transport -> driver    start_reading  stop_reading  flush  discard  release
                           streams: write  write_some  shut_down_writing      datagrams: send  queue
    driver -> transport    _failed  _written
                           streams: _received  _get_buffer + _buffer_updated  _end_of_file
                           datagrams: _datagram  _refused

Writes to a stream are joined: `write` only queues, and asks the scheduler to run the sink once near the end of the
tick; the sink then calls `run_flush`, and what was queued leaves in one vectored send. Datagrams leave at once, one
by one; only what the kernel has no room for is queued.

Guaranteed by a driver: nothing is called back from inside `start_reading`, `stop_reading`, `write`, `send`,
`queue` or `release`; nothing at all after `release`; nothing of what comes in after `stop_reading`, not even
within the event at hand. `flush` and `run_flush` may call `_written`, `_refused` or `_failed`.
Guaranteed by a sink: it raises nothing but SystemExit and KeyboardInterrupt, and asks for nothing after
`release`.

Thread: the loop's own, for everything here. Sizes are in bytes.
"""

import socket
from typing import TYPE_CHECKING, Any, TypeAlias

from loopcore.kernel.runnable import Runnable
from loopcore.transports.accepted import number_of

if TYPE_CHECKING:
    from contextvars import Context

    from loopcore.kernel.scheduler import Scheduler

Buffer: TypeAlias = "bytes | memoryview"
"""What a write queue holds: never changes after it was queued, C-contiguous, counted in bytes."""


class Sink(Runnable):
    """What a driver calls back. To run it is to give the driver its turn to write.

    What comes with every message has two names that do the same. The drivers of sockets call `_on_received`,
    `_on_datagram` and `_on_written`: compiled, C methods, without a look for an override in the dict that a transport
    may have (docs/adr/0007). A driver in Python does not see those, and calls `_received`, `_datagram`, `_written`.
    `_get_buffer` and `_buffer_updated` are C methods only: no driver in Python receives into buffers.
    """

    __slots__ = ()

    def _on_received(self, data: bytes) -> None:
        raise NotImplementedError

    def _on_datagram(self, data: bytes, address: Any) -> None:
        raise NotImplementedError

    def _on_written(self) -> None:
        raise NotImplementedError

    def _received(self, data: bytes) -> None:
        """Some bytes came in; never empty."""
        raise NotImplementedError

    def _get_buffer(self) -> Any:
        """Return a writable buffer to receive into, or None if there is none and the error has been dealt with."""
        raise NotImplementedError

    def _get_unread(self) -> "bytearray | None":
        """Return that to which what comes in may be appended, before `_unread_grown`; None: call `_on_received`."""
        return None

    def _unread_grown(self) -> None:
        """Something was appended to what `_get_unread` has returned."""
        raise NotImplementedError

    def _buffer_updated(self, nbytes: int) -> None:
        """The buffer that `_get_buffer` returned has got its first `nbytes` filled; never 0."""
        raise NotImplementedError

    def _end_of_file(self) -> None:
        """The peer will send no more."""
        raise NotImplementedError

    def _datagram(self, data: bytes, address: Any) -> None:
        """A datagram came in, perhaps an empty one. Called in the driver's context."""
        raise NotImplementedError

    def _refused(self, exc: OSError) -> None:
        """One datagram could not be sent, or was not (ICMP); the socket lives on. Called in the driver's context."""
        raise NotImplementedError

    def _failed(self, exc: BaseException, message: str) -> None:
        """Reading or writing went wrong for good; what was queued has been dropped if it was writing."""
        raise NotImplementedError

    def _written(self) -> None:
        """The kernel took some, or all, of what was queued; `driver.unsent` says how much is left."""
        raise NotImplementedError


class Driver(Runnable):
    """What a transport asks for, of one socket. To run it is to receive what has come in."""

    __slots__ = ("scheduler", "sink", "sock", "fd", "context", "unsent", "reading", "received", "sent")

    def __init__(self, scheduler: "Scheduler", sink: Sink, sock: socket.socket, context: "Context") -> None:
        self._prepare(scheduler, sink, sock, context)

    def _prepare(self, scheduler: "Scheduler", sink: Sink, sock: socket.socket, context: "Context") -> None:
        """Set the attributes, those of the bases first; `__init__` of all of them at once, for C to call C."""
        # `sink` and `sock` are None after `release`, which breaks the cycle of transport and driver.
        self.scheduler: Scheduler = scheduler
        self.sink: Sink = sink
        self.sock: socket.socket = sock
        self.fd: int = number_of(sock)
        self.context: Context = context
        """The context that the sink is called back in."""
        self.unsent: int = 0
        """Bytes queued and not yet taken by the kernel."""
        self.reading: bool = False
        self.received: int = 0
        """Bytes that came in so far; of datagrams what is in them."""
        self.sent: int = 0
        """Bytes that the kernel has taken so far."""

    def count_received(self, size: int) -> None:
        """Take note of `size` bytes that came in, here and in the loop's total."""
        self.received += size
        self.scheduler.bytes_received += size

    def count_sent(self, size: int) -> None:
        """Take note of `size` bytes that the kernel has taken, here and in the loop's total."""
        self.sent += size
        self.scheduler.bytes_sent += size

    def start_reading(self) -> None:
        """Call the sink back with what comes in. Idempotent. Raises OSError if the port refuses the socket."""
        raise NotImplementedError

    def stop_reading(self) -> None:
        """Leave what comes in to the kernel. Idempotent."""
        raise NotImplementedError

    def flush(self) -> None:
        """Send what is queued now, as far as the kernel takes it. The rest goes when it takes more."""
        raise NotImplementedError

    def run_flush(self) -> None:
        """The sink's turn has come, near the end of a tick or because the kernel takes more: send what is queued."""
        raise NotImplementedError

    def discard(self) -> None:
        """Drop what is queued."""
        raise NotImplementedError

    def release(self) -> None:
        """Close the socket or pipe, and drop what is queued. Idempotent.

        Over readiness it is closed at once, not in the close phase (docs/adr/0008): who runs next may look at
        it, or wait for what its peer does about it. The readiness table keeps old events from a new owner of the
        number.
        """
        raise NotImplementedError

    def _arrived(self, result: Any) -> None:
        """Take what the receiving operation of a completion port has brought, or the OSError that ended it."""
        raise NotImplementedError

    def _answer(self) -> None:
        """Send what the sink has written to what has just come in. Compiled only, and outside of `context`."""

    def describe(self) -> str:
        """Say what is being waited for, for the transport's representation."""
        raise NotImplementedError


class StreamDriver(Driver):
    """What a transport asks for, of one connected stream socket."""

    __slots__ = ("buffered",)

    def _prepare(self, scheduler: "Scheduler", sink: Sink, sock: socket.socket, context: "Context") -> None:
        Driver._prepare(self, scheduler, sink, sock, context)
        self.buffered: bool = False
        """Set by the transport: receive through `_get_buffer`, not through `_received`."""

    def write(self, item: Buffer, size: int) -> None:
        """Queue `item`, which is `size` bytes long and not empty, to be sent near the end of this tick."""
        raise NotImplementedError

    def write_some(self, item: Buffer) -> int:
        """Send some of `item` now, if nothing stands before it in the queue; return how many bytes have gone."""
        raise NotImplementedError

    def shut_down_writing(self) -> None:
        """Tell the peer that no more will come; nothing may be queued. Raises OSError, as shutdown(2) does."""
        raise NotImplementedError


class DatagramDriver(Driver):
    """What a transport asks for, of one datagram socket, connected or not."""

    __slots__ = ()

    def send(self, item: Any, address: Any, connected: bool) -> bool:
        """Send the bytes-like `item` now, to whom the socket is `connected` or else to `address`.

        False: it has to wait, and must be given to `queue`. Raises what the socket raises: OSError for a datagram
        that cannot be sent, anything else for one that is none.
        """
        raise NotImplementedError

    def queue(self, item: bytes, address: Any, connected: bool, size: int) -> None:
        """Send `item`, which counts as `size` bytes, when the kernel takes it; what was queued before goes first."""
        raise NotImplementedError
