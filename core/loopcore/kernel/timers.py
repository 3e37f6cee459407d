"""Timers: which callbacks are due, and how long the backend may sleep.

A heap ordered by (deadline, sequence): equal deadlines fire in the order in which they were set, which asyncio leaves
open. A cancelled timer stays in the heap until it surfaces. When more than half of the heap is cancelled, it is
rebuilt, so it holds at most twice the live timers (and a few).

Not a timer wheel: deadlines are sparse, and most timers are cancelled long before they fire. The heap is
`native/deadlines.pxd`, compiled, and heapq, interpreted (docs/adr/0005). Compiled, timers are *fresh* until the loop
asks for due timers or for the next deadline: they are in a list in the order in which they were set, and a cancelled
one leaves the list at once. Then they go into the heap or, if there are many, are sorted into a *run* (docs/adr/0005).
Lists keep all timers alive.

Releasing a timer may drop the last reference to its context, and so run a finalizer that sets and cancels timers.
"""

from loopcore.kernel.handle import TimerHandle, TimerKeeper

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.native.deadlines import (
        Deadlines,
        add_to_run,
        advance_run,
        count_deadlines,
        count_run,
        cut_deadlines,
        cut_run,
        first_deadline,
        first_of_run,
        free_deadlines,
        free_run,
        keep_deadline,
        keep_of_run,
        make_deadlines,
        make_run,
        pop_deadline,
        push_deadline,
        reserve_deadline,
        run_deadline,
        run_is_first,
        run_sequence,
        sort_run,
        timer_at,
        trim_run,
    )
    from cython.cimports.loopcore.native.ring import put_item, take_item, take_last
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

SORT_ABOVE = 256
"""From this number on, fresh timers are sorted into a separate run."""

_FEW = COMPACT_ABOVE
_MANY = SORT_ABOVE
_NEVER = float("inf")


