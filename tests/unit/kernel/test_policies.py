"""Policies of the tick: ready order, tick budget, poll timeout. Nothing is lost, whatever their owners do."""

import logging
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from loopcore import hookimpl
from loopcore.errors import UsageError
from loopcore.kernel.runnable import Runnable
from loopcore.kernel.scheduler import Scheduler
from loopcore.testing import ScriptedBackend, VirtualClock


@pytest.fixture
def backend() -> ScriptedBackend:
    return ScriptedBackend(VirtualClock())


@pytest.fixture
def reactor(backend: ScriptedBackend) -> Scheduler:
    assert backend.clock is not None
    return Scheduler(backend, clock=backend.clock)


class LastFirst:
    """A ready order: last in, first out."""

    def __init__(self) -> None:
        self.entries: list[Any] = []

    def push(self, runnable: Any) -> None:
        self.entries.append(runnable)

    def pop(self) -> Any:
        return self.entries.pop() if self.entries else None


class Budget:
    def __init__(self, callbacks: int | None = None, seconds: float | None = None) -> None:
        self.callbacks = callbacks
        self.seconds = seconds


def orders(order: object) -> object:
    class Plugin:
        @hookimpl
        def loopcore_make_ready_queue(self) -> object:
            return order

    return Plugin()


def budgets(budget: object) -> object:
    class Plugin:
        @hookimpl
        def loopcore_make_tick_budget(self, loop: Any) -> object:
            return budget

    return Plugin()


def timeouts(decide: Callable[[float | None], Any]) -> object:
    class Plugin:
        @hookimpl
        def loopcore_poll_timeout(self, proposed: float | None) -> Any:
            return decide(proposed)

    return Plugin()


def schedule(reactor: Scheduler, log: list[Any], *names: str) -> None:
    for name in names:
        reactor.call_soon(log.append, name)


def run_until_idle(reactor: Scheduler) -> None:
    while reactor.counters().ready:
        reactor.tick()


# Ready order


def test_the_order_decides_among_what_was_ready_when_the_tick_began(reactor: Scheduler) -> None:
    log: list[Any] = []
    reactor.probes.register(orders(LastFirst()))
    schedule(reactor, log, "a", "b")
    reactor.call_soon(schedule, reactor, log, "later")
    schedule(reactor, log, "c")
    reactor.tick()
    assert log == ["c", "b", "a"]
    reactor.tick()
    assert log == ["c", "b", "a", "later"]


def test_urgent_callbacks_still_follow_each_callback(reactor: Scheduler) -> None:
    log: list[Any] = []
    reactor.probes.register(orders(LastFirst()))
    schedule(reactor, log, "a")
    reactor.call_soon(reactor.next_tick, log.append, "urgent")
    reactor.tick()
    assert log == ["urgent", "a"]


def test_urgent_callbacks_that_wait_when_the_tick_begins_come_first(reactor: Scheduler) -> None:
    log: list[str] = []
    reactor.probes.register(orders(LastFirst()))
    schedule(reactor, log, "ready")
    reactor.next_tick(log.append, "urgent")
    run_until_idle(reactor)
    assert log == ["urgent", "ready"]


@pytest.mark.parametrize("leaving", [SystemExit, KeyboardInterrupt])
def test_nothing_is_lost_when_a_callback_ends_the_run(reactor: Scheduler, leaving: type[BaseException]) -> None:
    log: list[Any] = []
    reactor.probes.register(orders(LastFirst()))

    def leave() -> None:
        raise leaving

    schedule(reactor, log, "a")
    reactor.call_soon(leave)
    schedule(reactor, log, "b")
    with pytest.raises(leaving):
        reactor.tick()
    assert (log, reactor.counters().ready) == (["b"], 1)
    reactor.tick()
    assert log == ["b", "a"]


def test_what_is_held_is_work_and_the_loop_does_not_block(reactor: Scheduler, backend: ScriptedBackend) -> None:
    reactor.probes.register(orders(LastFirst()))
    reactor.probes.register(budgets(Budget(callbacks=1)))
    schedule(reactor, [], "a", "b")
    reactor.tick()
    reactor.tick()
    assert backend.timeouts == [0.0]  # the first tick after a budget polls; the one before had skipped it


