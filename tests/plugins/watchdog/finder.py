"""What the tests of the watchdog share: a plugin that waits for stalls, and runs that provoke them."""

import threading
from collections.abc import Callable, Coroutine
from typing import Any

import loopcore
from loopcore_plugins.watchdog import Stall, Watchdog

PATIENCE = 30.0
"""Seconds after which a test gives up on a stall that is not found."""


class Finder:
    """Takes down the stalls that are begun and ended; programs wait, or go on, until one is found.

    With `cause`, until one of that cause is found: a machine that is short of CPU adds others of its own making.
    """

    def __init__(self, cause: str | None = None) -> None:
        self._cause = cause
        self.begun: list[Stall] = []
        self.found = threading.Event()
        self.over = threading.Event()

    @loopcore.hookimpl
    def loopcore_stall_begin(self, stall: Stall) -> None:
        if self._cause in (None, stall.cause):
            self.begun.append(stall)
            self.found.set()

    @loopcore.hookimpl
    def loopcore_stall_end(self, stall: Stall) -> None:
        if stall in self.begun:
            self.over.set()


def find(
    loop: Any, program: Callable[[Finder], Coroutine[Any, Any, Any]], *, cause: str | None = None
) -> tuple[Stall, Watchdog]:
    """Run `program(finder)`, which stalls until `finder.found`; return the first stall of `cause` when it is over."""
    finder, watchdog = Finder(cause), Watchdog(threshold=0.1)
    loop.probes.register(watchdog)
    loop.probes.register(finder)
    loop.run_until_complete(program(finder))
    assert finder.over.wait(PATIENCE), f"no stall was found, or none of cause {cause}"
    return finder.begun[0], watchdog
