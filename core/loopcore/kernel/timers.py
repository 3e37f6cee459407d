"""Timers: which callbacks are due, and how long the backend may sleep.

A heap ordered by (deadline, sequence): equal deadlines fire in the order in which they were set, which asyncio leaves
open. A cancelled timer stays in the heap until it surfaces; once more than half of the heap is cancelled it is
rebuilt, so it holds at most twice the live timers (and a few).

Not a timer wheel: deadlines are sparse, and most timers are cancelled long before they fire, which costs a flag here.
The heap itself is `native/deadlines.pxd`, compiled, and heapq, interpreted (docs/adr/0026). Compiled, the timers in it
are kept alive by a list, in no order, in which each knows its place.

A timer that is let go of may be the last to know its context, and so run a finalizer, which may set and cancel timers.
"""

from contextvars import Context

from loopcore.kernel.handle import TimerHandle

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.native.contexts import doubt_contexts, is_as_current, know_contexts
    from cython.cimports.loopcore.native.cpython import copy_context
    from cython.cimports.loopcore.native.deadlines import (
        Deadlines,
        count_deadlines,
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
        count_deadlines,
        cut_deadlines,
        first_deadline,
        free_deadlines,
        keep_deadline,
        make_deadlines,
        pop_deadline,
        push_deadline,
        reserve_deadline,
        split_deadlines,
        timer_at,
        timers_of,
    )

COMPACT_ABOVE = 64
"""Heaps smaller than this are not worth a rebuild."""


_NEVER = float("inf")


class TimerHeap:
    """Every timer that was set and has not fired. Times are seconds of the loop's clock."""

    __slots__ = ("earliest", "_timers", "_heap", "_next_sequence", "cancelled_count", "_common_context")

    def __init__(self) -> None:
        self.earliest: float = _NEVER
        """Deadline of the first timer, cancelled or not; infinity if there is none. Looked at in every tick."""
        self._timers: list[TimerHandle] = []  # interpreted, the heap's tuples keep the timers
        if not cython.compiled:
            self._heap: Deadlines = make_deadlines()
        self._next_sequence: int = 0
        self.cancelled_count: int = 0
        """How many of the timers in the heap are cancelled."""
        self._common_context: Context | None = None

    def __cinit__(self) -> None:
        # Compiled only, as the next one: what is not a Python object.
        self._heap = make_deadlines()
        self.earliest = _NEVER  # nothing is popped of a heap whose `__init__` never ran

    def __dealloc__(self) -> None:
        free_deadlines(self._heap)

    def __len__(self) -> int:
        count: int = count_deadlines(self._heap)
        return count

    def common_context(self) -> Context:
        """Return a copy of the current context that timers set in a row have in common, and nobody enters.

        Compiled only. Interpreted, each timer has a copy of its own.
        """
        common = self._common_context
        if common is not None and is_as_current(common):
            return common
        context: Context = copy_context()
        stale = self._common_context  # goes last: a finalizer that goes with it may set a timer
        self._common_context = context
        del stale
        return context

    def _forget_context(self) -> None:
        stale = self._common_context  # as above
        self._common_context = None
        del stale

    def push(self, timer: TimerHandle) -> None:
        """Add a timer. Raises ValueError for one that is in a heap already: it has one place."""
        if timer._scheduled:
            raise ValueError(f"{timer!r} is set already")
        reserve_deadline(self._heap)
        if cython.compiled:
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
        """Return the earliest deadline of a timer not cancelled, or infinity if there is none. Asked before a wait."""
        self._forget_context()  # its variables shall not live for nothing
        while count_deadlines(self._heap):
            timer: TimerHandle = timer_at(self._heap, 0)
            if not timer._cancelled:
                return timer._when
            self._pop()
            del timer  # before the next one is looked at: a finalizer may set one that is earlier, or rebuild the heap
        return _NEVER

    def pop_due(self, limit: float) -> list[TimerHandle]:
        """Take out and return the timers with a deadline before `limit`, in the order in which they fire."""
        due: list[TimerHandle] = []
        while self.earliest < limit:
            timer = self._pop()
            if not timer._cancelled:
                due.append(timer)
        if self._is_mostly_cancelled():
            self._compact(None)
        return due

    def clear(self) -> None:
        """Forget every timer."""
        fresh: list[TimerHandle] = []  # made first: to make it may run the collector, and a finalizer that sets a timer
        dropped = self._timers
        if not cython.compiled:
            dropped = timers_of(self._heap)
        for timer in dropped:
            timer._scheduled = False
        self.earliest = _NEVER
        self.cancelled_count = 0
        cut_deadlines(self._heap, 0)
        self._forget_context()
        self._timers = fresh  # what is dropped may set timers while it is destroyed, so it comes last

    def _is_mostly_cancelled(self) -> bool:
        count: int = count_deadlines(self._heap)
        return count > COMPACT_ABOVE and self.cancelled_count * 2 > count

    def _compact(self, cancelling: TimerHandle | None) -> None:
        # The timer being cancelled is not marked yet: it counts as cancelled, and leaves with the others.
        dropped: list[TimerHandle] = []
        if not cython.compiled:
            # Finalizers and signal handlers may run between any two lines of this, and set or cancel timers.
            sequence, cancelled = self._next_sequence, self.cancelled_count
            live = split_deadlines(self._heap, cancelling, dropped)
            earliest = first_deadline(live)
            if self._next_sequence != sequence or self.cancelled_count != cancelled:
                return  # the next cancellation tries again
            self._heap = live
            self.earliest = earliest
            self.cancelled_count = 0
            for timer in dropped:
                timer._scheduled = False
            return
        # From here to the last line nothing is made that the collector counts, and nothing is freed: no finalizer runs.
        kept = 0
        for position in range(count_deadlines(self._heap)):
            timer = timer_at(self._heap, position)
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
        if timer._cancelled:
            self.cancelled_count -= 1
        self.earliest = first_deadline(self._heap)
        return timer

    def _leave(self, timer: TimerHandle) -> None:
        if cython.compiled:
            last = self._timers.pop()
            if last is not timer:
                self._timers[timer._place] = last
                last._place = timer._place
        timer._scheduled = False


def share_contexts(wanted: bool) -> bool:
    """Have timers share contexts until they run, if `wanted` and if this Python is known; return whether they do.

    They do from the import on. Without, as interpreted, each timer has a copy at once.
    """
    if not cython.compiled:
        return False
    return bool(know_contexts() if wanted else doubt_contexts())


share_contexts(True)
