"""Busy: which other thread computed, when, and whether it kept the GIL.

A loop that waits for the GIL cannot say which thread has it. The watch thread reads the CPU clocks of all threads at
each look anyway; here the differences are kept, with the place of the thread that used most. The watch thread needs the
GIL too: if it was late for its look, that thread computes in Python, or in C that does not release the GIL.
"""

import threading
from collections import deque
from typing import Any, Final

from loopcore_plugins.watchdog.clocks import Collections, Moment
from loopcore_plugins.watchdog.stacks import innermost_of_program, stack_of
from loopcore_plugins.watchdog.watch_thread import Subject

KEPT: Final = 100
"""Times that are kept, the newest."""
MOSTLY: Final = 0.25
"""The share of the time between two looks that the other threads have to use; other processes may need the rest."""
LATE: Final = 0.002
"""Seconds of lateness from which on a look had to wait for the GIL; a thread that computes gives it up after 5 ms."""


class BusyThreads(Subject):
    """A subject of the watch thread, for one run of a loop. It adds what it finds to `spans`, as objects for JSON.

    Made in the loop's thread; afterwards the watch thread's.
    """

    def __init__(self, threshold: float, spans: "deque[dict[str, Any]]") -> None:
        self.threshold = threshold
        self.thread_id = threading.get_ident()
        self._spans = spans
        self._previous = Moment.take({})

    def look(self, moment: Moment, collections: Collections) -> None:
        """Note the thread that computed most since the last look, if the other threads computed for long."""
        previous, self._previous = self._previous, moment
        self._add(self._spans, previous, moment)

    def until_now(self) -> list[dict[str, Any]]:
        """Return the times in which another thread computed, oldest first, for JSON. Thread: any."""
        spans = self._spans.copy()
        self._add(spans, self._previous, Moment.take({}))
        return list(spans)

    def _add(self, spans: "deque[dict[str, Any]]", previous: Moment, moment: Moment) -> None:
        own = moment.cpu_since(previous, self.thread_id) or 0.0
        if moment.process_since(previous) - own < (moment.now - previous.now) * MOSTLY:
            return
        ident, seconds = moment.busiest_since(previous, {self.thread_id, threading.get_ident()})
        if not ident:
            return
        place = innermost_of_program(stack_of(ident))
        span = {
            "began_ns": int(previous.now * 1e9),
            "ended_ns": int(moment.now * 1e9),
            "thread": next((thread.name for thread in threading.enumerate() if thread.ident == ident), ""),
            "place": None if place is None else [place.function, place.file, place.line],
            "cpu_seconds": seconds,
            "kept_gil": moment.late >= LATE,
        }
        if spans and _continues(spans[-1], span):
            last = spans.pop()
            span["began_ns"] = last["began_ns"]
            span["cpu_seconds"] += last["cpu_seconds"]
            span["kept_gil"] |= last["kept_gil"]
        spans.append(span)


def _continues(last: dict[str, Any], span: dict[str, Any]) -> bool:
    """Return whether the same thread still computes in the same function, on whichever line."""
    same = last["thread"] == span["thread"] and (last["place"] or [])[:2] == (span["place"] or [])[:2]
    return same and bool(last["ended_ns"] == span["began_ns"])
