"""The meter: idle and active time, histograms by source, windows; shared, and gone without a trace."""

import gc
import socket
import threading
import weakref
from itertools import pairwise
from typing import Any

import pytest

import loopcore
from loopcore import hookimpl
from loopcore.errors import UsageError
from loopcore.hooks.observer import WAIT_BEGINS, WAIT_ENDS
from loopcore.hooks.sources import SOURCES
from loopcore.kernel import meter as meter_module
from loopcore.kernel.meter import WINDOW_RUNS, CallbackSampler, Measurements
from loopcore.kernel.scheduler import Scheduler
from loopcore.testing import ScriptedBackend, VirtualClock

SECOND = 1_000_000_000


class Unmeasured:
    """The loop of a sampler that a test drives by hand."""

    slow_callback_duration = 1.0

    def _note_observers(self) -> None:
        pass

    def _note_slow(self, runnable: object, seconds: float) -> None:
        pass


@pytest.fixture
def backend() -> ScriptedBackend:
    return ScriptedBackend(VirtualClock())


@pytest.fixture
def reactor(backend: ScriptedBackend) -> Scheduler:
    assert backend.clock is not None
    made = Scheduler(backend, clock=backend.clock)
    made.poll_skip_ticks = 0  # windows open at polls
    return made


def counts(histograms: dict[str, Any]) -> dict[str, int]:
    return {source: each.count for source, each in histograms.items() if each.count}


def run(reactor: Scheduler) -> None:
    """Run until what is ready, and what that makes ready, has run."""
    while reactor.counters().ready or len(reactor._microtasks) or len(reactor._inbox):
        reactor.tick()


# What is measured


def test_every_callback_is_timed_by_its_source(reactor: Scheduler, backend: ScriptedBackend) -> None:
    meter = reactor.meter(window=0)
    reactor.call_soon_threadsafe(int)  # posted before the first window: how long it waited is not known
    reactor.tick()
    reactor.call_soon(int)
    reactor.call_immediate(int)
    reactor.next_tick(int)
    reactor.queue_microtask(int)
    reactor.call_later(0, int)
    thread = threading.Thread(target=reactor.call_soon_threadsafe, args=(int,))
    thread.start()
    thread.join()
    reactor.tick()
    measured = meter.snapshot()
    expected = {"soon": 1, "threadsafe": 2, "timer": 1, "immediate": 1, "next_tick": 1, "microtask": 1}
    assert counts(measured.run_time) == expected
    assert counts(measured.queue_time) == {**expected, "threadsafe": 1}
    assert set(measured.run_time) == set(measured.queue_time) == set(SOURCES)


async def spin(loop: loopcore.EventLoop, rounds: int) -> None:
    future = loop.create_future()

    def again(left: int) -> None:
        if left:
            loop.call_soon(again, left - 1)
        else:
            future.set_result(None)

    again(rounds)
    await future


def test_tasks_and_readers_have_a_source_of_their_own() -> None:
    loop = loopcore.new_event_loop()
    near, far = socket.socketpair()
    try:
        meter = loop.meter(window=0)
        loop.add_reader(near, loop.stop)
        loop.run_until_complete(spin(loop, 3))
        far.send(b"x")
        loop.run_forever()
        ran = counts(meter.snapshot().run_time)
    finally:
        loop.close()
        near.close()
        far.close()
    assert ran["io"] == 1
    assert ran["task"] >= 1


def test_cancelled_callbacks_are_not_timed(reactor: Scheduler) -> None:
    meter = reactor.meter(window=0)
    reactor.call_soon(int)
    reactor.call_soon(int).cancel()
    reactor.tick()
    assert counts(meter.snapshot().run_time) == {"soon": 1}


def test_waits_are_idle_time_and_the_rest_is_active(monkeypatch: pytest.MonkeyPatch) -> None:
    now = scripted_clock(monkeypatch)
    sampler = CallbackSampler(Unmeasured())
    sampler.resume()
    now[0] += 3 * SECOND
    sampler.tell(WAIT_BEGINS, None, 1)
    now[0] += 5 * SECOND
    sampler.tell(WAIT_ENDS, None, 0)
    now[0] += 1 * SECOND
    sampler.tell(WAIT_BEGINS, None, 0)
    now[0] += 2 * SECOND
    sampler.tell(WAIT_ENDS, None, 0)
    measured = sampler.snapshot()
    assert (measured.idle_ns, measured.active_ns) == (5 * SECOND, 6 * SECOND)
    assert (measured.tick.count, measured.tick.sum_ns) == (2, 6 * SECOND)  # a wait that cannot block is work
    assert measured.utilization == 6 / 11


