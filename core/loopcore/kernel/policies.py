"""Policies in the tick: a pending phase that a plugin orders, or ends early.

The probes decide which plugin owns a policy; here the policies are called, and dropped when their plugin raises or is
removed. A loop with such a policy is observed (loopcore.kernel.observed).
"""

from typing import TYPE_CHECKING

from loopcore.kernel.flags import SlowPath
from loopcore.kernel.order import Allowance, OrderedQueue
from loopcore.kernel.runnable import Runnable

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.kernel.tick import flush_early
else:
    from loopcore.kernel.tick import flush_early

if TYPE_CHECKING:
    from loopcore.kernel.scheduler import Scheduler

_CLOSED = SlowPath.CLOSED.value


class PendingPolicy:
    """What plugins have decided about the pending phase of one loop. Thread: the loop's own, except `count_held`."""

    __slots__ = ("_order", "_order_owner", "_allowance", "_allowance_owner")

    def __init__(self) -> None:
        self._order: OrderedQueue | None = None
        self._order_owner: object = None
        self._allowance: Allowance | None = None
        self._allowance_owner: object = None

    def directs_pending(self) -> bool:
        """Return whether the pending phase is ordered or limited."""
        return self._order is not None or self._allowance is not None

    def count_held(self) -> int:
        """Return how many ready callbacks the order holds. Thread: any."""
        with cython.critical_section(self):
            order = self._order
        return 0 if order is None else len(order)

    def update(self, loop: "Scheduler") -> None:
        """Adopt the policies of new plugins, drop those of plugins that are gone."""
        if loop._slow_path_flags & _CLOSED:
            return
        owner = loop.probes.owner("loopcore_make_ready_queue")
        if owner is not self._order_owner:
            self._order_owner = owner
            self._release_order(loop)
            self._order = loop.probes.ask("loopcore_make_ready_queue", loop, convert=OrderedQueue)
        owner = loop.probes.owner("loopcore_make_tick_budget")
        if owner is not self._allowance_owner:
            self._allowance_owner = owner
            self._allowance = loop.probes.ask("loopcore_make_tick_budget", loop, convert=Allowance)

    def run_pending(self, loop: "Scheduler") -> int:
        """Run the pending phase; return how many callbacks ran."""
        if loop._inbox._woken:
            loop._empty_inbox()
        if loop._microtasks.pending:
            loop._runner.run_microtasks()
        count = self._begin(loop)
        order, allowance = self._order, self._allowance
        ran = 0
        while ran < count and self._order is order:  # otherwise a callback has removed the plugin
            if allowance is not None and ran > 0 and allowance.is_spent(ran):
                loop._stats.budget_yields += 1
                loop._poller.poll_next()
                break
            runnable = loop._ready.pop() if order is None else self._pop(loop, order)
            if runnable is None:
                break
            loop._runner.run(runnable)
            ran += 1
            if loop._unflushed > loop.flush_limit:
                flush_early(loop)
        runnable = None  # dropping it may run a finalizer that schedules work
        return ran

    def drop(self) -> None:
        """Drop the callbacks that the order holds: the loop is closed."""
        self._detach_order()

    def _begin(self, loop: "Scheduler") -> int:
        """Hand over the ready callbacks; return how many this tick may run."""
        if self._allowance is not None:
            try:
                self._allowance.begin()
            except Exception:
                loop.probes.remove_failed("loopcore_make_tick_budget", self._allowance_owner)
        order = self._order
        if order is None:
            return len(loop._ready)
        arrived = loop._ready.take()
        position = 0
        try:
            for runnable in arrived:
                if not order.lend(runnable):
                    loop._ready.push(runnable)  # the same entry twice: the second waits for the next tick
                position += 1
        except BaseException as exc:
            # Before newer entries: the order may have scheduled callbacks meanwhile.
            rest = [runnable for runnable in arrived[position:] if not order.holds(runnable)]
            for runnable in rest + loop._ready.take():
                loop._ready.push(runnable)
            if not isinstance(exc, Exception):
                raise
            loop.probes.remove_failed("loopcore_make_ready_queue", self._order_owner)
        return loop._count_ready() if self._order is None else len(order)

    def _pop(self, loop: "Scheduler", order: OrderedQueue) -> Runnable | None:
        try:
            return order.pop()
        except Exception:
            loop.probes.remove_failed("loopcore_make_ready_queue", self._order_owner)
            return None

    def _detach_order(self) -> OrderedQueue | None:
        with cython.critical_section(self):
            order, self._order = self._order, None
        return order

    def _release_order(self, loop: "Scheduler") -> None:
        order = self._detach_order()
        if order is not None:
            back: list[Runnable] = order.take_back()
            for runnable in back + loop._ready.take():  # which may include entries that arrived just now
                loop._ready.push(runnable)
