"""The drivers of pipes over a readiness port: one for the read end, one for the write end.

Here a pipe is any descriptor that can be read from or written to without blocking: pipes and FIFOs, sockets,
terminals and other character devices. Only the descriptor is used, with read(2), write(2) and writev(2); the
file object around it may be buffered or text; it is only asked for its descriptor, and closed in the end.

Writes are sent at once; unlike those of a socket, they are not joined at the end of the tick. The other end is often
a thread of the same process, or a test, in a blocking read, which would hang if the write waited for the tick.

A file that the port cannot watch, because it is always ready (epoll(7) fails with EPERM for /dev/null or /dev/zero,
where poll(2) and select(2) report it as ready), is read through the ready queue: one read a tick, in turn with
everything else.

Two transports may share one file, a terminal for instance. The first that ends closes it for both. From then on
the number may have a new owner, so the other transport leaves the readiness table alone: see `is_open`.
"""

import os
import select
import socket
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from loopcore.kernel.readiness import Readiness
from loopcore.transports.driver import Buffer, Sink, StreamDriver

if TYPE_CHECKING:
    from contextvars import Context

    from loopcore.kernel.scheduler import Scheduler

READ_LIMIT: Final = 120 * 1024
"""Most bytes that one read takes: below 128 KiB, where malloc turns to mmap(2) (docs/adr/0011)."""
VECTOR_LIMIT: Final = min(1024, os.sysconf("SC_IOV_MAX") if hasattr(os, "sysconf") else 16)
"""Most buffers that one write of the queue takes."""
READ_FAILED: Final = "Fatal read error on pipe transport"
WRITE_FAILED: Final = "Fatal write error on pipe transport"

GONE, SILENT, TALKING = "gone", "silent", "talking"
"""States of a pipe's reader: it has left; it is there; there is something to be read from it."""


def is_open(pipe: Any) -> bool:
    """Return whether the file or socket still has its descriptor."""
    try:
        return bool(pipe.fileno() >= 0)
    except ValueError:  # raised by a closed file
        return False


class PipeDriver(StreamDriver):
    """The part that both ends have in common. The attribute `sock` is the file object."""

    __slots__ = ("_readiness",)

    def __init__(self, scheduler: "Scheduler", sink: Sink, pipe: Any, context: "Context") -> None:
        StreamDriver.__init__(self, scheduler, sink, pipe, context)
        self._readiness: Readiness = scheduler.readiness

    def discard(self) -> None:
        """Drop the queue: there is none, unless a subclass has one."""

    def release(self) -> None:
        pipe: Any = self.sock
        if pipe is None:
            return
        self.discard()
        self.reading = False
        if is_open(pipe):
            self._readiness.forget(self.fd)
        self._let_go()
        pipe.close()

    def abandon(self) -> None:
        """Close the file at once, for a loop that is already closed: it has neither a table nor a close phase."""
        pipe: Any = self.sock
        if pipe is not None:
            self._let_go()
            pipe.close()

    def _let_go(self) -> None:
        self.reading = False
        self.sock = None  # type: ignore[assignment]
        self.sink = None  # type: ignore[assignment]

    def describe(self) -> str:
        return "polling" if self.reading else "idle"


class PipeReader(PipeDriver):
    """The read end."""

    __slots__ = ("_always_ready", "_queued")

    def __init__(self, scheduler: "Scheduler", sink: Sink, pipe: Any, context: "Context") -> None:
        PipeDriver.__init__(self, scheduler, sink, pipe, context)
        self._always_ready = False
        self._queued = False

    def start_reading(self) -> None:
        if self.reading:
            return
        if not self._always_ready:
            try:
                self._readiness.set_reader(self.fd, self)
            except PermissionError:
                self._always_ready = True
        self.reading = True
        self._queue_turn()

    def stop_reading(self) -> None:
        if self.reading:
            self.reading = False
            if not self._always_ready and is_open(self.sock):
                self._readiness.clear_reader(self.fd)

    def _run(self) -> None:
        self._queued = False
        if self.reading:
            self.context.run(self._receive)
            self._queue_turn()

    def _queue_turn(self) -> None:
        if self._always_ready and self.reading and not self._queued:
            self._queued = True
            self.scheduler.push(self)

    def _receive(self) -> None:
        sink = self.sink
        try:
            received = os.read(self.fd, READ_LIMIT)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as exc:
            sink._failed(exc, READ_FAILED)
            return
        if received:
            self.count_received(len(received))
            sink._received(received)
        else:
            sink._end_of_file()


