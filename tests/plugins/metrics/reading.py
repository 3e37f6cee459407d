"""What the tests of metrics share: a measured loop, and by how much a program moves its metrics."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import loopcore
from loopcore_plugins.metrics import LoopSnapshot, Metrics
from loopcore_plugins.metrics.catalogue import CATALOGUE, Value

SECONDS = 0.03
"""How long programs keep a loop or a thread busy; it can only become longer."""

Test = TypeVar("Test", bound=Callable[..., None])
proven: set[str] = set()


def proves(*names: str) -> Callable[[Test], Test]:
    """Say which metrics a test proves; `test_all_proven` sees to it that none is left out."""
    proven.update(names)
    return lambda test: test


class Reader:
    """A loop with the plugin. `full` has every callback measured, and the first tick behind it."""

    def __init__(self, loop: Any, *, full: bool = False) -> None:
        self.loop = loop
        self.metrics = Metrics(full=full)
        loop.probes.register(self.metrics)
        if full:
            loop.run_until_complete(nothing())  # the window of all callbacks opens at the first poll

    def read(self, name: str, snapshot: LoopSnapshot | None = None) -> Any:
        """Return the value of a metric; by label where it has labels."""
        return read(snapshot or self.metrics.snapshot(), name)

    def moved(self, name: str, program: Coroutine[Any, Any, Any]) -> Any:
        """Return by how much the program moves a metric, likewise."""
        before = self.metrics.snapshot()
        self.loop.run_until_complete(program)
        return read(self.metrics.snapshot().since(before), name)


def read(snapshot: LoopSnapshot, name: str) -> Any:
    (metric,) = (metric for metric in CATALOGUE if metric.name == name)
    values: dict[Any, Value] = {
        labels[0] if len(labels) == 1 else labels: value for labels, value in metric.read(snapshot)
    }
    return values if metric.labels else values[()]


def above_zero(values: dict[Any, Any]) -> dict[Any, Any]:
    """Return what has a value other than zero."""
    return {label: value for label, value in values.items() if value}


async def nothing() -> None:
    """A program that is one step of one task."""


class Counting:
    """A plugin that counts for itself what metrics count."""

    def __init__(self) -> None:
        self.ticks = self.polls = self.events = self.slow = 0

    @loopcore.hookimpl
    def loopcore_tick_begin(self) -> None:
        self.ticks += 1

    @loopcore.hookimpl
    def loopcore_poll_end(self, events: int) -> None:
        self.polls += 1
        self.events += events

    @loopcore.hookimpl
    def loopcore_slow_callback(self) -> None:
        self.slow += 1
