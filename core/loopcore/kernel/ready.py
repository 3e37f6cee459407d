"""The queues of a loop's own thread: what is ready, and what goes before everything else.

ReadyQueue is drained a batch at a time: `take` hands over all that is there and starts afresh, so what a
batch schedules belongs to the next tick. UrgentQueues is looked at after every single callback.
"""

from collections import deque
from collections.abc import Sequence

from loopcore.kernel.handle import Handle
from loopcore.kernel.runnable import Runnable


class ReadyQueue:
    """First in, first out; a batch at a time."""

    __slots__ = ("_incoming",)

    def __init__(self) -> None:
        self._incoming: list[Runnable] = []

    def __len__(self) -> int:
        return len(self._incoming)

    def is_filled(self) -> bool:
        """Tell whether anything is in the queue."""
        return bool(self._incoming)

    def push(self, runnable: Runnable) -> None:
        """Put `runnable` at the end."""
        self._incoming.append(runnable)

    def take(self) -> list[Runnable]:
        """Return everything in the queue, in order, and leave it empty."""
        batch = self._incoming
        self._incoming = []
        return batch

    def put_back(self, batch: Sequence[Runnable]) -> None:
        """Put what is left of a batch that was broken off in front of all that came since."""
        self._incoming[:0] = batch


class UrgentQueues:
    """The next-tick queue and the microtask queue, which run after the current callback, before the next one.

    Node's rule: next-ticks first, then microtasks, and again until both are empty. Unlike Node's, the
    turn ends after `budget` callbacks and the rest waits for the next callback, so a recursive
    `next_tick` cannot hold up I/O for ever.
    """

    __slots__ = ("budget", "_next_ticks", "_microtasks")

    def __init__(self, budget: int) -> None:
        self.budget: int = budget
        self._next_ticks: deque[Handle] = deque()
        self._microtasks: deque[Handle] = deque()

    def __len__(self) -> int:
        return len(self._next_ticks) + len(self._microtasks)

    def push_next_tick(self, handle: Handle) -> None:
        """Run `handle` after the current callback."""
        self._next_ticks.append(handle)

    def push_microtask(self, handle: Handle) -> None:
        """Run `handle` after the current callback and every next-tick."""
        self._microtasks.append(handle)

    def pop(self) -> Handle | None:
        """Take out what runs next, or None when both queues are empty."""
        if self._next_ticks:
            return self._next_ticks.popleft()
        return self._microtasks.popleft() if self._microtasks else None

    def clear(self) -> None:
        """Forget everything."""
        self._next_ticks.clear()
        self._microtasks.clear()
