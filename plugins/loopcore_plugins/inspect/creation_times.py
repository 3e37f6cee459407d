"""CreationTimes: when tasks were created, so that their age is known. Costs something for each task; off by default."""

import time
import weakref
from typing import Any

from loopcore import hookimpl
from loopcore.hooks.types import Loop


class CreationTimes:
    """A plugin that remembers when each live task was created. Thread: the loop's, except `age`."""

    def __init__(self) -> None:
        self.since = time.monotonic()
        """Since when it remembers; older tasks are at least that old."""
        self._made: dict[int, tuple[weakref.ref[Any], float]] = {}
        """By id() of the task; a weak reference removes one that was destroyed while it waited."""

    @hookimpl
    def loopcore_task_spawned(self, loop: Loop, task: Any) -> None:
        number = id(task)
        self._made[number] = (weakref.ref(task, lambda _: self._made.pop(number, None)), time.monotonic())

    @hookimpl
    def loopcore_task_done(self, loop: Loop, task: Any) -> None:
        self._made.pop(id(task), None)

    def age(self, task_id: int) -> float | None:
        """Return the seconds since the task was created; None if that was before the plugin came. Thread: any."""
        made = self._made.get(task_id)
        return None if made is None else time.monotonic() - made[1]
