"""The drivers of pipes over a completion port: Read and Write operations for pipes, FIFOs and sockets.

What `loopcore.transports.driver_pipe` says about pipes holds here too. Terminals and other devices use the drivers
there, which work through POLL: cancelling that takes nothing from the device, and a terminal is often shared.

A MultishotReceiver reads. Writes are sent at once, by write(2); the rest that the pipe has no room for is sent by one
Write after the other. POLL notices that the reader of a pipe has closed its end. On Windows a pipe cannot be polled,
and can be written to only by operations: there every write is a Write, and a small Read notices the reader's closing.

Thread: the loop's own.
"""

import os
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from loopcore.kernel.completions import Completions
from loopcore.ports.operations import Read, Write
from loopcore.transports.driver import Buffer, Sink
from loopcore.transports.driver_completion import AWAITED_LIMIT
from loopcore.transports.driver_pipe import (
    READ_FAILED,
    READ_LIMIT,
    VECTOR_LIMIT,
    WRITE_FAILED,
    PipeDriver,
    PipeWriter,
)
from loopcore.transports.multishot_receiver import MultishotReceiver

if TYPE_CHECKING:
    from contextvars import Context

    from loopcore.kernel.scheduler import Scheduler

HAS_DESCRIPTORS: Final = os.name == "posix"
"""Whether a pipe can be polled, and written to by write(2)."""

LOOK_LIMIT: Final = 16
"""Bytes read from the write end of a pipe, where a read is how its closing is noticed; none are expected."""


class CompletionPipeReader(PipeDriver):
    """The read end."""

    __slots__ = ("_receiver",)

    def __init__(self, scheduler: "Scheduler", sink: Sink, pipe: Any, context: "Context") -> None:
        PipeDriver.__init__(self, scheduler, sink, pipe, context)
        self._receiver = MultishotReceiver(scheduler, self, Read(self.fd, READ_LIMIT))

    def start_reading(self) -> None:
        if not self.reading:
            self.reading = True
            self._receiver.start()

    def stop_reading(self) -> None:
        if self.reading:
            self.reading = False
            self._receiver.stop()

    def _arrived(self, result: Any) -> None:
        if isinstance(result, OSError):
            self.sink._failed(result, READ_FAILED)
        elif result:
            self.count_received(len(result))
            self.sink._received(result)
        else:
            self.sink._end_of_file()

    def _let_go(self) -> None:
        self._receiver.release()
        PipeDriver._let_go(self)


class CompletionPipeWriter(PipeWriter):
    """The write end. `_blocked` says that a Write is in flight."""

    __slots__ = ("_completions", "_receiver", "_writing")

    def __init__(
        self, scheduler: "Scheduler", sink: Sink, pipe: Any, context: "Context", *, is_socket: bool = False
    ) -> None:
        PipeWriter.__init__(self, scheduler, sink, pipe, context, is_socket=is_socket)
        self._completions: Completions = scheduler.completions
        self._receiver: MultishotReceiver | None = (
            None if HAS_DESCRIPTORS else MultishotReceiver(scheduler, self, Read(self.fd, LOOK_LIMIT))
        )
        self._writing = Write(self.fd)

    def start_reading(self) -> None:
        if self._receiver is None:
            PipeWriter.start_reading(self)
        elif not self.reading:
            self.reading = True
            self._receiver.start()

    def stop_reading(self) -> None:
        if self._receiver is None:
            PipeWriter.stop_reading(self)
        elif self.reading:
            self.reading = False
            self._receiver.stop()

    def _arrived(self, result: Any) -> None:
        if isinstance(result, bytes) and result:
            return  # meant for a reader of this end, not for this driver
        if isinstance(result, PermissionError):
            self.stop_reading()  # this end is write-only: the next write will report that the reader has left
            return
        self.sink._end_of_file()

    def write_some(self, item: Buffer) -> int:
        return PipeWriter.write_some(self, item) if HAS_DESCRIPTORS else 0

    def write(self, item: Buffer, size: int) -> None:
        self._queue.append(memoryview(item))
        self.unsent += size
        if not self._blocked:
            self._submit()

    def _submit(self) -> None:
        writing = self._writing
        writing.buffers = self._first()
        writing.target = self.sink
        self._completions.submit(writing)
        self._blocked = True

    def _first(self) -> list[memoryview]:
        """Return a limited front of the queue for one Write: a port may end it only when all of it is written."""
        first: list[memoryview] = []
        left = AWAITED_LIMIT
        for item in islice(self._queue, VECTOR_LIMIT):
            first.append(item[:left])
            left -= len(first[-1])
            if not left:
                break
        return first

    def run_flush(self) -> None:
        writing = self._writing
        result = writing.result
        writing.result = writing.target = None
        writing.buffers = ()
        self._blocked = False
        if not isinstance(result, OSError):
            self.count_sent(result)
        if not self.unsent:
            return  # the queue was discarded
        if isinstance(result, OSError):
            self.discard()
            self.sink._failed(result, WRITE_FAILED)
            return
        self._drop(result)
        if self.unsent:
            self._submit()
        self.sink._written()

    def _unblock(self) -> None:
        if self._blocked:
            self._completions.cancel(self._writing)  # stays blocked until the Write has ended

    def _let_go(self) -> None:
        if self._receiver is not None:
            self._receiver.release()
        PipeWriter._let_go(self)
