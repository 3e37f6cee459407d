"""The functions of `deadlines.pxd` in Python: a heap of (deadline, sequence, timer), by heapq."""

from heapq import heapify, heappop, heappush
from typing import Any, Final, TypeAlias

Deadlines: TypeAlias = list[tuple[float, int, Any]]

_NEVER: Final = float("inf")


def make_deadlines() -> Deadlines:
    return []


def free_deadlines(heap: Deadlines) -> None:
    """Do nothing: the list is freed automatically."""


def reserve_deadline(heap: Deadlines) -> None:
    """Do nothing: a list grows automatically."""


def push_deadline(heap: Deadlines, when: float, sequence: int, timer: Any) -> None:
    heappush(heap, (when, sequence, timer))


def pop_deadline(heap: Deadlines) -> Any:
    return heappop(heap)[2]


def first_deadline(heap: Deadlines) -> float:
    return heap[0][0] if heap else _NEVER


def count_deadlines(heap: Deadlines) -> int:
    return len(heap)


def timer_at(heap: Deadlines, position: int) -> Any:
    return heap[position][2]


def keep_deadline(heap: Deadlines, to: int, position: int) -> None:
    """Compiled only: interpreted, a finalizer may run between two calls."""
    heap[to] = heap[position]


def cut_deadlines(heap: Deadlines, count: int) -> None:
    """Keep the first `count` items, in whatever order, and make them a heap."""
    del heap[count:]
    heapify(heap)


def timers_of(heap: Deadlines) -> list[Any]:
    """Interpreted only."""
    return [timer for _, _, timer in heap]


def split_deadlines(heap: Deadlines, cancelling: Any, dropped: list[Any]) -> Deadlines:
    """Return a heap of the timers that are not cancelled, and add the others to `dropped`. Interpreted only."""
    live: Deadlines = []
    for entry in heap:
        timer = entry[2]
        if timer._cancelled or timer is cancelling:
            dropped.append(timer)
        else:
            live.append(entry)
    heapify(live)
    return live
