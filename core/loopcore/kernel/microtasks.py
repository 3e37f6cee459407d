"""The queues of callbacks that run right after the current one: next-ticks and microtasks."""

from collections import deque

from loopcore.kernel.handle import Handle


class MicrotaskQueues:
    """The next-tick queue and the microtask queue, which run after the current callback, before the next one.

    Node's rule: all next-ticks, then all microtasks, and again until both are empty. A callback added to the queue that
    is being run still runs in this round, so a next-tick set by a microtask waits for the last microtask. Unlike
    Node's, a turn ends after `budget` callbacks and the rest waits for the next callback, so a recursive `next_tick`
    cannot block I/O for ever.
    """

    __slots__ = ("budget", "pending", "at_microtasks", "_next_ticks", "_microtasks")

    def __init__(self, budget: int) -> None:
        self.budget: int = budget
        self.pending: bool = False
        """Whether a callback may be queued: false only after `pop` has found none."""
        self.at_microtasks: bool = False
        """Whether the last callback of `pop` was a microtask."""
        self._next_ticks: deque[Handle] = deque()
        self._microtasks: deque[Handle] = deque()

    def __len__(self) -> int:
        return len(self._next_ticks) + len(self._microtasks)

    def push_next_tick(self, handle: Handle) -> None:
        """Run `handle` after the current callback."""
        self._next_ticks.append(handle)
        self.pending = True

    def push_microtask(self, handle: Handle) -> None:
        """Run `handle` after the current callback and every next-tick."""
        self._microtasks.append(handle)
        self.pending = True

    def pop(self) -> Handle | None:
        """Remove and return the next callback, or None if both queues are empty."""
        if self._next_ticks and not (self.at_microtasks and self._microtasks):
            self.at_microtasks = False
            return self._next_ticks.popleft()
        self.at_microtasks = self.pending = len(self._microtasks) > 0
        return self._microtasks.popleft() if self.at_microtasks else None

    def clear(self) -> None:
        """Drop all callbacks."""
        self._next_ticks.clear()
        self._microtasks.clear()
        self.pending = False
