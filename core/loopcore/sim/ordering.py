"""The levels above `io`: which of the ready tasks or callbacks goes next is a choice, too.

A plugin of the loop, because only plugins may order what is ready (loopcore_make_ready_queue). At the level `io` no
loop has it.
"""

import asyncio
from typing import TYPE_CHECKING

from loopcore.hooks.specs import hookimpl
from loopcore.sim.tape import Level, Tape

if TYPE_CHECKING:
    from loopcore.hooks.types import Loop


class ChosenOrder:
    """Ready entries in the order that the tape chooses; its zeros are first in, first out. Thread: the loop's own."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._kinds: tuple[type, ...] = (asyncio.Task,)
        if tape.level is Level.ALL:
            self._kinds = (asyncio.Task, asyncio.Handle)
        self._entries: list[object] = []

    def push(self, runnable: object) -> None:
        """Add `runnable`, as the last."""
        self._entries.append(runnable)

    def pop(self) -> object:
        """Return the entry that goes next: one of those that may change places, if the first may."""
        entries = self._entries
        if not entries:
            return None
        if len(entries) == 1 or not isinstance(entries[0], self._kinds):
            return entries.pop(0)
        free = [position for position, entry in enumerate(entries) if isinstance(entry, self._kinds)]
        chosen = self._tape.pick([_name(entries[position]) for position in free], "ready: what goes next")
        return entries.pop(free[chosen])


class ReadyChoices:
    """The plugin."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    @hookimpl
    def loopcore_make_ready_queue(self, loop: "Loop") -> ChosenOrder:
        """Let the tape order the ready queue."""
        return ChosenOrder(self._tape)


def _name(entry: object) -> str:
    if isinstance(entry, asyncio.Task):
        return entry.get_name()
    callback: object = getattr(entry, "_callback", None)
    return str(getattr(callback, "__qualname__", type(callback).__name__))
