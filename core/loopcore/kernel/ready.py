"""The ready queue: what runs next.

A tick runs as many entries of ReadyQueue as were in it when the wait returned, so entries that they schedule belong to
the next tick.

`push` may be called in the middle of another `push` or `pop`: by a Python signal handler, or by a finalizer that the
garbage collector runs, in this thread or in another (it may wake a task). So neither makes a call between reading its
indices and writing them. Without the GIL each is a critical section (PEP 703).
"""

from loopcore.hooks.observer import QUEUED
from loopcore.hooks.sources import READY
from loopcore.kernel.observers import Observers
from loopcore.kernel.runnable import Runnable

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython import cast
else:
    from loopcore._cython import cast

SMALL_RING = 64
"""Entries of a new ring; a power of two, as is every ring's size."""

LARGE_RING = 1 << 16
"""Entries above which an empty ring is replaced by a small one."""

_LARGE_RING = LARGE_RING
_READY, _QUEUED = READY, QUEUED


class ReadyQueue:
    """First in, first out, in a ring that is allocated once and doubled when it is full.

    A program at work pushes and pops all the time and rarely holds more than a few entries; a ring does this without
    allocations. A ring that a burst made large is freed once it is empty.
    """

    __slots__ = ("_ring", "_mask", "_limit", "_first", "_count", "_observers", "_source")

    def __init__(self) -> None:
        self._ring: list[Runnable | None] = [None] * SMALL_RING
        self._mask: int = SMALL_RING - 1
        # With more entries than this `push` takes the slow path: the ring is full, or (-1) the queue is observed.
        self._limit: int = SMALL_RING - 1
        self._first: int = 0
        self._count: int = 0
        self._observers: Observers | None = None
        self._source: int = _READY  # what is reported for pushed entries; READY: ask each entry

    def __len__(self) -> int:
        return self._count

    def push(self, runnable: Runnable) -> None:
        """Put `runnable` at the end. Raises TypeError for None."""
        if runnable is None:  # compiled, None would pass for a Runnable
            raise TypeError("push() takes what is to be run, not None")
        with cython.critical_section(self):
            if self._count > self._limit:
                self._prepare_for(runnable)
            self._ring[(self._first + self._count) & self._mask] = runnable
            self._count += 1

    def report_to(self, observers: Observers | None) -> None:
        """Report each entry that is pushed to `observers`; None ends the reports."""
        self._observers = observers
        self._limit = self._mask if observers is None else -1

    def _prepare_for(self, runnable: Runnable) -> None:
        if self._observers is not None:
            try:
                source = runnable._source() if self._source == _READY else self._source
                self._observers.report(_QUEUED, runnable, source)
            except BaseException:  # of a signal handler, while an observer ran Python
                self._make_room()
                self._ring[(self._first + self._count) & self._mask] = runnable
                self._count += 1
                raise
        self._make_room()

    def _make_room(self) -> None:
        while self._count > self._mask:
            self._grow()

    def pop(self) -> Runnable | None:
        """Remove and return the oldest entry, or None if the queue is empty."""
        with cython.critical_section(self):
            if self._count == 0:
                return None
            runnable = self._ring[self._first]
            self._ring[self._first] = None
            self._first = (self._first + 1) & self._mask
            self._count -= 1
            if self._count == 0 and self._mask >= _LARGE_RING:
                self._shrink()
        return cast(Runnable, runnable)  # type: ignore[no-any-return]  # a check would walk through its bases

    def take_only(self, runnable: Runnable) -> bool:
        """Remove `runnable` if it is the only entry; return whether it was."""
        with cython.critical_section(self):
            if self._count != 1 or self._ring[self._first] is not runnable:
                return False
            self._ring[self._first] = None
            self._count = 0
        return True

    def _shrink(self) -> None:
        ring = self._ring
        try:
            small: list[Runnable | None] = [None] * SMALL_RING
        except MemoryError:
            return  # it stays large until it is empty again
        if self._count or self._ring is not ring:
            return  # a finalizer pushed, or shrank it, while the list was made
        self._ring = small
        self._mask = SMALL_RING - 1
        self._limit = self._mask if self._observers is None else -1
        self._first = 0

    def take(self) -> "list[Runnable]":
        """Remove and return all entries, in order."""
        taken: list[Runnable] = []
        for _ in range(self._count):
            runnable = self.pop()
            if runnable is not None:
                taken.append(runnable)
        return taken

    def clear(self) -> None:
        """Drop all entries, which never run, and those that are pushed while entries are destroyed."""
        while self._count:
            for runnable in self.take():
                runnable._discard()

    def _grow(self) -> None:
        ring = self._ring
        size = self._mask + 1
        first = self._first
        grown: list[Runnable | None] = [None] * (2 * size)
        grown[:size] = [*ring[first:], *ring[:first]]  # without a loop, in which a finalizer could push or pop
        if self._ring is not ring or self._first != first or self._count <= self._mask:
            return  # the ring was grown or emptied while the list was made: the caller checks again
        self._ring = grown
        self._mask = 2 * size - 1
        self._limit = self._mask if self._observers is None else -1
        self._first = 0
