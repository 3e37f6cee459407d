"""select(2): the multiplexer that every platform has.

It takes three sets, of descriptors to read, to write and with exceptional conditions, and returns which are
ready. A set is an array of FD_SETSIZE bits (1024 with glibc, fixed when Python was compiled) indexed by number, so
a descriptor from there on cannot be watched however few there are. On Windows a set is a list of at most
512 sockets instead, and a connection that fails shows in the third set only. There are no ERROR and HANGUP hints
otherwise: a peer that is gone makes its descriptor readable.

One closed descriptor fails the whole call with EBADF; we then search for it and report it as ERROR, as
poll(2) would, together with the ready ones.

Facts: select(2), POSIX. Threads: see `loopcore.ports.readiness`.
"""

import select
import sys
from collections.abc import Sequence
from math import ceil
from typing import Final

from loopcore.ports.interest import ERROR, READ, WRITE
from loopcore.ports.readiness import Capability, ProbeResult, ReadyEvent
from loopcore_backends import _refusals
from loopcore_backends._waker import FlaggedWaker

WINDOWS: Final = sys.platform == "win32"

MOST_ON_WINDOWS: Final = 511
"""Descriptors that may be registered there: the waker is the 512th."""

LONGEST: Final = 24 * 3600.0
"""Seconds that every platform's select accepts. A longer wait ends then, with no event."""


class SelectBackend:
    """Readiness from select(2)."""

    name: str = "select"
    capabilities: frozenset[Capability] = frozenset(() if WINDOWS else (Capability.REGULAR_FILES,))
    backend_api = (1, 0)

    @classmethod
    def probe(cls) -> ProbeResult:
        return ProbeResult(True)

    def __init__(self) -> None:
        self._waker = FlaggedWaker()
        _check(self._waker.fd)
        self._registered: set[int] = set()
        self._readers = {self._waker.fd}
        self._writers: set[int] = set()

    def register(self, fd: int, interest: int) -> None:
        self._must_be_open()
        if fd in self._registered:
            raise _refusals.registered_already(fd)
        _check(fd)
        if WINDOWS and len(self._registered) >= MOST_ON_WINDOWS:
            raise ValueError(
                f"select of Windows watches at most {MOST_ON_WINDOWS} sockets; "
                "use a backend without that limit: backend='iocp', or LOOPCORE_BACKEND=iocp"
            )
        self._watch(fd, interest)
        self._registered.add(fd)

    def modify(self, fd: int, interest: int) -> None:
        self._must_be_open()
        if fd not in self._registered:
            raise self._unknown(fd)
        self._watch(fd, interest)
        if fd not in self._registered:  # looked at last: another thread may unregister it at any moment
            self._watch(fd, 0)
            raise self._unknown(fd)

    def unregister(self, fd: int) -> None:
        self._must_be_open()
        try:
            self._registered.remove(fd)
        except KeyError:
            raise self._unknown(fd) from None
        self._watch(fd, 0)
        self._waker.disturb()

    def _watch(self, fd: int, interest: int) -> None:
        if interest & READ:
            self._readers.add(fd)
        else:
            self._readers.discard(fd)
        if interest & WRITE:
            self._writers.add(fd)
        else:
            self._writers.discard(fd)

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        waker = self._waker
        waker.waiting = True
        try:
            self._must_be_open()
            events = self._look(timeout)
        finally:
            waker.waiting = False
            if waker.closed:  # during the wait, by a finalizer or another thread
                self.close()
        self._must_be_open()
        if waker.raised or waker.fd in events:  # readable a moment before the waking thread raises the flag
            waker.absorb()
            return [(fd, events[fd]) for fd in events if fd in self._registered]
        # Not `events.items()`: when memory runs out, its iterator ends the process in CPython 3.11.
        return [(fd, events[fd]) for fd in events]

    def _look(self, timeout: float | None) -> dict[int, int]:
        try:
            # Cut here: too long a time for a timeval is an OverflowError in CPython, but EINVAL in PyPy.
            limit = timeout if timeout is None or timeout < LONGEST else LONGEST
            return _select(self._readers, self._writers, limit)
        except OSError:
            # EBADF; on Windows ENOTSOCK, for a number whose socket was closed.
            closed = {fd for fd in [*self._registered] if not _is_open(fd)}
            if not closed and not self._waker.raised:
                raise
            return self._beside(closed)

    def _beside(self, closed: set[int]) -> dict[int, int]:
        """Report closed descriptors as ERROR, and look at the others."""
        events = _select(self._readers - closed, self._writers - closed, 0.0)
        return events | dict.fromkeys(closed, ERROR)

    def wake(self) -> None:
        self._waker.wake()

    def close(self) -> None:
        self._waker.close()
        if not self._waker.is_in_use():  # or else the wait is about to receive the wake
            for watched in (self._registered, self._readers, self._writers):
                watched.clear()

    def _unknown(self, fd: int) -> Exception:
        return _refusals.closed(self.name) if self._waker.closed else _refusals.not_registered(fd)

    def _must_be_open(self) -> None:
        if self._waker.closed:
            raise _refusals.closed(self.name)


def _select(readers: set[int], writers: set[int], timeout: float | None) -> dict[int, int]:
    """Return the ready descriptors; select.select rounds the timeout up to whole microseconds itself.

    Windows then rounds it down to milliseconds, which would spin until the deadline.
    """
    if WINDOWS and timeout is not None:
        timeout = ceil(timeout * 1000.0) / 1000.0
    # Lists: a finalizer that runs while select.select iterates over a set may change it.
    reading, writing = [*readers], [*writers]
    readable, writable, failed = select.select(reading, writing, writing if WINDOWS else (), timeout)
    events = dict.fromkeys(readable, READ)
    for fd in writable:
        events[fd] = events.get(fd, 0) | WRITE
    for fd in failed:
        events[fd] = events.get(fd, 0) | WRITE | ERROR
    return events


def _check(fd: int) -> None:
    """Raise now what select(2) would raise for `fd` later: only select knows its FD_SETSIZE."""
    try:
        select.select((fd,), (), (), 0.0)
    except (ValueError, OverflowError) as exc:
        if fd < 0 or isinstance(exc, OverflowError):
            raise _refusals.not_a_number_of_files(fd) from None
        raise ValueError(
            f"descriptor {fd} is beyond FD_SETSIZE, the limit of select(2); "
            "use a backend without that limit: backend='poll' or 'epoll', or LOOPCORE_BACKEND=poll"
        ) from None


def _is_open(fd: int) -> bool:
    try:
        select.select((fd,), (), (), 0.0)
    except OSError:
        return False
    return True