class TimerHeap(TimerKeeper):
    """Every timer that was set and has not fired. Times are in seconds of the loop's clock."""

    __slots__ = (
        "earliest",
        "_fresh",
        "_fresh_count",
        "_holes",
        "_run",
        "_timers",
        "_heap",
        "_next_sequence",
        "cancelled_count",
    )

    def __init__(self) -> None:
        TimerKeeper.__init__(self)
        self.earliest: float = _NEVER
        """No timer is due before this time; infinity if there is none. Read in every tick."""
        # The first `_fresh_count` entries are timers, or None in place of cancelled ones; the rest is None.
        self._fresh: list[TimerHandle | None] = []
        self._fresh_count: int = 0
        self._holes: int = 0
        self._run: list[TimerHandle | None] = []
        self._timers: list[TimerHandle] = []  # the heap's; `_place` is -1 - the index. Interpreted, tuples keep them
        if not cython.compiled:
            self._heap: Deadlines = make_deadlines()
        self._next_sequence: int = 0
        self.cancelled_count: int = 0
        """How many of the timers in here are cancelled."""

    def __cinit__(self) -> None:
        # Compiled only, like `__dealloc__`: the attributes that are not Python objects.
        self._heap = make_deadlines()
        self.earliest = _NEVER  # nothing is popped from a heap whose `__init__` never ran

    def __dealloc__(self) -> None:
        free_deadlines(self._heap)

    def __len__(self) -> int:
        return self._sorted_count() + self._fresh_count - self._holes

    def push(self, timer: TimerHandle) -> None:
        """Add a timer. Raises ValueError for one that is already set: it has a single place."""
        if timer._scheduled:
            raise ValueError(f"{timer!r} is set already")
        timer._keeper = self
        if cython.compiled:
            if self._fresh_count == len(self._fresh):
                self._fresh.append(None)
            put_item(self._fresh, self._fresh_count, timer)
            timer._place = self._fresh_count
            self._fresh_count += 1
        else:
            self._next_sequence += 1
            push_deadline(self._heap, timer._when, self._next_sequence, timer)
        timer._scheduled = True
        if timer._when < self.earliest:
            self.earliest = timer._when

    def note_cancelled(self, timer: TimerHandle) -> None:
        """Release a timer that is being cancelled, or count it; rebuild the heap when most of it is cancelled."""
        if not timer._scheduled or timer._keeper is not self:  # `_place` is valid in the timer's own heap only
            return
        if cython.compiled and timer._place >= 0:
            self._drop_fresh(timer)
            return
        self.cancelled_count += 1
        if self._is_mostly_cancelled():
            self._compact(timer)

    def next_deadline(self) -> float:
        """Return the earliest deadline of a timer that is not cancelled, or infinity. Called before a wait."""
        while True:
            if self._fresh_count:
                self._sort_in()
            if self.earliest == _NEVER:
                return _NEVER
            timer = self._first()
            if not timer._cancelled:
                return timer._when
            self._pop()
            del timer  # before the next one is read: a finalizer may set an earlier one, or rebuild the heap

    def pop_due(self, limit: float) -> list[TimerHandle]:
        """Remove and return the timers with a deadline before `limit`, in the order in which they fire."""
        due: list[TimerHandle] = []
        timer: TimerHandle | None = None
        try:
            while self.earliest < limit:
                timer = None
                if self._fresh_count:
                    self._sort_in()  # none of them may be due
                    continue
                timer = self._pop()
                if not timer._cancelled:
                    due.append(timer)
        except MemoryError:
            if timer is not None and not timer._cancelled:
                self.push(timer)
            if not due:
                raise
            # These fire now. The others are due in the next tick.
        if cython.compiled:
            self._trim()
        if self._is_mostly_cancelled():
            self._compact(None)
        return due

    def clear(self) -> None:
        """Forget every timer."""
        if not cython.compiled and not self._heap:
            return
        # Created first: an allocation may run the collector, and a finalizer that sets a timer.
        fresh: list[TimerHandle | None] = []
        run: list[TimerHandle | None] = []
        timers: list[TimerHandle] = []
        dropped = (self._fresh, self._run, self._timers if cython.compiled else timers_of(self._heap))
        for several in dropped:
            for timer in several:
                if timer is not None:
                    timer._scheduled = False
        self.earliest = _NEVER
        self.cancelled_count = 0
        cut_deadlines(self._heap, 0)
        if cython.compiled:
            free_run(self._heap)
        self._fresh_count = self._holes = 0
        self._fresh = fresh  # destroying the old lists, at the end of this function, may set timers
        self._run = run
        self._timers = timers

    def _sorted_count(self) -> int:
        count: int = count_deadlines(self._heap)
        return count + count_run(self._heap) if cython.compiled else count

    def _is_mostly_cancelled(self) -> bool:
        count = self._sorted_count()
        return count > _FEW and self.cancelled_count * 2 > count

    # Fresh timers: compiled only

    def _drop_fresh(self, timer: TimerHandle) -> None:
        timer._scheduled = False
        take_item(self._fresh, timer._place)  # the caller has a reference, so the timer is not freed here
        self._holes += 1
        while self._fresh_count and self._fresh[self._fresh_count - 1] is None:
            self._fresh_count -= 1
            self._holes -= 1
        if self._fresh_count == 0:
            self.earliest = first_deadline(self._heap)
        elif self._holes > _FEW and self._holes * 2 > self._fresh_count:
            self._close_holes()

    def _close_holes(self) -> None:
        kept = 0
        for position in range(self._fresh_count):
            timer = self._fresh[position]
            if timer is not None:
                timer._place = kept
                put_item(self._fresh, kept, take_item(self._fresh, position))
                kept += 1
        self._fresh_count = kept
        self._holes = 0

    def _sort_in(self) -> None:
        """Move all fresh timers into the heap, or into a run."""
        count = self._fresh_count - self._holes
        if count >= _MANY and count >= count_run(self._heap):
            self._make_run()
        else:
            for position in range(self._fresh_count):
                timer = self._fresh[position]
                if timer is not None:
                    self._next_sequence += 1
                    self._put_into_heap(timer, timer._when, self._next_sequence)
                    take_item(self._fresh, position)
                    self._holes += 1
            self._fresh_count = self._holes = 0
        self.earliest = first_deadline(self._heap)
        if len(self._fresh) > _MANY:
            self._fresh.clear()  # it holds only None; creating a new list could run the collector, and a finalizer

    def _make_run(self) -> None:
        fresh: list[TimerHandle | None] = []  # created first, see `clear`
        while count_run(self._heap):
            position = first_of_run(self._heap)
            timer: TimerHandle = self._run[position]
            self._put_into_heap(timer, run_deadline(self._heap, position), run_sequence(self._heap, position))
            advance_run(self._heap)
            take_item(self._run, position)
        make_run(self._heap, self._fresh_count - self._holes)
        for position in range(self._fresh_count):
            new = self._fresh[position]
            if new is not None:
                new._place = -1
                add_to_run(self._heap, new._when, new)
        sort_run(self._heap, self._fresh, self._next_sequence + 1)
        self._next_sequence += self._fresh_count
        self._run = self._fresh
        self._fresh = fresh
        self._fresh_count = self._holes = 0

    def _put_into_heap(self, timer: TimerHandle, when: float, sequence: int) -> None:
        reserve_deadline(self._heap)
        self._timers.append(timer)
        timer._place = -len(self._timers)
        push_deadline(self._heap, when, sequence, timer)

    def _first(self) -> TimerHandle:
        if cython.compiled and run_is_first(self._heap):
            timer: TimerHandle = self._run[first_of_run(self._heap)]
        else:
            timer = timer_at(self._heap, 0)
        return timer

    def _pop(self) -> TimerHandle:
        if cython.compiled and run_is_first(self._heap):
            timer: TimerHandle = take_item(self._run, advance_run(self._heap))
            timer._scheduled = False
        else:
            timer = pop_deadline(self._heap)
            self._leave(timer)
        if timer._cancelled:
            self.cancelled_count -= 1
        self.earliest = first_deadline(self._heap)
        return timer

    def _leave(self, timer: TimerHandle) -> None:
        if cython.compiled:
            last: TimerHandle = take_last(self._timers)
            if last is not timer:
                self._timers[-1 - timer._place] = last
                last._place = timer._place
        timer._scheduled = False

    def _trim(self) -> None:
        # By halves: moving the rest costs no more than removing the first half did.
        first = first_of_run(self._heap)
        if first == 0:
            return
        if count_run(self._heap) == 0:
            free_run(self._heap)
            self._run.clear()
        elif first > _MANY and first > count_run(self._heap):
            trim_run(self._heap, self._run)

    def _compact(self, cancelling: TimerHandle | None) -> None:
        # The timer being cancelled is not marked yet: it counts as cancelled, and is removed with the others.
        try:
            self._rebuild(cancelling)
        except MemoryError:
            pass  # nothing has changed: the heap keeps its size until the next cancellation

    def _rebuild(self, cancelling: TimerHandle | None) -> None:
        if not cython.compiled:
            # Finalizers and signal handlers may run between any two lines here, and set or cancel timers.
            gone: list[TimerHandle] = []
            sequence, cancelled = self._next_sequence, self.cancelled_count
            live = split_deadlines(self._heap, cancelling, gone)
            earliest = first_deadline(live)
            if self._next_sequence != sequence or self.cancelled_count != cancelled:
                return  # the next cancellation tries again
            self._heap = live
            self.earliest = earliest
            self.cancelled_count = 0
            for timer in gone:
                timer._scheduled = False
            return
        dropped: list[TimerHandle | None] = [None] * self._sorted_count()
        if len(dropped) < self._sorted_count():
            return  # a finalizer set timers while the list was created; the next cancellation tries again
        # From here to the last line nothing is allocated and nothing is freed: nothing fails, and no finalizer runs.
        kept = found = 0
        for position in range(count_deadlines(self._heap)):
            timer = timer_at(self._heap, position)
            if timer._cancelled or timer is cancelling:
                put_item(dropped, found, timer)
                found += 1
            else:
                keep_deadline(self._heap, kept, position)
                kept += 1
        cut_deadlines(self._heap, kept)
        for position in range(found):
            timer = dropped[position]  # type: ignore[assignment]  # the first `found` are set
            self._leave(timer)
        self._compact_run(cancelling, dropped, found)
        if self._fresh_count == 0:
            self.earliest = first_deadline(self._heap)
        self.cancelled_count = 0

    def _compact_run(self, cancelling: TimerHandle | None, dropped: list[TimerHandle | None], found: int) -> None:
        kept = first_of_run(self._heap)
        for position in range(kept, kept + count_run(self._heap)):
            timer: TimerHandle = take_item(self._run, position)
            if timer._cancelled or timer is cancelling:
                timer._scheduled = False
                put_item(dropped, found, timer)
                found += 1
            else:
                put_item(self._run, kept, timer)
                keep_of_run(self._heap, kept, position)
                kept += 1
        cut_run(self._heap, kept)
        if len(self._run):
            trim_run(self._heap, self._run)
