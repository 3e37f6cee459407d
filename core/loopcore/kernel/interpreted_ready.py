"""The ready queue of the pure build: `kernel.ready.ReadyQueue` on top of `collections.deque`.

Interpreted, the ring costs a call and a dozen instructions for work that a deque does in C. A deque's methods are
atomic, so a signal handler or a finalizer may push in the middle of anything here.
"""

from collections import deque
from typing import TYPE_CHECKING, Any

from loopcore.kernel.interpreted_steps import STEP, WAKEUP, TaskStep
from loopcore.kernel.sources import READY

if TYPE_CHECKING:
    from loopcore.kernel.meter import CallbackSampler
    from loopcore.kernel.runnable import Runnable


def as_runnable(entry: Any) -> "Runnable":
    """Return an entry of a ready queue as a Runnable: the steps of asyncio's tasks are asyncio's own callables."""
    return TaskStep(entry) if type(entry) is STEP or type(entry) is WAKEUP else entry


class DequeReadyQueue:
    """First in, first out, with the names and contracts of `ReadyQueue`."""

    __slots__ = ("push", "next", "_entries", "_sampler")

    def __init__(self) -> None:
        self._entries: deque[Runnable] = deque()
        self._sampler: CallbackSampler | None = None
        self.push = self._entries.append
        """Put a runnable at the end."""
        self.next = self._entries.popleft
        """Remove and return the oldest entry, in the form that was pushed; IndexError if the queue is empty."""

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def _count(self) -> int:
        return len(self._entries)

    def report_to(self, sampler: "CallbackSampler | None") -> None:
        """Report each pushed entry to `sampler`; None ends it."""
        self._sampler = sampler
        self.push = self._entries.append if sampler is None else self._push_stamped

    def _push_stamped(self, runnable: "Runnable") -> None:
        runnable = as_runnable(runnable)
        if self._sampler is not None:
            self._sampler.stamp(runnable, READY)
        self._entries.append(runnable)

    def pop(self) -> "Runnable | None":
        """Remove and return the oldest entry, or None if the queue is empty."""
        return as_runnable(self._entries.popleft()) if self._entries else None

    def take(self) -> "list[Runnable]":
        """Remove and return all entries, in order."""
        entries = self._entries
        return [as_runnable(entries.popleft()) for _ in range(len(entries))]

    def clear(self) -> None:
        """Drop all entries, and those that are pushed while entries are destroyed."""
        while self._entries:
            self._entries.clear()


def push_last(ready: Any, runnable: "Runnable") -> None:
    """Put `runnable` at the end. Compiled modules have an inline function of this name."""
    ready.push(runnable)
