"""Leaving out the poll: hardly ever while something is watched, bounded in ticks and in time while nothing is."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from loopcore.kernel.handle import Handle
from loopcore.kernel.limits import CLOCK_TICKS, POLL_SKIP_TICKS
from loopcore.kernel.scheduler import Scheduler
from loopcore.ports.interest import READ
from loopcore.testing import ScriptedBackend, VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def backend(clock: VirtualClock) -> ScriptedBackend:
    return ScriptedBackend(clock)


@pytest.fixture
def reactor(backend: ScriptedBackend, clock: VirtualClock) -> Scheduler:
    return Scheduler(backend, clock=clock)


def keep_busy(
    reactor: Scheduler, clock: VirtualClock, seconds_a_callback: float, each: Callable[[], Any] = int
) -> None:
    """Have one callback ready at any time; each takes `seconds_a_callback`."""

    def again() -> None:
        clock.at += seconds_a_callback
        reactor.call_soon(again)
        each()

    reactor.call_soon(again)


def ticks_between_polls(reactor: Scheduler, backend: ScriptedBackend, polls: int = 5) -> list[int]:
    """Count the ticks from poll to poll, the tick that polls included."""
    gaps: list[int] = []
    since = 0
    for _ in range(20 * POLL_SKIP_TICKS):
        before = len(backend.timeouts)
        reactor.tick()
        since += 1
        if len(backend.timeouts) > before:
            gaps.append(since)
            since = 0
        if len(gaps) == polls:
            break
    return gaps


def test_quick_callbacks_are_bounded_in_ticks(
    reactor: Scheduler, backend: ScriptedBackend, clock: VirtualClock
) -> None:
    keep_busy(reactor, clock, 0.0)
    assert ticks_between_polls(reactor, backend) == [POLL_SKIP_TICKS + 1] * 5
    assert set(backend.timeouts) == {0.0}


def test_slow_callbacks_are_bounded_in_time(reactor: Scheduler, backend: ScriptedBackend, clock: VirtualClock) -> None:
    keep_busy(reactor, clock, 1e-3)
    assert max(ticks_between_polls(reactor, backend)) <= 2 * CLOCK_TICKS


def test_both_bounds_are_settings(reactor: Scheduler, backend: ScriptedBackend, clock: VirtualClock) -> None:
    keep_busy(reactor, clock, 1e-3)
    reactor.poll_skip_time = 1.0
    reactor.poll_skip_ticks = 30
    assert ticks_between_polls(reactor, backend) == [31] * 5
    reactor.poll_skip_ticks = 0
    assert ticks_between_polls(reactor, backend) == [1] * 5


def test_an_idle_loop_polls_in_every_tick(reactor: Scheduler, backend: ScriptedBackend) -> None:
    reactor.call_later(1000.0, print)
    for _ in range(5):
        backend.script.append([(99, READ)])
        reactor.tick()
    assert len(backend.timeouts) == 5


def test_a_busy_queue_does_not_starve_events(reactor: Scheduler, backend: ScriptedBackend, clock: VirtualClock) -> None:
    reads: list[float] = []
    reactor._readiness.set_reader(5, Handle(lambda: reads.append(clock.at), (), reactor))
    backend.wait = lambda timeout: [(5, READ)]  # type: ignore[method-assign]
    keep_busy(reactor, clock, 1e-6)
    for _ in range(1000):
        reactor.tick()
    gaps = [later - earlier for earlier, later in pairwise(reads)]
    assert max(gaps) == pytest.approx(1e-6), "each tick polls while something is watched (issue 32)"


def wake_out_of_a_wait(reactor: Scheduler, backend: ScriptedBackend, callback: Callable[[], Any]) -> None:
    """Have `callback` called by an event that ends a wait without limit."""
    reactor._readiness.set_reader(5, Handle(callback, (), reactor))
    backend.script.append([(5, READ)])
    reactor.tick()
    assert backend.timeouts == [None]


def test_one_tick_after_an_idle_wait_is_without_a_poll(backend: ScriptedBackend, clock: VirtualClock) -> None:
    """Its callbacks are those that the events of the wait have scheduled."""
    reactor = Scheduler(backend, clock=clock)
    wake_out_of_a_wait(reactor, backend, lambda: keep_busy(reactor, clock, 0.0))
    for _ in range(4):
        reactor.tick()
    assert backend.timeouts == [None, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "change",
    [
        lambda readiness: readiness.set_reader(6, readiness.clear_reader(5)),
        lambda readiness: readiness.set_reader(5, readiness.lookup(5).reader),
        lambda readiness: readiness.set_writer(5, readiness.lookup(5).reader),
        lambda readiness: readiness.clear_writer(7),
        lambda readiness: readiness.forget(7),
    ],
    ids=["register", "replace", "modify", "unregister", "forget"],
)
def test_a_tick_after_a_change_of_registrations_polls(
    backend: ScriptedBackend, clock: VirtualClock, change: Callable[[Any], object]
) -> None:
    reactor = Scheduler(backend, clock=clock)
    reactor._readiness.set_writer(7, Handle(int, (), reactor))

    def callback() -> None:
        change(reactor._readiness)
        reactor.call_soon(int)

    wake_out_of_a_wait(reactor, backend, callback)
    reactor.tick()
    assert backend.timeouts == [None, 0.0]


@pytest.mark.parametrize("seconds_a_callback", [1e-7, 1e-5, 1e-3])
def test_a_busy_queue_does_not_starve_timers(
    reactor: Scheduler, clock: VirtualClock, backend: ScriptedBackend, seconds_a_callback: float
) -> None:
    late: list[float] = []

    def fire(deadline: float) -> None:
        late.append(clock.at - deadline)
        reactor.call_at(clock.at + 5e-5, fire, clock.at + 5e-5)

    reactor.call_at(clock.at, fire, clock.at)
    keep_busy(reactor, clock, seconds_a_callback)
    for _ in range(3000):
        reactor.tick()
    assert len(late) >= 3
    assert min(late) >= -reactor.clock.resolution
    bound_in_ticks = (POLL_SKIP_TICKS + 2) * seconds_a_callback
    bound_in_time = reactor.poll_skip_time + (2 * CLOCK_TICKS + 1) * seconds_a_callback
    assert max(late) <= min(bound_in_ticks, bound_in_time) + 1e-6


def test_events_and_timers_run_beside_an_endless_next_tick(
    reactor: Scheduler, backend: ScriptedBackend, clock: VirtualClock
) -> None:
    ran: list[str] = []
    reactor._microtasks.budget = 10

    def again() -> None:
        reactor.next_tick(again)

    again()
    reactor._readiness.set_reader(5, Handle(ran.append, ("io",), reactor))
    reactor.call_later(0, ran.append, "timer")
    backend.wait = lambda timeout: [(5, READ)]  # type: ignore[method-assign]
    for _ in range(POLL_SKIP_TICKS + 1):
        reactor.tick()
    assert set(ran) == {"io", "timer"}


def test_the_first_tick_of_a_run_polls(reactor: Scheduler, backend: ScriptedBackend) -> None:
    for run in range(1, 4):
        reactor.call_soon(reactor._stop_ticks)
        reactor._run_ticks()
        assert backend.timeouts == [0.0] * run


def test_a_run_that_is_stopped_before_it_begins_polls_once_and_does_not_block(
    reactor: Scheduler, backend: ScriptedBackend
) -> None:
    reactor._stop_ticks()
    reactor._run_ticks()
    assert backend.timeouts == [0.0]


def test_the_wait_is_as_long_as_the_first_timer_that_was_not_cancelled(
    reactor: Scheduler, backend: ScriptedBackend, clock: VirtualClock
) -> None:
    reactor.call_later(1.0, print).cancel()
    fired: list[float] = []
    reactor.call_later(2.5, lambda: fired.append(clock.at))
    reactor.tick()
    assert [round(timeout or 0, 6) for timeout in backend.timeouts] == [2.5]
    assert fired == [pytest.approx(1002.5)]


def test_a_wait_is_at_most_a_day(reactor: Scheduler, backend: ScriptedBackend) -> None:
    reactor.call_later(1e12, print)
    reactor.tick()
    assert backend.timeouts == [24 * 3600.0]


def test_no_timer_fires_early_though_the_wait_ends_early(
    reactor: Scheduler, backend: ScriptedBackend, clock: VirtualClock
) -> None:
    fired: list[float] = []
    reactor.call_later(1.0, lambda: fired.append(clock.at))
    for _ in range(3):
        backend.script.append([(99, READ)])
        clock.at += 0.3
        reactor.tick()
    assert fired == []
    reactor.tick()
    assert fired == [pytest.approx(1001.0)]


def test_the_three_steps_of_a_tick_can_be_hosted(reactor: Scheduler, backend: ScriptedBackend) -> None:
    ran: list[str] = []
    reactor._readiness.set_reader(5, Handle(ran.append, ("io",), reactor))
    reactor.call_soon(ran.append, "soon")
    reactor.poll_skip_ticks = 0
    backend.script.append([(5, READ)])
    events = reactor.poll_events()
    assert list(events) == [(5, READ)]
    assert ran == []
    reactor.process_events(events)
    reactor.process_ready()
    assert ran == ["soon", "io"]


async def test_a_step_that_is_hosted_leaves_the_host_running(
    loop: asyncio.AbstractEventLoop, reactor: Scheduler
) -> None:
    running: list[object] = []
    reactor.call_soon(lambda: running.append(asyncio._get_running_loop()))
    reactor.tick()
    running.append(asyncio.get_running_loop())
    assert running == [reactor, loop]


def test_descriptor_that_is_registered_inside_the_wait_is_polled_for_in_the_next_tick(
    reactor: Scheduler, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler registers it; the wait under way need not have looked at it."""
    wait = backend.wait

    def interrupted(timeout: float | None) -> Any:
        if timeout is None:
            reactor._readiness.set_reader(6, Handle(int, (), reactor))
        return wait(timeout)

    monkeypatch.setattr(backend, "wait", interrupted)
    reactor._readiness.set_reader(5, Handle(reactor.call_soon, (int,), reactor))
    backend.script.append([(5, READ)])
    reactor.tick()
    assert backend.timeouts == [None]
    reactor.tick()
    assert backend.timeouts == [None, 0.0]