def test_held_callbacks_go_back_in_the_orders_order_before_what_came_later(reactor: Scheduler) -> None:
    log: list[Any] = []
    plugin = orders(LastFirst())
    reactor.probes.register(plugin)
    reactor.probes.register(budgets(Budget(callbacks=1)))
    schedule(reactor, log, "a", "b", "c")
    reactor.tick()
    schedule(reactor, log, "new")
    reactor.probes.unregister(plugin)
    run_until_idle(reactor)
    assert log == ["c", "b", "a", "new"]


def test_a_callback_may_take_the_order_out(reactor: Scheduler) -> None:
    log: list[Any] = []
    plugin = orders(LastFirst())
    reactor.probes.register(plugin)
    schedule(reactor, log, "a", "b")
    reactor.call_soon(reactor.probes.unregister, plugin)
    reactor.tick()
    assert log == []
    reactor.tick()
    assert log == ["b", "a"]


def test_an_order_registered_by_a_callback_begins_with_the_next_tick(reactor: Scheduler) -> None:
    log: list[Any] = []
    reactor.call_soon(reactor.probes.register, orders(LastFirst()))
    schedule(reactor, log, "a", "b")
    reactor.call_soon(schedule, reactor, log, "c", "d")
    reactor.tick()
    reactor.tick()
    assert log == ["a", "b", "d", "c"]


def test_stop_ends_after_the_tick_and_the_rest_is_there_in_the_next_run(reactor: Scheduler) -> None:
    log: list[Any] = []
    reactor.probes.register(orders(LastFirst()))
    reactor.probes.register(budgets(Budget(callbacks=2)))
    schedule(reactor, log, "a", "b")
    reactor.call_soon(reactor._stop_ticks)
    reactor._run_ticks()
    assert log == ["b"]
    reactor.call_soon(reactor._stop_ticks)
    reactor._run_ticks()
    reactor._stop_ticks()
    reactor._run_ticks()
    assert log == ["b", "a"]


def test_closing_lets_go_of_what_is_held(reactor: Scheduler) -> None:
    reactor.probes.register(orders(LastFirst()))
    reactor.probes.register(budgets(Budget(callbacks=1)))
    log: list[Any] = []
    schedule(reactor, log, "a", "b")
    reactor.tick()
    reactor._close_scheduler()
    assert (log, reactor.counters().ready) == (["b"], 0)


