"""The datagram drivers, one for each port: send at once, wait on EAGAIN; receive several datagrams an event.

Receiving: the port does not say how many datagrams are waiting, and receiving until the answer is "none" costs a
system call for each datagram where they arrive one by one. The burst, the number of receives an event, therefore
starts at one, and doubles whenever four events in a row have used it up; a "none" lowers it, halfway towards the
number that was there: a superfluous "none" costs a quarter of a superfluous event. At most 32, so that other
connections are served: readiness is level-triggered, and the rest is reported again.

Sending: each datagram is one system call. The queue is empty unless the kernel has refused one; then
the driver waits for writability, and all later datagrams queue behind it.

A Unix datagram socket that is not connected is an exception: poll(2) reports it as writable although the *receiver* has
no room (unix(7) knows the receiver only when connected), so waiting for writability would spin. Its queue
rests for a millisecond after a refusal that follows a report of writability.

Completions: a MultishotReceiver receives, where polls are not cheap. An error of the socket (ICMP) ends the operation;
it is reported, and the operation is submitted again. Sending is the same as over readiness, because asyncio's `sendto`
raises or reports a datagram's error inside the call, and because datagrams cannot be joined. The driver waits only when
the kernel has no room, and does so through POLL.

Thread: the loop's own.
"""

import errno
import socket
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from loopcore.kernel.readiness import Readiness
from loopcore.ports.operations import ReceiveFrom
from loopcore.transports.driver import DatagramDriver, Sink
from loopcore.transports.multishot_receiver import MultishotReceiver

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.interpreter import run_in_context
    from cython.cimports.loopcore._native.sockets import receive_internet, send_connected, send_internet
else:
    from loopcore._native.interpreter import run_in_context
    from loopcore._native.sockets import receive_internet, send_connected, send_internet

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from contextvars import Context

    from _typeshed import ReadableBuffer

    from loopcore.kernel.scheduler import Scheduler

DATAGRAM_LIMIT: Final = 256 * 1024
"""Bytes of a datagram that are kept; the number is asyncio's. UDP's own limit is 65,507 (IPv4) and 65,527 (IPv6)."""
BURST_LIMIT: Final = 32
"""Most datagrams that one event receives."""
EVENTS_BEFORE_MORE: Final = 4
"""Events in a row that have used up the burst before it doubles."""
SEND_LIMIT: Final = 64
"""Most queued datagrams that one event sends."""
RETRY_DELAY: Final = 0.001
"""Seconds between attempts where waiting for writability does not work."""
READ_FAILED: Final = "Fatal read error on datagram transport"
WRITE_FAILED: Final = "Fatal write error on datagram transport"


