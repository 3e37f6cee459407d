"""Timers: which callbacks are due, and how long the backend may sleep.

A heap ordered by (deadline, sequence): equal deadlines fire in the order in which they were set, which asyncio leaves
open. A cancelled timer stays in the heap until it surfaces; once more than half of the heap is cancelled it is
rebuilt, so it holds at most twice the live timers (and a few).

Not a timer wheel: deadlines are sparse, and most timers are cancelled long before they fire, which costs a flag here.
The heap itself is `native/deadlines.pxd`, compiled, and heapq, interpreted (docs/adr/0026); the timers in it are kept
alive by a list, in no order, in which each knows its place.
"""

from loopcore.kernel.handle import TimerHandle

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.native.deadlines import (
        Deadlines,
        cut_deadlines,
        first_deadline,
        free_deadlines,
        keep_deadline,
        make_deadlines,
        pop_deadline,
        push_deadline,
        reserve_deadline,
        timer_at,
    )
else:
    from loopcore.native.interpreted_deadlines import (
        Deadlines,
        cut_deadlines,
        first_deadline,
        free_deadlines,
        keep_deadline,
        make_deadlines,
        pop_deadline,
        push_deadline,
        reserve_deadline,
        timer_at,
    )

COMPACT_ABOVE = 64
"""Heaps smaller than this are not worth a rebuild."""


_NEVER = float("inf")


class TimerHeap:
    """Every timer that was set and has not fired. Times are seconds of the loop's clock."""

    __slots__ = ("earliest", "_timers", "_heap", "_next_sequence", "cancelled_count")

    def __init__(self) -> None:
        self.earliest: float = _NEVER
        """Deadline of the first timer, cancelled or not; infinity if there is none. Looked at in every tick."""
        self._timers: list[TimerHandle] = []
        if not cython.compiled:
            self._heap: Deadlines = make_deadlines()
        self._next_sequence: int = 0
        self.cancelled_count: int = 0
        """How many of the timers in the heap are cancelled."""

    def __cinit__(self) -> None:
        # Compiled only, as the next one: what is not a Python object.
        self._heap = make_deadlines()

    def __dealloc__(self) -> None:
        free_deadlines(self._heap)

    def __len__(self) -> int:
        return len(self._timers)

    def push(self, timer: TimerHandle) -> None:
        """Add a timer. Raises ValueError for one that is in a heap already: it has one place."""
        if timer._scheduled:
            raise ValueError(f"{timer!r} is set already")
        reserve_deadline(self._heap)
        timer._place = len(self._timers)
        self._timers.append(timer)
        timer._scheduled = True
        self._next_sequence += 1
        push_deadline(self._heap, timer._when, self._next_sequence, timer)
        if timer._when < self.earliest:
            self.earliest = timer._when

    def note_cancelled(self, timer: TimerHandle) -> None:
        """Count a timer that is being cancelled; rebuild the heap when they are the greater part of it."""
        if not timer._scheduled:
            return
        self.cancelled_count += 1
        if self._is_mostly_cancelled():
            self._compact(timer)

    def next_deadline(self) -> float:
        """Return the earliest deadline of a timer not cancelled, or infinity if there is none."""
        while len(self._timers):
            timer: TimerHandle = timer_at(self._heap, 0)
            if not timer._cancelled:
                return timer._when
            self._pop()
            self.cancelled_count -= 1
        return _NEVER

    def pop_due(self, limit: float) -> list[TimerHandle]:
        """Take out and return the timers with a deadline before `limit`, in the order in which they fire."""
        due: list[TimerHandle] = []
        while self.earliest < limit:
            timer = self._pop()
            if timer._cancelled:
                self.cancelled_count -= 1
            else:
                due.append(timer)
        if self._is_mostly_cancelled():
            self._compact(None)
        return due

    def clear(self) -> None:
        """Forget every timer."""
        dropped = self._timers
        for timer in dropped:
            timer._scheduled = False
        cut_deadlines(self._heap, 0)
        self.earliest = _NEVER
        self.cancelled_count = 0
        self._timers = []  # what is dropped may set timers while it is destroyed, so it comes last

    def _is_mostly_cancelled(self) -> bool:
        return len(self._timers) > COMPACT_ABOVE and self.cancelled_count * 2 > len(self._timers)

    def _compact(self, cancelling: TimerHandle | None) -> None:
        # The timer being cancelled is not marked yet: it counts as cancelled, and leaves with the others. Between the
        # first line and the last nothing is made that the collector counts, and nothing is freed: no finalizer runs.
        dropped: list[TimerHandle] = []
        kept = 0
        for position in range(len(self._timers)):
            timer: TimerHandle = timer_at(self._heap, position)
            if timer._cancelled or timer is cancelling:
                dropped.append(timer)
            else:
                keep_deadline(self._heap, kept, position)
                kept += 1
        cut_deadlines(self._heap, kept)
        for timer in dropped:
            self._leave(timer)
        self.earliest = first_deadline(self._heap)
        self.cancelled_count = 0

    def _pop(self) -> TimerHandle:
        timer: TimerHandle = pop_deadline(self._heap)
        self._leave(timer)
        self.earliest = first_deadline(self._heap)
        return timer

    def _leave(self, timer: TimerHandle) -> None:
        last = self._timers.pop()
        if last is not timer:
            self._timers[timer._place] = last
            last._place = timer._place
        timer._scheduled = False
