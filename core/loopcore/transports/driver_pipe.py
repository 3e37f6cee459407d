"""The drivers of pipes: those of streams, with other system calls and operations.

Here a pipe is any descriptor that can be read from or written to without blocking: pipes and FIFOs, sockets,
terminals and other character devices. Only the descriptor is used; the file object around it may be buffered or text;
it is only asked for its descriptor, and closed in the end. "Reading" the write end notices that its reader has left.

Readiness: read(2), write(2) and writev(2). A file that the port cannot watch, because it is always ready (epoll(7)
fails with EPERM for /dev/null or /dev/zero, where poll(2) and select(2) report it as ready), is read through the ready
queue: one read a tick, in turn with everything else. Two transports may share one file, a terminal for instance. The
first that ends closes it for both. From then on the number may have a new owner, so the other transport leaves the
readiness table alone.

Completions: Read and Write operations for pipes, FIFOs and sockets. Terminals and other devices have the drivers for
readiness, over POLL: cancelling that takes nothing from the device, and a terminal is often shared. POLL notices that
the reader of a pipe has left. On Windows a pipe cannot be polled, and can be written to only by operations: there
every write is a Write, and a small Read notices the reader's closing.

Thread: the loop's own.
"""

import os
import select
import socket
import stat
from typing import TYPE_CHECKING, Any, Final

from loopcore.ports.interest import READ
from loopcore.ports.operations import Poll, Read, Write
from loopcore.transports.accepted import number_of
from loopcore.transports.buffers import Buffer
from loopcore.transports.driver import Sink, StreamDriver
from loopcore.transports.driver_completion import RECEIVE_LIMIT, CompletionDriver
from loopcore.transports.driver_readiness import ReadinessDriver

if TYPE_CHECKING:
    from contextvars import Context

    from loopcore.kernel.scheduler import Scheduler

HAS_DESCRIPTORS: Final = os.name == "posix"
"""Whether a pipe can be polled, and written to by writev(2)."""

LOOK_LIMIT: Final = 16
"""Bytes read from the write end of a pipe, where a read is how its closing is noticed; none are expected."""

GONE, SILENT, TALKING = "gone", "silent", "talking"
"""States of a pipe's reader: it has left; it is there; there is something to be read from it."""


class PipeDriver(ReadinessDriver):
    """Either end, over a readiness port. The attribute `sock` is the file object."""

    __slots__ = ()

    def _prepare(self, scheduler: "Scheduler", sink: Sink, sock: Any, context: "Context") -> None:
        ReadinessDriver._prepare(self, scheduler, sink, sock, context)
        self._is_pipe = True

    def _is_listed(self) -> bool:
        return not self.scheduler.is_closed() and number_of(self.sock) >= 0


class PipeReader(PipeDriver):
    """The read end, over a readiness port."""

    __slots__ = ("_always_ready", "_queued")

    def _prepare(self, scheduler: "Scheduler", sink: Sink, sock: Any, context: "Context") -> None:
        PipeDriver._prepare(self, scheduler, sink, sock, context)
        self._always_ready: bool = False
        self._queued: bool = False

    def start_reading(self) -> None:
        if not self._always_ready:
            try:
                PipeDriver.start_reading(self)
            except PermissionError:
                self._always_ready = True
        if self._always_ready:
            self.reading = True
            self._queue_turn()

    def stop_reading(self) -> None:
        if self._always_ready:
            self.reading = False
        else:
            PipeDriver.stop_reading(self)

    def _run(self) -> None:
        self._queued = False
        try:
            PipeDriver._run(self)
        finally:  # also when the protocol ends the run: the next one goes on
            if self._always_ready and self.reading:
                self._queue_turn()

    def _queue_turn(self) -> None:
        if not self._queued:
            self._queued = True
            self.scheduler._ready.push(self)


class PipeWriter(PipeDriver):
    """The write end, over a readiness port."""

    __slots__ = ()

    def start_reading(self) -> None:
        # A device has no reader to lose, and its readability means something else.
        if not stat.S_ISCHR(os.fstat(self.fd).st_mode):
            PipeDriver.start_reading(self)

    def _on_readable(self) -> None:
        look_for_reader(self)


class CompletionPipeReader(CompletionDriver):
    """The read end, over a completion port."""

    __slots__ = ()

    def _prepare(self, scheduler: "Scheduler", sink: Sink, sock: Any, context: "Context") -> None:
        CompletionDriver._prepare(self, scheduler, sink, sock, context)
        self._is_pipe = True
        self._receiving = Read(self.fd, RECEIVE_LIMIT)
        self._receiver.use(self._receiving)


class CompletionPipeWriter(CompletionPipeReader):
    """The write end, over a completion port."""

    __slots__ = ()

    def _prepare(self, scheduler: "Scheduler", sink: Sink, sock: Any, context: "Context") -> None:
        CompletionPipeReader._prepare(self, scheduler, sink, sock, context)
        self._sending = Write(self.fd)
        self._receiver.use(Poll(self.fd, READ) if HAS_DESCRIPTORS else Read(self.fd, LOOK_LIMIT))

    def _arrived(self, result: Any) -> None:
        if isinstance(result, int):
            look_for_reader(self)
        elif isinstance(result, bytes) and result:
            pass  # meant for a reader of this end, not for this driver
        elif isinstance(result, PermissionError):
            self.stop_reading()  # this end is write-only: the next write will report that the reader has left
        else:
            self.sink._end_of_file()

    def _send_some(self, item: Buffer) -> int:
        return CompletionPipeReader._send_some(self, item) if HAS_DESCRIPTORS else 0

    def _send_queued(self) -> None:
        if HAS_DESCRIPTORS:
            CompletionPipeReader._send_queued(self)


def look_for_reader(driver: StreamDriver) -> None:
    """Find out whether the reader of the pipe or socket being written to has left, and if so end the transport.

    An event alone does not prove it: readiness may be spurious, a socket is readable when its peer has
    written, and a FIFO that was opened for both directions is readable when it holds bytes written here.
    """
    reader = state_of_reader(driver.fd)
    if reader is GONE:
        driver.sink._end_of_file()
    elif reader is TALKING:
        # Bytes from the other direction are for a reader of this socket, not for this driver; every wait would
        # report them. The next write will report that the reader has left.
        driver.stop_reading()


def state_of_reader(fd: int) -> str:
    """Return GONE, SILENT or TALKING."""
    if stat.S_ISSOCK(os.fstat(fd).st_mode):
        return _state_of_peer(fd)
    if not hasattr(select, "poll"):
        return GONE
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    found = poll.poll(0)
    if not found:
        return SILENT
    (_, events) = found[0]
    return GONE if events & (select.POLLERR | select.POLLHUP | select.POLLNVAL) else TALKING


def _state_of_peer(fd: int) -> str:
    peek = socket.socket(fileno=fd)
    try:
        peek.setblocking(False)  # the descriptor is non-blocking, but the object may have got a default timeout
        return TALKING if peek.recv(1, socket.MSG_PEEK) else GONE
    except (BlockingIOError, InterruptedError):
        return SILENT
    except OSError:
        return GONE
    finally:
        peek.detach()
