"""Two plugins that log what they have counted when the loop closes.

`Census` counts tasks by the coroutine they run. Its hooks are ordinary methods. `Slowest` measures callbacks with an
observer, which may be compiled, so that it can stay on in production.

Neither inherits from a class of loopcore. Each loop calls `Census(**options)` once, so an instance belongs to one loop.
All hooks used here are called in that loop's thread: no lock is needed.
"""

import logging
from collections import Counter
from typing import Any

import loopcore
from loopcore.errors import UsageError
from loopcore.hooks.sources import SOURCES
from loopcore_plugin_template.durations import Durations

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


class Slowest:
    """Logs, for each source of callbacks, how many have run, and which one took the longest."""

    def __init__(self) -> None:
        self.durations = Durations()

    @loopcore.hookimpl
    def loopcore_make_observer(self) -> Durations:
        return self.durations

    @loopcore.hookimpl
    def loopcore_loop_closing(self) -> None:
        for source, figures in zip(SOURCES, self.durations.figures, strict=True):
            if figures.count:
                milliseconds = figures.longest_ns / 1e6
                logger.info("%s: %d ran, %.3f ms: %s", source, figures.count, milliseconds, figures.longest)
