"""A completion port that knows files: it makes the calls itself, in `wait`, and can be told to do badly.

Every call is a real one of the operating system. What a test decides is when: `held` operations stay in flight
until they are let go, as with a slow disk; and how well: at most `most` bytes a call, or an error.
"""

import errno
import os
import select
from collections.abc import Callable
from typing import Any

from loopcore.ports import operations as ops
from loopcore.ports.completion import Completion
from loopcore.ports.interest import READ
from loopcore.ports.readiness import Capability, ProbeResult


class FilesPort:
    """POLL for reading, and files. Thread: the loop's own, except `wake`."""

    name = "files"
    capabilities = frozenset({Capability.FILES, Capability.REGULAR_FILES})

    def __init__(self) -> None:
        self.most: int | None = None
        """Bytes that a read or write moves at most."""
        self.hold: Callable[[ops.Operation], bool] = lambda operation: False
        """Which operations stay in flight."""
        self.fail: Callable[[ops.Operation], int] = lambda operation: 0
        """The errno that an operation ends with, or 0 for its real end."""
        self.log: list[str] = []
        """What was completed, by name."""
        self.cancels: list[str] = []
        """What was asked to end early."""
        self.heeds_cancel = True
        """Whether what is held ends early when it is asked to; otherwise it is done, and with its result."""
        self._flying: list[ops.Operation] = []
        self._cancelled: set[int] = set()
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        self._closed = False

    @classmethod
    def probe(cls) -> ProbeResult:
        return ProbeResult(True)

    def submit(self, operation: ops.Operation) -> None:
        if operation in self._flying:
            raise ValueError(f"{operation!r} is in flight")
        self._flying.append(operation)

    def cancel(self, operation: ops.Operation) -> None:
        if operation in self._flying:
            self.cancels.append(ops.NAMES[operation.code])
            self._cancelled.add(id(operation))

    def in_flight(self) -> list[str]:
        """The names of what has not ended, but for what is polled."""
        return [ops.NAMES[operation.code] for operation in self._flying if operation.code != ops.POLL]

    def let_go(self) -> None:
        """Complete what is held in the next wait."""
        self.hold = lambda operation: False
        self.wake()

    def wait(self, timeout: float | None) -> list[Completion]:
        done = self._complete()
        polls = {operation.fd: operation for operation in self._flying if isinstance(operation, ops.Poll)}
        poller = select.poll()
        for fd in (self._wake_in, *polls):
            poller.register(fd, select.POLLIN)
        for fd, _ in poller.poll(0 if done else None if timeout is None else timeout * 1000 + 1):
            if fd == self._wake_in:
                os.read(fd, 4096)
            else:
                self._flying.remove(polls[fd])
                done.append((polls[fd], READ, False))
        return done or self._complete()

    def wake(self) -> None:
        if not self._closed:
            try:
                os.write(self._wake_out, b".")
            except BlockingIOError:
                pass  # it is awake

    def close(self) -> list[ops.Operation]:
        if self._closed:
            return []
        self._closed = True
        os.close(self._wake_in)
        os.close(self._wake_out)
        left, self._flying = self._flying, []
        return left

    def _complete(self) -> list[Completion]:
        done: list[Completion] = []
        for operation in list(self._flying):
            if operation.code == ops.POLL and id(operation) not in self._cancelled:
                continue
            asked = id(operation) in self._cancelled
            if self.hold(operation) and not asked:
                continue
            self._flying.remove(operation)
            self._cancelled.discard(id(operation))
            if asked and (self.heeds_cancel or operation.code == ops.POLL):
                done.append((operation, OSError(errno.ECANCELED, "called off"), False))
                continue
            self.log.append(ops.NAMES[operation.code])
            done.append((operation, self._make(operation), False))
        return done

    def _make(self, operation: Any) -> Any:
        code = self.fail(operation)
        try:
            if code:
                raise OSError(code, os.strerror(code))
            return self._call(operation)
        except OSError as exc:
            # The port does not know names of files.
            return OSError(exc.errno, exc.strerror)

    def _call(self, operation: Any) -> Any:
        match operation:
            case ops.Open():
                return os.open(operation.path, operation.flags, operation.mode)
            case ops.Read():
                limit = operation.limit if self.most is None else min(self.most, operation.limit)
                return os.pread(operation.fd, limit, operation.offset)
            case ops.Write():
                (buffer,) = operation.buffers
                rest = memoryview(buffer)[operation.head :][: self.most]
                if operation.offset == -1:
                    return os.write(operation.fd, rest)
                return os.pwrite(operation.fd, rest, operation.offset)
            case ops.Sync():
                return (os.fdatasync if operation.data_only else os.fsync)(operation.fd)
            case ops.Stat(path=None):
                return os.fstat(operation.fd)
            case ops.Stat():
                return os.stat(operation.path, follow_symlinks=operation.follow)
            case ops.Close():
                return os.close(operation.fd)
        raise AssertionError(operation)
