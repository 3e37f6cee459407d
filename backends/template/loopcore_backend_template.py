"""A backend on poll(2): the smallest that keeps every promise of the port.

It uses nothing of loopcore but the port (`loopcore.ports.readiness`), the bits of an interest, which are poll's own on
Linux, and one error; it inherits from no class. Threads: `wake` may be called from any, and from a signal handler;
so may `unregister` and `close`, during a wait, which they then end. All other calls are the loop's.
"""

import math
import os
import select
from collections.abc import Sequence

from loopcore.errors import BackendClosedError
from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore.ports.readiness import Capability, ProbeResult, ReadyEvent

LONGEST_MS = 2**31 - 1
LARGEST_FD = 2**31 - 1


class _Wakes:
    """A pipe whose bytes end waits, closed with the last reference.

    A wake under way in another thread holds a reference, so it never writes into a file that reused the number.
    """

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        for end in (self.reader, self.writer):
            os.set_blocking(end, False)

    def __del__(self) -> None:
        os.close(self.reader)
        os.close(self.writer)

    def add(self) -> None:
        try:
            os.write(self.writer, b"\0")
        except BlockingIOError:
            pass  # full: a wake is pending already

    def absorb(self) -> None:
        try:
            while os.read(self.reader, 4096):
                pass
        except BlockingIOError:
            pass


class TemplateBackend:
    """Readiness from poll(2)."""

    name = "template"
    capabilities = frozenset({Capability.LARGE_DESCRIPTORS, Capability.REGULAR_FILES})
    backend_api = (1, 0)

    @classmethod
    def probe(cls) -> ProbeResult:
        available = hasattr(select, "poll")
        return ProbeResult(available, "" if available else "this platform has no poll(2)")

    def __init__(self) -> None:
        self._poll = select.poll()
        self._registered: set[int] = set()
        self._wakes: _Wakes | None = _Wakes()
        self._wake_fd = self._wakes.reader
        self._poll.register(self._wake_fd, select.POLLIN)
        self._is_closed = False
        self._is_waiting = False
        self._owner = os.getpid()

    def register(self, fd: int, interest: int) -> None:
        self._must_be_open()
        if fd in self._registered:
            raise FileExistsError(f"descriptor {fd} is registered already")
        if not 0 <= fd <= LARGEST_FD:
            raise ValueError(f"{fd} is {'negative' if fd < 0 else 'larger than any descriptor'}")
        os.fstat(fd)  # raises OSError for a closed one: poll(2) would report it only in the wait
        self._poll.register(fd, _to_poll(interest))
        self._registered.add(fd)

    def modify(self, fd: int, interest: int) -> None:
        self._must_be_open()
        if fd not in self._registered:
            raise self._unknown(fd)
        self._poll.modify(fd, _to_poll(interest))

    def unregister(self, fd: int) -> None:
        self._must_be_open()
        try:
            self._registered.remove(fd)
        except KeyError:
            raise self._unknown(fd) from None
        self._poll.unregister(fd)
        if self._is_waiting:  # poll(2) has `fd`, and holds its file
            self.wake()

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        self._is_waiting = True
        try:
            self._must_be_open()
            # Rounded up, because a wait that ends early spins until the deadline.
            ready = self._poll.poll(None if timeout is None else math.ceil(min(timeout * 1e3, LONGEST_MS)))
        finally:
            self._is_waiting = False
            if self._is_closed:
                self._wakes = None
        self._must_be_open()
        events = [(fd, _from_poll(bits)) for fd, bits in ready if fd in self._registered]
        if len(events) < len(ready) and self._wakes is not None:
            self._wakes.absorb()
        return events

    def wake(self) -> None:
        wakes = self._wakes
        if wakes is not None:
            wakes.add()

    def close(self) -> None:
        self._is_closed = True  # before the table: a number that is not in it is then that of a closed backend
        self._registered.clear()
        if self._is_waiting and os.getpid() == self._owner:  # a forked child has no wait
            self.wake()  # the wait releases the pipe when it has ended
        else:
            self._wakes = None

    def _unknown(self, fd: int) -> Exception:
        if self._is_closed:
            return BackendClosedError("the backend 'template' is closed")
        return FileNotFoundError(f"descriptor {fd} is not registered")

    def _must_be_open(self) -> None:
        if self._is_closed:
            raise BackendClosedError("the backend 'template' is closed")


def _to_poll(interest: int) -> int:
    return (select.POLLIN if interest & READ else 0) | (select.POLLOUT if interest & WRITE else 0)


def _from_poll(bits: int) -> int:
    return (
        (READ if bits & select.POLLIN else 0)
        | (WRITE if bits & select.POLLOUT else 0)
        | (ERROR if bits & (select.POLLERR | select.POLLNVAL) else 0)
        | (HANGUP if bits & select.POLLHUP else 0)
    )