def test_a_wait_in_progress_counts_as_far_as_it_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    now = scripted_clock(monkeypatch)
    sampler = CallbackSampler(Unmeasured())
    sampler.resume()
    sampler.tell(WAIT_BEGINS, None, 1)
    now[0] += 4 * SECOND
    assert sampler.snapshot().idle_ns == 4 * SECOND
    now[0] += 4 * SECOND
    sampler.tell(WAIT_ENDS, None, 0)
    assert sampler.snapshot().idle_ns == 8 * SECOND


def test_between_two_runs_time_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    now = scripted_clock(monkeypatch)
    sampler = CallbackSampler(Unmeasured())
    sampler.resume()
    now[0] += SECOND
    sampler.pause()
    now[0] += 100 * SECOND
    sampler.resume()
    now[0] += SECOND
    measured = sampler.snapshot()
    assert (measured.idle_ns, measured.active_ns) == (0, 2 * SECOND)


def test_the_last_tick_of_a_run_is_measured_as_the_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    now = scripted_clock(monkeypatch)
    sampler = CallbackSampler(Unmeasured())
    sampler.resume()
    sampler.tell(WAIT_BEGINS, None, 1)
    now[0] += 2 * SECOND
    sampler.tell(WAIT_ENDS, None, 0)
    now[0] += 5 * SECOND
    sampler.pause()
    measured = sampler.snapshot()
    assert (measured.tick.max_ns, measured.tick.sum_ns) == (5 * SECOND, measured.active_ns)


def scripted_clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A clock for the interpreted meter; the compiled one reads the system's in C."""
    if not hasattr(meter_module, "monotonic_ns"):
        pytest.skip("sets the clock of the interpreted meter; compiled it reads the system's")
    now = [1000 * SECOND]
    monkeypatch.setattr(meter_module, "monotonic_ns", lambda: now[0])
    return now


def test_timers_are_late_by_the_loops_clock(reactor: Scheduler, backend: ScriptedBackend) -> None:
    assert backend.clock is not None
    meter = reactor.meter()
    reactor.call_later(1.0, int)
    backend.clock.at += 3.0
    reactor.tick()
    late = meter.snapshot().lateness
    assert late.count == 1
    assert late.max_ns == pytest.approx(2 * SECOND)


@pytest.mark.parametrize("when", [float("-inf"), -1e300])
def test_a_timer_may_be_late_by_any_time(reactor: Scheduler, when: float) -> None:
    meter = reactor.meter()
    ran: list[float] = []
    reactor.call_at(when, ran.append, when)
    reactor.tick()
    assert ran == [when]
    assert meter.snapshot().lateness.count == 1


def test_slow_callbacks_that_are_timed_are_told_without_debug_mode(reactor: Scheduler) -> None:
    seen: list[tuple[Any, float]] = []

    class Plugin:
        @hookimpl
        def loopcore_slow_callback(self, runnable: Any, seconds: float) -> None:
            seen.append((runnable, seconds))

    reactor.probes.register(Plugin())
    reactor.slow_callback_duration = 0.0
    handle = reactor.call_soon(int)
    meter = reactor.meter(window=0)
    reactor.tick()
    assert [runnable for runnable, _ in seen] == [handle]
    meter.stop()
    reactor.call_soon(int)
    reactor.tick()
    assert len(seen) == 1


# Windows


def test_a_window_times_a_bounded_number_of_callbacks(reactor: Scheduler) -> None:
    meter = reactor.meter(window=1000.0)
    for _ in range(10 * WINDOW_RUNS):
        reactor.call_soon(reactor.call_soon, int)
    run(reactor)
    measured = meter.snapshot()
    assert WINDOW_RUNS <= measured.run_time["soon"].count <= 2 * WINDOW_RUNS
    assert 0 < measured.queue_time["soon"].count <= WINDOW_RUNS


def test_a_window_times_no_more_of_what_other_threads_have_posted_before_it(reactor: Scheduler) -> None:
    meter = reactor.meter(window=1000.0)
    for _ in range(10 * WINDOW_RUNS):
        reactor.call_soon_threadsafe(int)
    run(reactor)
    assert counts(meter.snapshot().run_time) == {"threadsafe": WINDOW_RUNS}


def test_a_callback_that_ticks_the_loop_leaves_the_rest_of_its_tick_timed(
    reactor: Scheduler, backend: ScriptedBackend
) -> None:
    meter = reactor.meter(window=0)
    backend.wake()  # ends the wait of the tick inside, which finds nothing to do
    for callback in (reactor.tick, int, int):
        reactor.call_immediate(callback)
    reactor.tick()
    assert counts(meter.snapshot().run_time) == {"immediate": 3}


def test_a_phase_callback_that_was_cancelled_is_not_kept_by_a_window_without_end(reactor: Scheduler) -> None:
    with reactor.meter(window=0) as meter:
        reactor.call_soon(int)
        reactor.tick()
        handle = reactor.add_phase_callback("check", int)
        dropped = weakref.ref(handle)
        handle.cancel()
        del handle
        reactor.call_soon(int)
        reactor.tick()
        gc.collect()
        assert dropped() is None
        reactor.add_phase_callback("check", int)
        reactor.call_soon(int)
        reactor.tick()
        assert counts(meter.snapshot().run_time) == {"soon": 3, "phase": 1}