class PipeWriter(PipeDriver):
    """The write end. "Reading" it notices that its reader has left, which `_end_of_file` reports."""

    __slots__ = ("_blocked", "_is_socket", "_queue")

    def __init__(
        self, scheduler: "Scheduler", sink: Sink, pipe: Any, context: "Context", *, is_socket: bool = False
    ) -> None:
        PipeDriver.__init__(self, scheduler, sink, pipe, context)
        self._is_socket = is_socket
        self._queue: deque[memoryview] = deque()
        self._blocked = False

    def start_reading(self) -> None:
        if not self.reading:
            self._readiness.set_reader(self.fd, self)
            self.reading = True

    def stop_reading(self) -> None:
        if self.reading:
            self.reading = False
            if is_open(self.sock):
                self._readiness.clear_reader(self.fd)

    def _run(self) -> None:
        if not self.reading:
            return
        reader = look_for_reader(self.fd, self._is_socket)
        if reader is GONE:
            self.sink._end_of_file()
        elif reader is TALKING:
            # Bytes from the other direction are for a reader of this socket, not for this driver; every wait would
            # report them. The next write will report that the reader has left.
            self.stop_reading()

    def write_some(self, item: Buffer) -> int:
        if self.unsent or self.sock is None:
            return 0
        try:
            sent = os.write(self.fd, item)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as exc:
            self.sink._failed(exc, WRITE_FAILED)
            return 0
        self.count_sent(sent)
        return sent

    def write(self, item: Buffer, size: int) -> None:
        """Queue `item`, to be sent when the pipe takes more. Raises the port's error if it cannot watch the pipe."""
        if not self._blocked:
            self._readiness.set_writer(self.fd, self.sink)
            self._blocked = True
        self._queue.append(memoryview(item))
        self.unsent += size

    def flush(self) -> None:
        """Do nothing: the queue holds only what the kernel has refused."""

    def run_flush(self) -> None:
        if not self.unsent:
            return
        try:
            sent = os.writev(self.fd, list(islice(self._queue, VECTOR_LIMIT)))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as exc:
            self.discard()
            self.sink._failed(exc, WRITE_FAILED)
            return
        self.count_sent(sent)
        self._drop(sent)
        if not self.unsent:
            self._unblock()
        self.sink._written()

    def _drop(self, sent: int) -> None:
        """Remove the first `sent` bytes from the queue."""
        self.unsent -= sent
        queue = self._queue
        while sent:
            first = queue.popleft()
            if sent < len(first):
                queue.appendleft(first[sent:])
                return
            sent -= len(first)

    def _unblock(self) -> None:
        if self._blocked:
            self._blocked = False
            if is_open(self.sock):
                self._readiness.clear_writer(self.fd)

    def discard(self) -> None:
        self._queue.clear()
        self.unsent = 0
        self._unblock()

    def describe(self) -> str:
        return f"{'polling' if self._blocked else 'idle'} bufsize={self.unsent}"


def look_for_reader(fd: int, is_socket: bool) -> str:
    """Return whether the reader of the pipe or socket being written to has left: GONE, SILENT or TALKING.

    An event alone does not prove it: readiness may be spurious, a socket is readable when its peer has
    written, and a FIFO that was opened for both directions is readable when it holds bytes written here.
    """
    if is_socket:
        return _look_for_peer(fd)
    if not hasattr(select, "poll"):
        return GONE
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    found = poll.poll(0)
    if not found:
        return SILENT
    (_, events) = found[0]
    return GONE if events & (select.POLLERR | select.POLLHUP | select.POLLNVAL) else TALKING


def _look_for_peer(fd: int) -> str:
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
