"""The driver for readiness ports: try the system call when the port says "ready" (or before asking), wait on EAGAIN.

Receiving: one receive an event. Further bytes are reported again, because readiness is
level-triggered, after every other connection has been served. The bytes pass through one reusable buffer and
reach the protocol as `bytes` of exact size (docs/adr/0011); a BufferedProtocol gets them straight into its
buffer.

Sending: written bytes are sent at the end of the tick, or when the event that they answer has been handled
(docs/adr/0011). The kernel nearly always has room, so a flush sends first, and asks for writability only for a
refused rest. While the driver waits for it (`blocked`) nothing else is tried: bytes are sent in the order of writes.

The sink plays both roles of the write side, "end of the tick" and "writable": a connection costs two
objects, not four.
"""

import socket
from typing import TYPE_CHECKING, Any

from loopcore.kernel.readiness import Readiness
from loopcore.transports.accepted import close_socket, number_of
from loopcore.transports.buffers import Buffer
from loopcore.transports.driver import Sink
from loopcore.transports.driver_buffered import WRITE_FAILED, BufferedStreamDriver

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.interpreter import run_in_context
else:
    from loopcore._native.interpreter import run_in_context

if TYPE_CHECKING:
    from contextvars import Context

    from loopcore.kernel.scheduler import Scheduler


class ReadinessDriver(BufferedStreamDriver):
    """One connected, non-blocking socket over a readiness port. The contract is StreamDriver's."""

    __slots__ = ("_readiness", "_fileno", "_blocked", "_readable")

    def _prepare(self, scheduler: "Scheduler", sink: Sink, sock: socket.socket, context: "Context") -> None:
        BufferedStreamDriver._prepare(self, scheduler, sink, sock, context)
        self._readiness: Readiness = scheduler._readiness
        self._fileno: int = self.fd  # a Python int, kept because the table's keys are Python ints
        self._blocked: bool = False
        self._readable: Any = self._on_readable  # bound once, not for each event

    def start_reading(self) -> None:
        if not self.reading:
            self._readiness.set_reader(self._fileno, self)
            self.reading = True

    def stop_reading(self) -> None:
        if self.reading:
            self.reading = False
            if self._is_listed():
                self._readiness.clear_reader(self._fileno)

    def _is_listed(self) -> bool:
        """Return whether the readiness table may hold this descriptor. It is empty once the loop is closed."""
        return not self.scheduler.is_closed()

    def _run(self) -> None:
        if not self.reading:
            return
        run_in_context(self.context, self._readable, ())
        if self._flush_scheduled:
            self._answer()

    def _on_readable(self) -> None:
        self._receive()  # a C method of the base class, which cannot be bound as `_readable`

    def _answer(self) -> None:
        """Send what the sink wrote in answer to the bytes just received, if no other sink has writes waiting.

        The end of the tick would do the same, but after the other events: by then neither the socket nor the
        bytes are in the processor's cache (docs/adr/0011). Earlier writes of other sinks must be sent first. An
        observed loop runs each send as a separate callback, so this is skipped there.
        """
        if self.scheduler._take_flush(self.sink):
            self.run_flush()

    def write(self, item: Buffer, size: int) -> None:
        if self.unsent == 0:
            self._single = item
        else:
            self._append(item)
        self.unsent = self.unsent + size  # compiled, `+=` takes a reference first
        if self._blocked:
            return
        self.scheduler._unflushed = self.scheduler._unflushed + size
        self._schedule_flush()

    def write_some(self, item: Buffer) -> int:
        goal = self.sent + self.unsent
        self.flush()
        return self._send_some(item) if self.sent == goal else 0  # nothing may follow while earlier bytes are unsent

    def flush(self) -> None:
        if self.unsent and not self._blocked:
            self._send()

    def run_flush(self) -> None:
        if self._flush_scheduled:
            # Called at the end of the tick. If an earlier flush was refused, it is too early to try again.
            self._flush_scheduled = False
            if self._blocked:
                return
        if self.unsent:
            self._send()

    def _send(self) -> None:
        """Send as much of the queue as the kernel takes, then wait for writability if that was not all."""
        if self._in_send:
            return
        try:
            self._send_queued()
            if self.unsent == 0:
                self._unblock()
            elif not self._blocked:
                self._readiness.set_writer(self._fileno, self.sink)
                self._blocked = True
        except (SystemExit, KeyboardInterrupt):
            self._schedule_flush()  # for what is left
            raise
        except BaseException as exc:
            self.discard()
            self.sink._failed(exc, WRITE_FAILED)
            return
        self.sink._on_written()

    def _unblock(self) -> None:
        if self._blocked:
            self._blocked = False
            if self._is_listed():
                self._readiness.clear_writer(self._fileno)

    def discard(self) -> None:
        self._drop_all()
        self._unblock()

    def release(self) -> None:
        sock = self.sock
        if sock is None:
            return
        self.reading = False
        self._readable = None
        self._drop_all()
        self._blocked = False
        if number_of(sock) >= 0:  # otherwise its finalizer ran first, and the number may have a new owner
            self._readiness.forget(self._fileno)
        self.sock = None  # type: ignore[assignment]
        self.sink = None  # type: ignore[assignment]
        close_socket(sock)

    def describe(self) -> str:
        read = "polling" if self.reading else "idle"
        write = "polling" if self._blocked else "idle"
        return f"read={read} write=<{write}, bufsize={self.unsent}>"
