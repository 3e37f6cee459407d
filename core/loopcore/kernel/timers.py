"""Timers: which callbacks are due, and how long the backend may sleep.

A binary heap ordered by (deadline, sequence): equal deadlines fire in the order in which they were set, which asyncio
leaves open. A timer that was just set waits in a list and enters the heap when the loop asks for due timers or for the
next deadline. Most timeouts are cancelled before that and never enter it. Many new timers at once are sorted into a
*run* instead, from which the first is taken in constant time; the first of all is that of the run or of the heap. A
timer that is cancelled later stays until it surfaces, or until more than half of all timers are cancelled: then both
are rebuilt, so they hold at most twice the live timers (and a few).

Not a timer wheel: deadlines are sparse, and most timers are cancelled long before they fire (docs/adr/0004).

Only the loop's own questions change heap and run. Setting a timer appends to the list, and cancelling one counts it. So
a finalizer or a signal handler may set and cancel timers at any moment, also while these are being changed. Without the
GIL that holds for the loop's own thread only (docs/adr/0023).
"""

from typing import Any

from loopcore.kernel.handle import TimerHandle, TimerKeeper

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

COMPACT_ABOVE = 64
"""Fewer timers than this are not worth a rebuild."""

SORT_FROM = 256
"""From this number on, new timers are sorted into the run."""

_COMPACT_ABOVE = COMPACT_ABOVE
_SORT_FROM = SORT_FROM
_NEVER = float("inf")