class Broken(LastFirst):
    """An order that goes wrong in one of several ways, after the first callback."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.last: Any = None

    def push(self, runnable: Any) -> None:
        if self.way == "push raises" and self.entries:
            raise ValueError("no")
        super().push(runnable)

    def pop(self) -> Any:
        if self.last is not None:
            if self.way == "pop raises":
                raise ValueError("no")
            if self.way == "pop repeats":
                return self.last
            if self.way == "pop invents":
                return object()
            if self.way == "pop forgets":
                return None
        self.last = super().pop()
        return self.last


@pytest.mark.parametrize("way", ["push raises", "pop raises", "pop repeats", "pop invents", "pop forgets"])
def test_a_broken_order_loses_nothing(reactor: Scheduler, way: str, caplog: pytest.LogCaptureFixture) -> None:
    log: list[Any] = []
    reactor.probes.register(orders(Broken(way)), "broken")
    schedule(reactor, log, "a", "b", "c")
    with caplog.at_level(logging.ERROR):
        run_until_idle(reactor)
    assert sorted(log) == ["a", "b", "c"]
    assert reactor.counters().ready == 0
    assert reactor.probes.failures == ({} if way == "pop forgets" else {"broken": 1})


@pytest.mark.parametrize("leaving", [KeyboardInterrupt, SystemExit])
def test_an_order_that_ends_the_run_loses_nothing(reactor: Scheduler, leaving: type[BaseException]) -> None:
    log: list[str] = []

    class Leaving(LastFirst):
        def push(self, runnable: Any) -> None:
            if not left:
                left.append(True)
                raise leaving
            super().push(runnable)

    left: list[bool] = []
    reactor.probes.register(orders(Leaving()))
    schedule(reactor, log, "a", "b")
    with pytest.raises(leaving):
        reactor.tick()
    run_until_idle(reactor)
    assert log == ["b", "a"]


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="signals of POSIX")
def test_a_signal_that_has_come_twice_is_handled_twice_under_an_order(loopcore_factory: Callable[[], Any]) -> None:
    log: list[str] = []
    loop = loopcore_factory()
    loop.probes.register(orders(LastFirst()))

    def handle() -> None:
        log.append("handled")
        if len(log) == 2:
            loop.stop()

    loop.call_later(30.0, loop.stop)
    loop.add_signal_handler(signal.SIGUSR1, handle)
    for _ in range(2):
        signal.raise_signal(signal.SIGUSR1)
    loop.run_forever()
    loop.remove_signal_handler(signal.SIGUSR1)
    assert log == ["handled"] * 2


def test_what_has_no_push_and_pop_is_no_order(reactor: Scheduler, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        reactor.probes.register(orders(object()), "wrong")
    assert "push and pop" in caplog.text
    assert reactor.probes.failures == {"wrong": 1}


def test_a_plugin_that_fails_in_another_thread_gives_back_what_its_order_holds_in_the_loops(reactor: Scheduler) -> None:
    log: list[Any] = []
    plugin = orders(LastFirst())
    reactor.probes.register(plugin)

    def leave_from_another_thread() -> None:
        thread = threading.Thread(target=reactor.probes.unregister, args=(plugin,))
        thread.start()
        thread.join()
        schedule(reactor, log, "new")
        reactor.call_soon(reactor._stop_ticks)

    schedule(reactor, log, "a", "b")
    reactor.call_soon(leave_from_another_thread)
    reactor._run_ticks()
    assert log == ["b", "a", "new"]
    assert reactor.probes.owner("loopcore_make_ready_queue") is None


@pytest.mark.parametrize("policy", [orders(LastFirst()), budgets(Budget(callbacks=9))], ids=["order", "budget"])
def test_what_waits_for_the_end_of_the_tick_leaves_between_two_callbacks_when_it_is_much(
    reactor: Scheduler, policy: object
) -> None:
    class Flush(Runnable):
        def _run(self) -> None:
            log.append("flush")

    def write() -> None:
        log.append("write")
        reactor._unflushed += 100
        reactor._flush_this_tick(Flush())

    log: list[str] = []
    reactor.flush_limit = 150
    reactor.probes.register(policy)
    for _ in range(3):
        reactor.call_soon(write)
    reactor.tick()
    assert log == ["write", "write", "flush", "flush", "write", "flush"]
    assert reactor._unflushed == 0


# Tick budget


def test_a_budget_of_callbacks_ends_the_phase_and_the_next_polls(reactor: Scheduler, backend: ScriptedBackend) -> None:
    log: list[Any] = []
    reactor.probes.register(budgets(Budget(callbacks=2)))
    schedule(reactor, log, *"abcde")
    seen = []
    for _ in range(3):
        reactor.tick()
        seen.append(("".join(log), len(backend.timeouts), reactor.counters().budget_yields))
    assert seen == [("ab", 0, 1), ("abcd", 1, 2), ("abcde", 2, 2)]


def test_a_budget_of_time_ends_the_phase_once_it_is_spent(reactor: Scheduler) -> None:
    log: list[Any] = []
    reactor.probes.register(budgets(Budget(seconds=0.0)))
    schedule(reactor, log, "a", "b")
    reactor.tick()
    assert log == ["a"]  # one runs in any case
    reactor.tick()
    assert log == ["a", "b"]


def test_a_budget_that_is_not_spent_changes_nothing(reactor: Scheduler) -> None:
    log: list[Any] = []
    reactor.probes.register(budgets(Budget(callbacks=10**30, seconds=1e300)))
    schedule(reactor, log, *"abc")
    reactor.tick()
    assert (log, reactor.counters().budget_yields, reactor.probes.failures) == (["a", "b", "c"], 0, {})


def test_a_budget_may_change_from_tick_to_tick(reactor: Scheduler) -> None:
    log: list[Any] = []
    budget = Budget(callbacks=1)
    reactor.probes.register(budgets(budget))
    schedule(reactor, log, *"abc")
    reactor.tick()
    budget.callbacks = None
    reactor.tick()
    assert log == ["a", "b", "c"]


@pytest.mark.parametrize("wrong", [Budget(callbacks=-1), Budget(seconds=float("nan")), object()])
def test_a_budget_that_is_none_is_taken_out(
    reactor: Scheduler, wrong: object, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        reactor.probes.register(budgets(wrong), "wrong")
    assert reactor.probes.failures == {"wrong": 1}


def test_a_budget_that_goes_wrong_later_is_taken_out_and_the_tick_goes_on(
    reactor: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    log: list[Any] = []
    budget = Budget(callbacks=1)
    reactor.probes.register(budgets(budget), "wrong")
    budget.callbacks = -1
    schedule(reactor, log, "a", "b")
    with caplog.at_level(logging.ERROR):
        reactor.tick()
    assert (log, reactor.probes.failures) == (["a", "b"], {"wrong": 1})


# Poll timeout


@pytest.mark.parametrize(
    ("decision", "waited"),
    [(None, 5.0), (1.0, 1.0), (0, 0.0), (7.0, 5.0)],
    ids=["leave", "shorten", "look", "lengthen"],
)
def test_a_wait_can_only_be_shortened(
    reactor: Scheduler, backend: ScriptedBackend, decision: float | None, waited: float
) -> None:
    reactor.probes.register(timeouts(lambda proposed: decision))
    reactor.call_later(5.0, int)
    reactor.tick()
    assert backend.timeouts == [waited]


def test_a_wait_without_limit_can_be_given_one(reactor: Scheduler, backend: ScriptedBackend) -> None:
    proposals: list[float | None] = []

    def decide(proposed: float | None) -> float:
        proposals.append(proposed)
        return 2.0

    reactor.probes.register(timeouts(decide))
    reactor.tick()
    assert (proposals, backend.timeouts) == ([None], [2.0])


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), "soon"])
def test_a_decision_that_is_no_timeout_is_the_plugins_last(
    reactor: Scheduler, backend: ScriptedBackend, wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    reactor.probes.register(timeouts(lambda proposed: wrong), "wrong")
    reactor.call_later(5.0, int)
    with caplog.at_level(logging.ERROR):
        reactor.tick()
    assert backend.timeouts == [5.0]
    assert reactor.probes.failures == {"wrong": 1}


# Owners


def test_a_policy_has_one_owner(reactor: Scheduler) -> None:
    reactor.probes.register(orders(LastFirst()), "first")
    with pytest.raises(UsageError, match="'first' and 'second' both decide loopcore_make_ready_queue"):
        reactor.probes.register(orders(LastFirst()), "second")
    assert [name for name, _ in reactor.probes.plugins()] == ["first"]
    log: list[Any] = []
    schedule(reactor, log, "a", "b")
    reactor.tick()
    assert log == ["b", "a"]


def test_after_the_owner_has_left_another_may_come(reactor: Scheduler) -> None:
    first = orders(LastFirst())
    reactor.probes.register(first)
    reactor.probes.unregister(first)
    reactor.probes.register(orders(LastFirst()))
    log: list[Any] = []
    schedule(reactor, log, "a", "b")
    reactor.tick()
    assert log == ["b", "a"]


def test_an_owner_is_asked_once_however_often_the_plugins_change(reactor: Scheduler) -> None:
    asked: list[Any] = []

    class Plugin:
        @hookimpl
        def loopcore_make_ready_queue(self, loop: Any) -> None:
            asked.append(loop)

    reactor.probes.register(Plugin(), "order")
    reactor.probes.register(timeouts(lambda proposed: None), "timeout")
    reactor.probes.reorder("timeout", "order")
    assert asked == [reactor]
