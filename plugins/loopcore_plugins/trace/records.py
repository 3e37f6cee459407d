"""Records: the hooks' data, small and bounded, until it is written.

A hook may cost no more than a few attribute loads and one append. So it only stores tuples of available objects; names,
tracks and units are left to the writer. Times are `time.perf_counter_ns()`.

The rings keep the newest records: a trace is read to learn what led to the end. Dropped records are counted.
"""

import threading
from collections import deque
from typing import NamedTuple, TypeAlias

LOOP_TRACK = 1
"""The track of the loop itself: ticks, phases, callbacks, steps of tasks. The tracks of threads follow."""
FIRST_TASK_TRACK = 1000


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
        self._lock = threading.RLock()  # a signal handler may interrupt `add` and `take`

    def add(self, record: Record) -> None:
        """Add `record`; a full ring drops the oldest."""
        with self._lock:
            self._records.append(record)
            self._added += 1

    def take(self) -> tuple[list[Record], int]:
        """Return the records, oldest first, and how many were dropped."""
        with self._lock:
            return list(self._records), self._added - len(self._records)
