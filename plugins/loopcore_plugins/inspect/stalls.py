"""Stalls: stalls of a loop as seen by the server's thread, while a client watches.

A few times a second the thread checks whether the loop waits, and whether it has ended a wait or a tick since the last
check. If neither, it is stalled, and its stack says where. The plugin `watchdog` finds more, and finds causes; this is
for a user who happens to be looking.
"""

import time
from collections import deque
from typing import Any, Final

from loopcore_plugins._tasktree import running_task
from loopcore_plugins.inspect.protocol import Message
from loopcore_plugins.watchdog.stacks import callback_of, innermost_of_program, stack_of

PACE: Final = 0.1
"""Seconds between two checks."""
THRESHOLD: Final = 0.2
"""Seconds without progress after which a loop is stalled."""
_REMEMBERED: Final = 50


class Stalls:
    """The stalls of one loop. Thread: the server's."""

    def __init__(self, loop: Any, thread_id: int) -> None:
        self._loop = loop
        self._thread_id = thread_id
        self._ticks = -1
        self._moved = time.monotonic()
        self._present: Message | None = None
        self._past: deque[Message] = deque(maxlen=_REMEMBERED)
        self._count = 0
        self._longest = 0.0

    def follow(self, thread_id: int) -> None:
        """Follow the loop into the thread `thread_id`, where it runs from now on. Thread: that one."""
        self._thread_id = thread_id

    def look(self) -> None:
        """Check once."""
        now, ticks, waiting = time.monotonic(), self._loop.counters().ticks, self._loop.is_waiting()
        if waiting or ticks != self._ticks or not self._loop.is_running():
            if self._present is not None:
                self._past.append(self._present)
                self._present = None
            self._ticks, self._moved = ticks, now
        elif now - self._moved >= THRESHOLD:
            if self._present is None:
                self._count += 1
                self._present = self._describe(now - self._moved)
            self._present["seconds"] = now - self._moved
            self._longest = max(self._longest, now - self._moved)

    def view(self) -> Message:
        """Return the current stall or None, earlier stalls, their number and the longest."""
        return {
            "present": self._present,
            "past": list(self._past),
            "count": self._count,
            "longest": self._longest,
        }

    def _describe(self, seconds: float) -> Message:
        place = innermost_of_program(callback_of(stack_of(self._thread_id)))
        task = running_task(self._loop)
        return {
            "when": time.time() - seconds,
            "seconds": seconds,
            "place": None if place is None else list(place),
            "task": None if task is None else task.get_name(),
        }
