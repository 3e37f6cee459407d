"""Stalls: the last stalls of a loop with their causes, as the watchdog finds them.

If the loop has the plugin `watchdog`, these are its stalls, from the loop's first run on. Otherwise the loop gets a
`Watch` of the watchdog's while a client watches: it finds the same stalls, without a log or hooks.
"""

import threading
from collections import deque
from typing import Any, Final

from loopcore_plugins._shared import items_of
from loopcore_plugins.inspect.protocol import Message
from loopcore_plugins.watchdog import Place, Stall, Watchdog
from loopcore_plugins.watchdog.request import RequestReader
from loopcore_plugins.watchdog.watch import Watch
from loopcore_plugins.watchdog.watch_thread import watch_thread

THRESHOLD: Final = 0.2
"""Seconds without progress after which a loop is stalled: the watchdog's default."""
_REMEMBERED: Final = 50
_LONGEST_CHAIN: Final = 20
"""The most awaiting tasks of a stall that are listed."""


class Stalls:
    """The stalls of `loop`. Thread: any."""

    def __init__(self, loop: Any) -> None:
        self.read_request = RequestReader().read
        self._loop = loop
        self._lock = threading.Lock()
        self._watch: Watch | None = None
        self._present: tuple[Stall, float] | None = None
        """The current stall, and when it began (time.time)."""
        self._past: deque[tuple[Stall, float]] = deque(maxlen=_REMEMBERED)
        self._count = 0

    def watch(self, thread_id: int, clock: int | None) -> None:
        """Find stalls of the loop, which runs in the thread `thread_id`, unless the plugin `watchdog` does.

        `clock` is the CPU clock of that thread. Does nothing if this is being done already.
        """
        with self._lock:
            if self._watch is not None or self._has_watchdog():
                return
            self._watch = Watch(self._loop, THRESHOLD, self, thread_id=thread_id, clock=clock)
            watch_thread().add(self._watch)

    def unwatch(self) -> None:
        """Stop finding them. Idempotent."""
        with self._lock:
            watch, self._watch = self._watch, None
        if watch is not None:
            watch_thread().drop(watch)

    def note_standstill(self) -> None:
        """Do nothing: the loop was idle."""

    def note_stall(self, event: str, loop: Any, stall: Stall) -> None:
        """Remember a stall that begins or ends, as `event` says."""
        if event == "begin":
            self._count += 1
            self._present = stall, stall.wall_time - stall.seconds
            return
        present, self._present = self._present, None
        if present is None or present[0] is not stall:  # its beginning was not told: the plugin came in the middle
            self._count += 1
            present = stall, stall.wall_time
        self._past.append(present)

    def view(self) -> Message:
        """Return the current stall or None, earlier stalls, their number and the longest."""
        present, past = self._present, [_describe(*each) for each in items_of(self._past)]
        now = None if present is None else _describe(*present)
        return {
            "present": now,
            "past": past,
            "count": self._count,
            "longest": max((stall["seconds"] for stall in (*past, now) if stall is not None), default=0.0),
        }

    def _has_watchdog(self) -> bool:
        return any(isinstance(plugin, Watchdog) for _, plugin in self._loop.probes.plugins())


def _describe(stall: Stall, began: float) -> Message:
    holder = stall.holder
    return {
        "when": began,
        "seconds": stall.seconds,
        "cpu_seconds": stall.cpu_seconds,
        "cause": stall.cause,
        "place": _values(stall.place),
        "stack": [list(place) for place in stall.stack],
        "task": None if stall.task is None else stall.task.name,
        "awaited_by": [task.name for task in stall.awaited_by[:_LONGEST_CHAIN]],
        "request": stall.request,
        "holder": None
        if holder is None
        else {"thread": holder.name, "place": _values(holder.place), "cpu_seconds": holder.cpu_seconds},
    }


def _values(place: Place | None) -> list[Any] | None:
    return None if place is None else list(place)