class TimerHeap(TimerKeeper):
    """Every timer that was set and has not fired. Times are in seconds of the loop's clock."""

    __slots__ = ("earliest", "_new", "_new_limit", "_heap", "_run", "_count", "_last_sequence", "cancelled_count")

    def __init__(self) -> None:
        TimerKeeper.__init__(self)
        self.earliest: float = _NEVER
        """No timer is due before this time; infinity if there is none. Read in every tick."""
        self._new: list[TimerHandle] = []
        self._new_limit: int = 2 * _COMPACT_ABOVE
        self._heap: list[TimerHandle] = []
        self._run: list[TimerHandle] = []  # the first is the last entry
        self._count: int = 0  # other threads read it; the lists come and go
        self._last_sequence: int = 0
        self.cancelled_count: int = 0
        """How many of the timers in here are cancelled."""

    def __len__(self) -> int:
        return self._count

    def _settled(self) -> int:
        return len(self._heap) + len(self._run)

    def push(self, timer: TimerHandle) -> None:
        """Add a timer. Raises ValueError for one that is already set."""
        if timer._keeper is not None:
            raise ValueError(f"{timer!r} is set already")
        if len(self._new) >= self._new_limit:
            self._drop_cancelled()
        self._new.append(timer)
        self._count += 1
        self._last_sequence += 1
        timer._sequence = self._last_sequence
        timer._keeper = self
        if timer._when < self.earliest:
            self.earliest = timer._when

    def note_cancelled(self, timer: TimerHandle) -> None:
        """Count a timer that is being cancelled."""
        if timer._keeper is self:
            self.cancelled_count += 1

    def next_deadline(self) -> float:
        """Return the earliest deadline of a timer that is not cancelled, or infinity. Called before a wait."""
        while True:
            if self._new:
                self._move_new()
            if self.cancelled_count > _COMPACT_ABOVE and self.cancelled_count * 2 > self._settled():
                self._compact()
            first = self._first()
            if first is not None and first._cancelled:
                self._pop(first)
                del first  # before the next one is read: a finalizer may set an earlier one
                continue
            self.earliest = _NEVER if first is None else first._when
            if not self._new:  # otherwise a finalizer has set a timer meanwhile
                return self.earliest

    def pop_due(self, limit: float) -> list[TimerHandle]:
        """Remove and return the timers with a deadline before `limit`, in the order in which they fire."""
        due: list[TimerHandle] = []
        try:
            if self.next_deadline() < limit and self._run and not self.cancelled_count:
                due = self._cut_run(limit)
            while self.next_deadline() < limit:
                # Before it is removed: if memory is short, no timer is lost.
                first = self._first()
                due.append(first)  # type: ignore[arg-type]
                self._pop(first)  # type: ignore[arg-type]
        except MemoryError:
            if not due:
                raise
            # These fire now, the others in the next tick.
        return due

    def _cut_run(self, limit: float) -> list[TimerHandle]:
        """Remove and return the due timers of the run at once, if the heap has none."""
        if self._heap and self._heap[0]._when < limit:
            return []
        run: list[TimerHandle] = self._run
        left = len(run)
        while left and run[left - 1]._when < limit:
            left -= 1
        due = run[left:]
        del run[left:]
        self._count -= len(due)
        due.reverse()
        for timer in due:
            timer._keeper = None
            if timer._cancelled:  # by a finalizer, since they were looked for
                self.cancelled_count -= 1
        return due

    def clear(self) -> None:
        """Forget every timer."""
        new: list[TimerHandle] = []
        heap: list[TimerHandle] = []
        run: list[TimerHandle] = []
        dropped = [*self._new, *self._heap, *self._run]  # released at the end of this function, which may set timers
        self._new, self._heap, self._run = new, heap, run
        self.earliest = _NEVER
        self._count = self.cancelled_count = 0
        for timer in dropped:
            timer._keeper = None

    def _drop_cancelled(self) -> None:
        # A callback may set and cancel timers without end before the loop looks.
        count = len(self._new)
        # First: what a finalizer sets meanwhile comes behind these, and must not lead here.
        self._new_limit = 2 * (count + _COMPACT_ABOVE)
        if self.cancelled_count:
            live = live_of(self._new[:count])
            self._new[:count] = live
            self._count -= count - len(live)
            self.cancelled_count -= count - len(live)
            self._new_limit = 2 * (len(live) + _COMPACT_ABOVE)

    def _move_new(self) -> None:
        if len(self._new) >= _SORT_FROM and len(self._new) >= len(self._run):
            self._sort_new()
        else:
            self._new.reverse()  # the last is taken first; timers that were set in order rise least
            try:
                self._move_reversed()
            except MemoryError:
                self._new.reverse()
                raise
        self._new_limit = 2 * _COMPACT_ABOVE

    def _move_reversed(self) -> None:
        last: list[Any] = [None]  # made first: a list that is emptied has no room any more
        while self._new:
            timer = self._new.pop()
            try:
                self._heap.append(timer)
            except MemoryError:
                if self._new:
                    self._new.append(timer)  # there is room
                else:
                    last[0] = timer
                    self._new = last
                raise
            if timer._cancelled:
                self._heap.pop()
                self._count -= 1
                timer._keeper = None
                self.cancelled_count -= 1
            else:
                self._rise(timer, len(self._heap) - 1)
            del timer

    def _sort_new(self) -> None:
        new: list[TimerHandle] = self._new
        self._new = []
        try:
            run = [*reversed(self._run), *new]
            run.sort(key=deadline_of)  # equal deadlines keep their order
        except MemoryError:
            if self._new:
                new.extend(self._new)
            self._new = new
            raise
        run.reverse()
        self._run = run

    def _first(self) -> TimerHandle | None:
        if not self._run:
            return self._heap[0] if self._heap else None
        first = self._run[len(self._run) - 1]
        if self._heap:
            other = self._heap[0]
            if fires_before(other, first):
                return other
        return first

    def _pop(self, timer: TimerHandle) -> None:
        """Remove the first timer."""
        if self._run and self._run[len(self._run) - 1] is timer:
            self._run.pop()
        else:
            last = self._heap.pop()
            if self._heap:
                self._sink(last, 0)
        self._count -= 1
        timer._keeper = None
        if timer._cancelled:
            self.cancelled_count -= 1

    def _compact(self) -> None:
        try:
            heap, run = live_of(self._heap), live_of(self._run)
        except MemoryError:
            return  # nothing has changed: the next call tries again
        dropped = self._settled() - len(heap) - len(run)
        self._count -= dropped
        self.cancelled_count -= dropped
        self._heap, self._run = heap, run
        # A heap again, from the last timer that has another below it up to the first.
        for place in range(len(heap) // 2 - 1, -1, -1):
            self._sink(heap[place], place)

    def _rise(self, timer: TimerHandle, place: int) -> None:
        """Put `timer` at `place`, which is its own or free, or above it."""
        heap: list[TimerHandle] = self._heap
        while place > 0:
            above = heap[(place - 1) >> 1]
            if not fires_before(timer, above):
                break
            heap[place] = above
            place = (place - 1) >> 1
        heap[place] = timer

    def _sink(self, timer: TimerHandle, place: int) -> None:
        """Put `timer` at `place`, which is its own or free, or below it."""
        heap: list[TimerHandle] = self._heap
        count = len(heap)
        while True:
            below = 2 * place + 1
            if below >= count:
                break
            first = heap[below]
            if below + 1 < count:
                second = heap[below + 1]
                if fires_before(second, first):
                    first = second
                    below += 1
            if not fires_before(first, timer):
                break
            heap[place] = first
            place = below
        heap[place] = timer


@cython.nonecheck(False)  # type: ignore[untyped-decorator]
def fires_before(one: TimerHandle, other: TimerHandle) -> bool:
    """Return whether `one` is before `other` in the heap."""
    return one._when < other._when or (one._when == other._when and one._sequence < other._sequence)


def live_of(timers: list[TimerHandle]) -> list[TimerHandle]:
    """Return the timers that are not cancelled, in the same order; the others are not set any more."""
    live: list[TimerHandle] = []
    for timer in timers:
        if timer._cancelled:
            timer._keeper = None
        else:
            live.append(timer)
    return live


def deadline_of(timer: TimerHandle) -> float:
    """Return the key by which timers are sorted."""
    return timer._when
