"""Policies in the tick: a pending phase that a plugin orders, or ends early.

This class is between the dispatcher and the reactor. A loop with such a policy takes the observed path through its
ticks; one without executes the same instructions as if there were no policies. The probes decide which plugin owns a
policy; here the policies are called, and dropped when their plugin raises or is removed.
"""

from typing import Any

from loopcore.backend import ReadinessBackend
from loopcore.clock import Clock
from loopcore.completion import CompletionBackend
from loopcore.kernel import flags
from loopcore.kernel.dispatch import Dispatcher
from loopcore.kernel.order import Allowance, OrderedQueue
from loopcore.kernel.probes import Probes
from loopcore.kernel.runnable import Runnable
from loopcore.kernel.sources import READY

_CLOSED = flags.CLOSED
_PENDING_PHASE = 3
_VERY_MANY = 1 << 30


class PolicyDispatcher(Dispatcher):
    """A dispatcher whose pending phase may be directed by plugins. Thread: the loop's own."""

    __slots__ = (
        "_skipped",
        "_order",
        "_order_owner",
        "_allowance",
        "_allowance_owner",
    )

    def __init__(self, backend: "ReadinessBackend | CompletionBackend", clock: Clock, probes: Probes) -> None:
        Dispatcher.__init__(self, backend, clock, probes)
        self._skipped: int = 0
        self._order: Any = None
        self._order_owner: object = None
        self._allowance: Any = None
        self._allowance_owner: object = None

    def _run_phase(self, phase: int) -> int:
        if phase == _PENDING_PHASE and (self._order is not None or self._allowance is not None):
            self._source = READY
            return self._run_pending_by_policy()
        return Dispatcher._run_phase(self, phase)

    def _note_observers(self) -> None:
        Dispatcher._note_observers(self)
        if self._order is not None or self._allowance is not None:
            self._tick_observed = True

    def count_ready(self) -> int:
        """Return how many callbacks are ready. Thread: any."""
        order = self._order
        return len(self.ready) + (0 if order is None else len(order))

    def _run_pending_by_policy(self) -> int:
        if self.inbox._woken:
            self._empty_inbox()
        if self._microtasks_pending:
            self._run_microtasks()
        count = self._begin_by_policy()
        order, allowance = self._order, self._allowance
        ran = 0
        while ran < count and self._order is order:  # otherwise a callback has removed the plugin
            if allowance is not None and ran > 0 and allowance.is_spent(ran):
                self.stats.budget_yields += 1
                self._skipped = _VERY_MANY  # the next tick polls
                break
            runnable = self.ready.pop() if order is None else self._pop_by_policy(order)
            if runnable is None:
                break
            self._run_one(runnable)
            ran += 1
        runnable = None  # as in _run_pending
        return ran

    def _begin_by_policy(self) -> int:
        """Hand over the ready callbacks; return how many this tick may run."""
        if self._allowance is not None:
            try:
                self._allowance.begin()
            except Exception:
                self.probes.remove_failed("loopcore_make_tick_budget", self._allowance_owner)
        order = self._order
        if order is None:
            return len(self.ready)
        arrived = self.ready.take()
        position = 0
        try:
            for runnable in arrived:
                if not order.lend(runnable):
                    self.ready.push(runnable)  # the same entry twice: the second waits for the next tick
                position += 1
        except BaseException as exc:
            # Before newer entries: another thread may have posted meanwhile (docs/adr/0014).
            rest = [runnable for runnable in arrived[position:] if not order.holds(runnable)]
            for runnable in rest + self.ready.take():
                self.ready.push(runnable)
            if not isinstance(exc, Exception):
                raise
            self.probes.remove_failed("loopcore_make_ready_queue", self._order_owner)
        return self.count_ready() if self._order is None else len(order)

    def _pop_by_policy(self, order: OrderedQueue) -> Runnable | None:
        try:
            return order.pop()
        except Exception:
            self.probes.remove_failed("loopcore_make_ready_queue", self._order_owner)
            return None

    def _note_policies(self) -> None:
        """Adopt the policies of new plugins, drop those of plugins that are gone."""
        if self._slow_path_flags & _CLOSED:
            return
        owner = self.probes.owner("loopcore_make_ready_queue")
        if owner is not self._order_owner:
            self._order_owner = owner
            self._release_order()
            self._order = self.probes.ask("loopcore_make_ready_queue", self, convert=OrderedQueue)
        owner = self.probes.owner("loopcore_make_tick_budget")
        if owner is not self._allowance_owner:
            self._allowance_owner = owner
            self._allowance = self.probes.ask("loopcore_make_tick_budget", self, convert=Allowance)
        self._note_observers()

    def _release_order(self) -> None:
        order, self._order = self._order, None
        if order is not None:
            back = order.take_back()
            for runnable in back + self.ready.take():  # which may include entries that arrived just now
                self.ready.push(runnable)
