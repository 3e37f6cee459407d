"""Timers: which callbacks are due, and how long the backend may sleep.

A binary heap of TimerHandle ordered by (deadline, sequence): equal deadlines fire in the order in which
they were set, which asyncio leaves open. A cancelled timer stays in the heap until it surfaces; once more
than half of the heap is cancelled it is rebuilt, so it holds at most twice the live timers (and a few).

Not a timer wheel: deadlines are sparse, and most timers are cancelled long before they fire, which costs
a flag here. The heap is written out, not `heapq`, because compiled it compares two doubles where heapq
calls `__lt__`.
"""

from loopcore.kernel.handle import TimerHandle

COMPACT_ABOVE = 64
"""Heaps smaller than this are not worth a rebuild."""


_NEVER = float("inf")


class TimerHeap:
    """Every timer that was set and has not fired. Times are seconds of the loop's clock."""

    __slots__ = ("earliest", "_heap", "_next_sequence", "cancelled_count")

    def __init__(self) -> None:
        self.earliest: float = _NEVER
        """Deadline of the first timer, cancelled or not; infinity if there is none. Looked at in every tick."""
        self._heap: list[TimerHandle] = []
        self._next_sequence: int = 0
        self.cancelled_count: int = 0
        """How many of the timers in the heap are cancelled."""

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, timer: TimerHandle) -> None:
        """Add a timer."""
        timer._sequence = self._next_sequence
        timer._scheduled = True
        self._next_sequence += 1
        self._heap.append(timer)
        self._rise(len(self._heap) - 1)
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
        while self._heap:
            timer = self._heap[0]
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
        for timer in self._heap:
            timer._scheduled = False
        self._heap.clear()
        self.earliest = _NEVER
        self.cancelled_count = 0

    def _is_mostly_cancelled(self) -> bool:
        return len(self._heap) > COMPACT_ABOVE and self.cancelled_count * 2 > len(self._heap)

    def _compact(self, cancelling: TimerHandle | None) -> None:
        # The timer being cancelled is not marked yet: it counts as cancelled, and leaves with the others.
        heap = self._heap
        size = len(heap)
        live = [timer for timer in heap if not timer._cancelled and timer is not cancelling]
        live.sort(key=_firing_order)
        if self._heap is not heap or len(heap) != size:
            return  # sorting allocates, and a finalizer has set or cancelled a timer; the next cancellation tries again
        self._heap = live  # a sorted list is a heap
        for timer in heap:
            if timer._cancelled or timer is cancelling:
                timer._scheduled = False
        self.earliest = live[0]._when if live else _NEVER
        self.cancelled_count = 0

    def _pop(self) -> TimerHandle:
        heap = self._heap
        timer = heap.pop()
        if heap:
            last = timer
            timer = heap[0]
            heap[0] = last
            self._sink()
            first = heap[0]
            self.earliest = first._when
        else:
            self.earliest = _NEVER
        timer._scheduled = False
        return timer

    def _rise(self, position: int) -> None:
        heap = self._heap
        timer = heap[position]
        when = timer._when
        while position > 0:
            above = (position - 1) >> 1
            parent = heap[above]
            # A new timer is the youngest: at an equal deadline it stays below.
            if parent._when <= when:
                break
            heap[position] = parent
            position = above
        heap[position] = timer

    def _sink(self) -> None:
        heap = self._heap
        size = len(heap)
        position = 0
        timer = heap[0]
        while True:
            below = 2 * position + 1
            if below >= size:
                break
            child = heap[below]
            if below + 1 < size:
                sibling = heap[below + 1]
                if _fires_before(sibling, child):
                    child = sibling
                    below += 1
            if _fires_before(timer, child):
                break
            heap[position] = child
            position = below
        heap[position] = timer


def _fires_before(one: TimerHandle, other: TimerHandle) -> bool:
    if one._when != other._when:
        return one._when < other._when
    return one._sequence < other._sequence


def _firing_order(timer: TimerHandle) -> tuple[float, int]:
    return (timer._when, timer._sequence)
