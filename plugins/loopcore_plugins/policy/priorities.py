"""Priority: urgent callbacks run first, and the others are not starved.

There is a queue for each priority, first in, first out. The highest one that is not empty is served; but every so many
callbacks the one that has waited longest of all goes first, so that none starves: if n others were ready before it,
a callback runs after at most `patience * (n + 1)` others.

An order alone sorts what became ready between two ticks. An urgent callback that becomes ready in the middle of a long
tick would wait for the tick's end, so ticks have a budget here as well.
"""

from bisect import insort
from collections import deque
from typing import Any

import loopcore
from loopcore.errors import UsageError
from loopcore_plugins.policy.budget import Budget
from loopcore_plugins.policy.marks import priority_of


class Priority(Budget):
    """Runs ready callbacks and tasks by priority; see `loopcore_plugins.policy.priority`.

    `patience`: one callback in so many is the one that has waited longest, whatever its priority.
    `callbacks`, `seconds`: the budget of a tick, after which callbacks that became ready in it are sorted in.
    """

    def __init__(self, *, patience: int = 16, callbacks: int | None = None, seconds: float | None = 0.001) -> None:
        super().__init__(callbacks=callbacks, seconds=seconds)
        if patience < 1:
            raise UsageError(f"patience must be a number of callbacks, 1 or more, not {patience}")
        self.patience = patience

    @loopcore.hookimpl
    def loopcore_make_ready_queue(self) -> loopcore.ReadyOrder:
        """Provide the policy."""
        return PriorityOrder(self.patience)


class PriorityOrder:
    """The `loopcore.ReadyOrder` of Priority. Thread: the loop's own."""

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._queues: dict[int, deque[tuple[int, Any]]] = {}
        """By level, none of them empty; each entry has its arrival number."""
        self._levels: list[int] = []
        """The keys of `_queues`, in ascending order."""
        self._arrivals = 0
        self._overtaken = 0
        """The number of consecutive callbacks that may have gone before an older one."""

    def push(self, runnable: Any) -> None:
        """Add `runnable`."""
        level = priority_of(runnable)
        queue = self._queues.get(level)
        if queue is None:
            queue = self._queues[level] = deque()
            insort(self._levels, level)
        self._arrivals += 1
        queue.append((self._arrivals, runnable))

    def pop(self) -> Any:
        """Return the most urgent callback, or one that has been overtaken for long enough."""
        if not self._levels:
            return None
        level = self._levels[-1]
        if len(self._levels) == 1:
            self._overtaken = 0
        else:
            self._overtaken += 1
            if self._overtaken >= self._patience:
                self._overtaken = 0
                level = min(self._levels, key=self._head)
        queue = self._queues[level]
        _, runnable = queue.popleft()
        if not queue:
            del self._queues[level]
            self._levels.remove(level)
        return runnable

    def _head(self, level: int) -> int:
        return self._queues[level][0][0]
