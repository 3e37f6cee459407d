# cython: annotation_typing=False
# The annotations are for people and type checkers: the C types are in durations.pxd alone.
"""An observer that can stay on: how many callbacks have run, and which one took the longest, by source.

This file is the program, and `durations.pxd` adds the C types if it is compiled. Compiled, the loop calls `tell` as a C
function. Interpreted, a compiled loopcore calls `note`, and an interpreted loopcore calls `tell`.
"""

from time import perf_counter_ns
from typing import Any

from loopcore.hooks import observer
from loopcore.hooks.observer import Observer
from loopcore.hooks.sources import SOURCES

_BEGINS, _WANTED = observer.BEGINS, observer.BEGINS | observer.ENDS


class Figures:
    """The callbacks of one source: how many have run, how long the longest took, and what it was."""

    __slots__ = ("count", "longest_ns", "longest")

    def __init__(self) -> None:
        self.count: int = 0
        self.longest_ns: int = 0
        self.longest: str = ""


class Durations(Observer):
    """Measures the callbacks of one loop. `figures` has an item for each of `SOURCES`. Thread: the loop's own."""

    __slots__ = ("figures", "_began_ns")

    def __init__(self) -> None:
        Observer.__init__(self, _WANTED)
        self.figures: list[Figures] = [Figures() for _ in SOURCES]
        self._began_ns: int = 0

    def tell(self, event: int, what: Any, number: int) -> None:
        try:
            now = perf_counter_ns()
            if event == _BEGINS:
                self._began_ns = now
            else:
                self._add(what, number, now)
        except BaseException as exc:
            self.failure = exc  # the loop logs it and removes the observer

    def note(self, event: int, what: Any, number: int) -> None:
        self.tell(event, what, number)

    def _add(self, what: Any, source: int, now: int) -> None:
        figures = self.figures[source]
        figures.count += 1
        # Its begin is unknown if the observer came in the middle of it, or if it has run other callbacks itself.
        if self._began_ns and now - self._began_ns > figures.longest_ns:
            figures.longest_ns = now - self._began_ns
            figures.longest = repr(what)  # as text: the loop uses `what` again
        self._began_ns = 0
