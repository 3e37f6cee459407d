"""The ready queue of the pure build: `kernel.ready.ReadyQueue`, by `collections.deque`.

Interpreted, the ring costs a call and a dozen instructions for what a deque does in C. A deque's methods are atomic, so
that a signal handler or a finalizer may push in the middle of anything here.
"""

from collections import deque
from typing import TYPE_CHECKING, Any

from loopcore.kernel.interpreted_steps import STEP, WAKEUP, TaskStep
from loopcore.kernel.sources import READY

if TYPE_CHECKING:
    from loopcore.kernel.meter import CallbackSampler
    from loopcore.kernel.runnable import Runnable


def as_runnable(entry: Any) -> "Runnable":
    """Return what a ready queue holds as a Runnable: the steps of asyncio's tasks are callables of asyncio."""
    return TaskStep(entry) if type(entry) is STEP or type(entry) is WAKEUP else entry


class DequeReadyQueue:
    """First in, first out. The names and contracts of `ReadyQueue`."""

    __slots__ = ("push", "next", "_entries", "_sampler")

    def __init__(self) -> None:
        self._entries: deque[Runnable] = deque()
        self._sampler: CallbackSampler | None = None
        self.push = self._entries.append
        """Put a runnable at the end."""
        self.next = self._entries.popleft
        """Take out what has waited longest, as it was pushed; raises IndexError if the queue is empty."""

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def _count(self) -> int:
        return len(self._entries)

    def report_to(self, sampler: "CallbackSampler | None") -> None:
        """Have `sampler` told what is pushed from now on; None ends it."""
        self._sampler = sampler
        self.push = self._entries.append if sampler is None else self._push_stamped

    def _push_stamped(self, runnable: "Runnable") -> None:
        runnable = as_runnable(runnable)
        if self._sampler is not None:
            self._sampler.stamp(runnable, READY)
        self._entries.append(runnable)

    def pop(self) -> "Runnable | None":
        """Take out what has waited longest, or None if the queue is empty."""
        return as_runnable(self._entries.popleft()) if self._entries else None

    def take(self) -> "list[Runnable]":
        """Take out everything, in order."""
        entries = self._entries
        return [as_runnable(entries.popleft()) for _ in range(len(entries))]

    def clear(self) -> None:
        """Forget everything, also what is pushed by what is forgotten."""
        while self._entries:
            self._entries.clear()


def push_last(ready: Any, runnable: "Runnable") -> None:
    """Put `runnable` at the end: the twin of what compiled modules have in place of a call of `push`."""
    ready.push(runnable)
