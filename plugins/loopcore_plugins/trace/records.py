"""Records: what the hooks leave behind, small and bounded, until it is written.

A hook may cost no more than a few attribute loads and one append. So it leaves tuples of what is at hand; names, tracks
and units are the writer's business. Times are `time.perf_counter_ns()`.

The rings keep the newest: who asks for a trace wants to know what led to the end. What falls out is counted.
"""

import threading
from collections import deque
from typing import NamedTuple, TypeAlias

LOOP_TRACK = 1
"""The track of the loop itself: ticks, phases, callbacks, steps of tasks."""


class Slice(NamedTuple):
    """Something that took time on a track."""

    track: int
    name: str
    category: str
    begin_ns: int
    end_ns: int
    details: dict[str, object] | None = None


class Step(NamedTuple):
    """A step of a task: a slice on the loop's track and on the task's own."""

    track: int
    task: str
    coroutine: str
    begin_ns: int
    end_ns: int
    outcome: str


class Mark(NamedTuple):
    """Something that happened at a moment."""

    track: int
    name: str
    category: str
    at_ns: int
    details: dict[str, object] | None = None


class Arrow(NamedTuple):
    """Why something ran: it was woken or scheduled there, and ran here. Both ends lie within slices."""

    name: str
    from_track: int
    from_ns: int
    to_track: int
    to_ns: int


Record: TypeAlias = Slice | Step | Mark | Arrow


class Ring:
    """The newest `limit` records, and how many there were. Thread: any."""

    def __init__(self, limit: int) -> None:
        self._records: deque[Record] = deque(maxlen=limit)
        self._added = 0
        self._lock = threading.RLock()  # a signal handler may come in the middle of `add` and `take`

    def add(self, record: Record) -> None:
        """Keep `record`; the oldest goes if there is no room."""
        with self._lock:
            self._records.append(record)
            self._added += 1

    def take(self) -> tuple[list[Record], int]:
        """Return what is kept, oldest first, and how many records were dropped."""
        with self._lock:
            return list(self._records), self._added - len(self._records)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._records.clear()
            self._added = 0
