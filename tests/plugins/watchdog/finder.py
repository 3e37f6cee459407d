"""What the tests of the watchdog share: a plugin that waits for stalls, and runs that provoke them."""

import threading
from collections.abc import Callable, Coroutine
from typing import Any

import loopcore
from loopcore_plugins.watchdog import Stall, Watchdog

PATIENCE = 30.0
"""Seconds after which a test gives up on a stall that is not found."""
ATTEMPTS = 20
"""Stalls after which it gives up on one of the right cause."""


class Finder:
    """Takes down the stalls that are begun and ended; programs wait, or go on, until one is found.

    With `cause`, until one begins that is of that cause; a program that waits for it has to begin more than one.
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
    loop: Any,
    program: Callable[[Finder], Coroutine[Any, Any, Any]],
    *,
    cause: str | None = None,
    context: str | None = None,
) -> tuple[Stall, Watchdog]:
    """Run `program(finder)`, which stalls until `finder.found`; return its first stall when that is over.

    With `cause`, run it until its stall was of that cause: a machine that is short of CPU makes others.
    """
    watchdog = Watchdog(threshold=0.1, context=context)
    loop.probes.register(watchdog)
    for _ in range(ATTEMPTS):
        finder = Finder()
        loop.probes.register(finder)
        loop.run_until_complete(program(finder))
        assert finder.over.wait(PATIENCE), "no stall was found"
        loop.probes.unregister(finder)
        stall = finder.begun[0]
        if cause in (None, stall.cause):
            return stall, watchdog
    raise AssertionError(f"no stall of cause {cause} was found")
