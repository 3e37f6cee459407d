"""Fair: no group of tasks gets more of the loop's time than the others, however much work it has.

Each group has a queue, first in, first out, and an account of the time that its callbacks have run. Of the groups with
ready callbacks, the one with the smallest account is served, one callback at a time: start-time fair queueing
(Goyal, Vin, Cheng: SIGCOMM 1996), as in the schedulers of operating systems.

Unused time is not saved up: a group that comes back starts where the others are. Time that a group has used
beyond its share counts against it, but at most `debt` seconds: a group with something ready waits at most until
each of the others has used that much more, and ended a callback.
"""

import time
from collections import deque
from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from typing import Any, Final

import loopcore
from loopcore.errors import UsageError
from loopcore_plugins.policy.budget import Budget
from loopcore_plugins.policy.marks import group_of

_GROUPS_KEPT: Final = 64
"""With fewer groups than this, none is dropped."""


class Fair(Budget):
    """Shares the loop's time among groups; see `loopcore_plugins.policy.group`. For one loop.

    `debt`: the most seconds beyond its share that count against a group.
    `callbacks`, `seconds`: the budget of a tick, after which callbacks that became ready in it are sorted in.
    `clock`: the shared resource, in nanoseconds; with a clock that steps at each call, callbacks are counted.
    """

    def __init__(
        self,
        *,
        debt: float = 0.1,
        callbacks: int | None = None,
        seconds: float | None = 0.001,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        super().__init__(callbacks=callbacks, seconds=seconds)
        if not 0.0 <= debt < float("inf"):
            raise UsageError(f"debt must be a number of seconds, not {debt}")
        self._order = FairOrder(int(debt * 1e9), clock)

    @loopcore.hookimpl
    def loopcore_make_ready_queue(self) -> loopcore.ReadyOrder:
        """Provide the policy."""
        return self._order

    @loopcore.hookimpl
    def loopcore_phase_end(self, phase: str) -> None:
        """Charge the phase's last callback to its group, before time passes that is not its own."""
        if phase == "pending":
            self._order.settle()


class _Group:
    """A group: its ready callbacks, the nanoseconds on its account, and when that was last settled."""

    __slots__ = ("queue", "used", "served_at")

    def __init__(self) -> None:
        self.queue: deque[Any] = deque()
        self.used = 0
        self.served_at = 0


class FairOrder:
    """The `loopcore.ReadyOrder` of Fair. Thread: the loop's own."""

    def __init__(self, debt_ns: int, clock: Callable[[], int]) -> None:
        self._debt_ns = debt_ns
        self._clock = clock
        self._groups: dict[Hashable, _Group] = {}
        self._waiting: list[tuple[int, int, _Group]] = []
        """A heap of the groups with ready callbacks, except the one that runs, by account, then by turn."""
        self._turn = 0
        self._floor = 0
        """The account of the group that was served last; no waiting group has a smaller one."""
        self._running: _Group | None = None
        self._began_at = 0
        self._forget_from = _GROUPS_KEPT

    def push(self, runnable: Any) -> None:
        """Add `runnable`."""
        name = group_of(runnable)
        group = self._groups.get(name)
        if group is None:
            if len(self._groups) >= self._forget_from:
                self._forget(self._clock())
            group = self._groups[name] = _Group()
        if not group.queue and group is not self._running:
            self._wait(group)
        group.queue.append(runnable)

    def pop(self) -> Any:
        """Return the first callback of the group with the smallest account."""
        now = self._clock()
        self._charge(now)
        if not self._waiting:
            return None
        self._floor, _, group = heappop(self._waiting)
        self._running = group
        self._began_at = now
        return group.queue.popleft()

    def settle(self) -> None:
        """Charge the time since the last `pop` to the group of that callback."""
        if self._running is not None:
            self._charge(self._clock())

    def _charge(self, now: int) -> None:
        group = self._running
        if group is None:
            return
        self._running = None
        group.served_at = now
        group.used = min(group.used + now - self._began_at, self._floor + self._debt_ns)
        if group.queue:
            self._wait(group)

    def _wait(self, group: _Group) -> None:
        group.used = max(group.used, self._floor)
        self._turn += 1
        heappush(self._waiting, (group.used, self._turn, group))

    def _forget(self, now: int) -> None:
        """Drop the groups that have nothing ready, and owe nothing or were served long ago."""
        self._groups = {
            name: group
            for name, group in self._groups.items()
            if group.queue
            or group is self._running
            or (group.used > self._floor and now - group.served_at < self._debt_ns)
        }
        self._forget_from = max(_GROUPS_KEPT, 2 * len(self._groups))
