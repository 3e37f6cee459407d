"""A plugin that counts a loop's tasks by the coroutine they run, and logs the counts when the loop closes.

It uses nothing of loopcore but `hookimpl`, `errors` and the methods of the loop it is passed; it inherits from no
class. A loop calls `Census(**options)` once, so an instance belongs to one loop, and all hooks used here are called in
that loop's thread: no lock is needed.
"""

import logging
from collections import Counter
from typing import Any

import loopcore
from loopcore.errors import UsageError

logger = logging.getLogger("loopcore_plugin_template")


class Census:
    """Logs the `top` most frequent coroutines, and how many tasks were alive at once."""

    def __init__(self, top: int = 5, level: str = "INFO") -> None:
        # `template:top=3,level=DEBUG` passes these options. The annotations determine how text is converted.
        if level not in logging.getLevelNamesMapping():
            raise UsageError(f"template: level={level!r} is not one of {', '.join(logging.getLevelNamesMapping())}")
        self.top = top
        self.level = logging.getLevelNamesMapping()[level]
        self.seen: Counter[str] = Counter()
        self.alive = 0
        self.most_alive = 0

    @loopcore.hookimpl
    def loopcore_task_spawned(self, task: Any) -> None:
        # A hot hook: called for every task, so it only counts.
        self.seen[getattr(task.get_coro(), "__qualname__", "?")] += 1
        self.alive += 1
        self.most_alive = max(self.most_alive, self.alive)

    @loopcore.hookimpl
    def loopcore_task_done(self) -> None:
        # A hook takes only the arguments it needs. A plugin that is registered late may see tasks it has not counted.
        self.alive = max(0, self.alive - 1)

    @loopcore.hookimpl
    def loopcore_loop_closing(self, loop: Any) -> None:
        # A cold hook: called once, it may take its time.
        logger.log(self.level, "%s: %d tasks at once; %s", loop.backend.name, self.most_alive, self.describe())

    def describe(self) -> str:
        """Return the most frequent coroutines and how many tasks ran each."""
        return ", ".join(f"{count} of {name}" for name, count in self.seen.most_common(self.top)) or "none"