class ReadinessDatagramDriver(DatagramDriver):
    """One datagram socket, non-blocking, over a readiness port. The contract is DatagramDriver's."""

    __slots__ = (
        "_readiness",
        "_fileno",
        "_internet",
        "_queue",
        "_blocked",
        "_retry",
        "_burst",
        "_full_events",
        "_buffer",
        "_readable",
    )

    def _prepare(self, scheduler: "Scheduler", sink: Sink, sock: socket.socket, context: "Context") -> None:
        DatagramDriver._prepare(self, scheduler, sink, sock, context)
        self._readiness: Readiness = scheduler._readiness
        self._fileno: int = self.fd  # a Python int, kept because the table's keys are Python ints
        family = int(sock.family)
        self._internet: int = family if family in (socket.AF_INET, socket.AF_INET6) else 0
        self._queue: deque[tuple[bytes, Any, bool, int]] = deque()
        self._blocked: bool = False
        self._retry: TimerHandle | None = None
        self._burst: int = 1
        self._full_events: int = 0
        self._buffer: memoryview | None = None
        self._readable: Any = self._receive  # bound once, not for each event

    # Receiving

    def start_reading(self) -> None:
        if not self.reading:
            self._readiness.set_reader(self._fileno, self)
            self.reading = True

    def stop_reading(self) -> None:
        if self.reading:
            self.reading = False
            self._readiness.clear_reader(self._fileno)

    def _run(self) -> None:
        if not self.reading:
            return
        run_in_context(self.context, self._readable, ())

    def _receive(self) -> None:
        sink = self.sink
        left = self._burst
        while left and self.reading:
            left -= 1
            received = self._receive_one()
            if type(received) is tuple:
                item, sender = received
                # Here and below, compiled, `+=` would first take a reference to the attribute's owner.
                self.received = self.received + len(item)
                self.scheduler._bytes_received = self.scheduler._bytes_received + len(item)
                sink._on_datagram(item, sender)
                continue
            if received is None:
                self._burst = max(1, (2 * self._burst - left - 1) // 2)  # `_burst - left - 1` were there
                self._full_events = 0
                return
            if not isinstance(received, OSError):
                sink._failed(received, READ_FAILED)
                return
            sink._refused(received)
        self._full_events += 1
        if self._full_events == EVENTS_BEFORE_MORE:
            self._full_events = 0
            self._burst = min(2 * self._burst, BURST_LIMIT)

    def _receive_one(self) -> Any:
        """Return a datagram and its sender, None if there is none, or the exception if it failed."""
        try:
            return receive_internet(self.sock, self.fd) if self._internet else self._receive_other()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            return exc

    def _receive_other(self) -> "tuple[bytes, Any] | None":
        if self._buffer is None:
            # recvfrom() would allocate 256 KiB for each datagram and free nearly all of it again.
            self._buffer = memoryview(bytearray(DATAGRAM_LIMIT))
        try:
            size, address = self.sock.recvfrom_into(self._buffer)
        except (BlockingIOError, InterruptedError):
            return None
        return bytes(self._buffer[:size]), address

    # Sending

    def send(self, item: "ReadableBuffer", address: Any, connected: bool) -> bool:
        # The queue is empty unless blocked: usually its length is not looked up.
        return not (self._blocked and self._queue) and self._send_one(item, address, connected)

    def _send_one(self, item: "ReadableBuffer", address: Any, connected: bool) -> bool:
        if connected:
            sent = send_connected(self.sock, self.fd, item)
        else:
            sent = send_internet(self.sock, self.fd, self._internet, item, address)
        if sent:
            size = len(item) if type(item) is bytes else memoryview(item).nbytes
            self.sent = self.sent + size
            self.scheduler._bytes_sent = self.scheduler._bytes_sent + size
        return bool(sent)

    def queue(self, item: bytes, address: Any, connected: bool, size: int) -> None:
        if not self._blocked:
            self._readiness.set_writer(self._fileno, self.sink)  # first: the port may refuse
            self._blocked = True
        self._queue.append((item, address, connected, size))
        self.unsent += size

    def flush(self) -> None:
        pass  # the queue holds only what the kernel has refused

    def run_flush(self) -> None:
        if self._blocked:
            self._send_queue()

    def _send_queue(self) -> None:
        queue = self._queue
        gone = 0
        while queue and gone < SEND_LIMIT:
            item, address, connected, size = queue[0]
            try:
                sent = self._send_one(item, address, connected)
            except OSError as exc:
                self._drop_first(size)
                run_in_context(self.context, self._on_refused, (exc,))
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as exc:
                self.discard()
                self.sink._failed(exc, WRITE_FAILED)
                return
            else:
                if not sent:
                    if gone == 0:
                        self._retry_later()
                    break
                self._drop_first(size)
            gone += 1
            if not self._blocked:
                return  # `_refused` has aborted the transport
        if not queue:
            self._unblock()
        if gone:
            self.sink._on_written()

    def _drop_first(self, size: int) -> None:
        self._queue.popleft()
        self.unsent -= size

    def _on_refused(self, exc: OSError) -> None:
        self.sink._refused(exc)

    def _retry_later(self) -> None:
        """Try again a little later: the socket was reported writable, and took nothing."""
        self._readiness.clear_writer(self._fileno)
        self._retry = self.scheduler.call_later(RETRY_DELAY, self._watch_again)

    def _watch_again(self) -> None:
        self._retry = None
        try:
            self._readiness.set_writer(self._fileno, self.sink)
        except OSError as exc:
            self.discard()
            self.sink._failed(exc, WRITE_FAILED)

    def _unblock(self) -> None:
        if self._blocked:
            self._blocked = False
            if self._retry is None:
                self._readiness.clear_writer(self._fileno)
            else:
                self._retry.cancel()
                self._retry = None

    # Ending

    def discard(self) -> None:
        self._queue.clear()
        self.unsent = 0
        self._unblock()

    def release(self) -> None:
        sock = self.sock
        if sock is None:
            return
        self.reading = False
        self._readable = None
        self.discard()
        if sock.fileno() >= 0:  # otherwise its finalizer ran first, and the number may have a new owner
            self._readiness.forget(self._fileno)
        self.sock = None  # type: ignore[assignment]
        self.sink = None  # type: ignore[assignment]
        sock.close()

    def describe(self) -> str:
        read = "polling" if self.reading else "idle"
        write = "polling" if self._blocked else "idle"
        return f"read={read} write=<{write}, bufsize={self.unsent}>"


class CompletionDatagramDriver(ReadinessDatagramDriver):
    """One datagram socket, non-blocking, over a completion port. The contract is DatagramDriver's."""

    __slots__ = ("_receiver",)

    def _prepare(self, scheduler: "Scheduler", sink: Sink, sock: socket.socket, context: "Context") -> None:
        ReadinessDatagramDriver._prepare(self, scheduler, sink, sock, context)
        self._receiver: MultishotReceiver = MultishotReceiver(scheduler, self, ReceiveFrom(self.fd, DATAGRAM_LIMIT))

    def start_reading(self) -> None:
        if not self.reading:
            self.reading = True
            self._receiver.start()

    def stop_reading(self) -> None:
        if self.reading:
            self.reading = False
            self._receiver.stop()

    def _arrived(self, result: Any) -> None:
        if isinstance(result, tuple):
            self.count_received(len(result[0]))
            self.sink._on_datagram(result[0], result[1])
        elif result.errno in (errno.EBADF, errno.ENOTSOCK):
            self.sink._failed(result, READ_FAILED)  # closed elsewhere: submitting again would never end
        else:
            self.sink._refused(result)

    def release(self) -> None:
        self._receiver.release()
        ReadinessDatagramDriver.release(self)