def test_after_a_window_nothing_is_timed_until_the_next(reactor: Scheduler) -> None:
    meter = reactor.meter(window=1000.0)
    reactor.call_soon(int)
    run(reactor)
    for _ in range(10):
        reactor.call_soon(int)
        run(reactor)
    assert meter.snapshot().run_time["soon"].count == 1


def test_what_is_scheduled_in_a_window_is_timed_in_the_tick_in_which_it_runs(reactor: Scheduler) -> None:
    meter = reactor.meter(window=1000.0)
    reactor.call_soon(reactor.call_soon, int)
    run(reactor)
    measured = meter.snapshot()
    assert measured.run_time["soon"].count == 2
    assert measured.queue_time["soon"].count == 1


# Users


def test_users_share_what_is_measured_and_the_shortest_window(reactor: Scheduler) -> None:
    first = reactor.meter(window=1000.0)
    second = reactor.meter(window=0)
    for _ in range(5):
        reactor.call_soon(int)
        run(reactor)
    second.stop()
    seen = first.snapshot().run_time["soon"].count
    for _ in range(5):
        reactor.call_soon(int)
        run(reactor)
    assert seen == 5
    assert first.snapshot().run_time["soon"].count <= seen + 4


def test_the_last_that_stops_ends_it_and_keeps_the_figures(reactor: Scheduler) -> None:
    with reactor.meter(window=0) as meter:
        reactor.call_soon(int)
        reactor.tick()
    reactor.call_soon(int)
    reactor.tick()
    meter.stop()
    assert meter.snapshot().run_time["soon"].count == 1
    assert reactor.meter().snapshot().run_time["soon"].count == 0  # measured anew


def test_a_meter_can_be_stopped_by_a_callback_that_it_times(reactor: Scheduler) -> None:
    log: list[str] = []
    meter = reactor.meter(window=0)
    reactor.call_soon(meter.stop)
    reactor.call_soon(log.append, "next")
    reactor.tick()
    assert log == ["next"]


def test_a_meter_can_be_stopped_within_the_wait(reactor: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    # As by the handler of a signal that takes the plugin out.
    meter = reactor.meter()
    monkeypatch.setattr(reactor.backend, "wait", lambda timeout: meter.stop() or ())
    reactor.call_soon(int)
    reactor.tick()
    assert meter.snapshot() == meter.snapshot()


def test_a_meter_can_be_made_by_a_callback(reactor: Scheduler) -> None:
    made: list[Any] = []
    reactor.call_soon(lambda: made.append(reactor.meter(window=0)))
    reactor.call_soon(reactor.call_soon, int)
    run(reactor)
    reactor.call_soon(int)
    run(reactor)
    assert made[0].snapshot().run_time["soon"].count >= 1


def test_closing_the_loop_ends_the_measuring(reactor: Scheduler) -> None:
    meter = reactor.meter(window=0)
    reactor.call_soon(int)
    reactor.tick()
    reactor._close_scheduler()
    before = meter.snapshot()
    meter.stop()
    assert meter.snapshot() == before
    with pytest.raises(RuntimeError, match="closed"):
        reactor.meter()


@pytest.mark.parametrize("window", [-1.0, float("inf"), float("nan")])
def test_a_window_is_a_number_of_seconds(reactor: Scheduler, window: float) -> None:
    with pytest.raises(UsageError, match="window"):
        reactor.meter(window=window)
    assert reactor.meter().snapshot().window == 0.001


def test_only_a_window_of_zero_has_no_end(reactor: Scheduler) -> None:
    assert [reactor.meter(window).snapshot().window for window in (1e300, 1e-300, 0.0)] == [1e9, 1e-9, 0.0]


def test_snapshots_of_another_thread_never_go_back() -> None:
    loop = loopcore.new_event_loop()
    meter = loop.meter(window=0)
    snapshots: list[Measurements] = []
    counters: list[loopcore.LoopStatsSnapshot] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            snapshots.append(meter.snapshot())
            counters.append(loop.counters())

    async def work() -> None:
        for _ in range(200):
            await spin(loop, 20)
            await loop.run_in_executor(None, int)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        loop.run_until_complete(work())
    finally:
        done.set()
        thread.join()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
    for earlier, later in pairwise(snapshots):
        assert later.idle_ns >= earlier.idle_ns
        assert later.active_ns >= earlier.active_ns
        for source in SOURCES:
            assert min(later.run_time[source].since(earlier.run_time[source]).buckets) >= 0
    for before, after in pairwise(counters):
        assert all(now >= then for now, then in zip(after[:-3], before[:-3], strict=True))
        assert after.tasks_live >= 0
