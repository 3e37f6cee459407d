"""Births: when tasks were made, so that their age is known. Has a price for each task, and is off by default."""

import time
import weakref
from typing import Any

from loopcore import hookimpl


class Births:
    """A plugin that remembers when each live task was made. Thread: the loop's, except `age`."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[weakref.ref[Any], float]] = {}
        """By id() of the task; the reference lets go of one that was destroyed while it waited."""

    @hookimpl
    def loopcore_task_spawned(self, loop: Any, task: Any) -> None:
        number = id(task)
        self._made[number] = (weakref.ref(task, lambda _: self._made.pop(number, None)), time.monotonic())

    @hookimpl
    def loopcore_task_done(self, loop: Any, task: Any) -> None:
        self._made.pop(id(task), None)

    def age(self, task_id: int) -> float | None:
        """Return the seconds since the task was made; None if that was before this was there. Thread: any."""
        made = self._made.get(task_id)
        return None if made is None else time.monotonic() - made[1]
