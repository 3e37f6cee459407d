"""The phases of a tick beyond asyncio's: idle, prepare, check, immediates, the urgent queues, close."""

import logging
from typing import Any

import pytest

import loopcore
from loopcore.kernel.handle import Handle
from loopcore.kernel.limits import FLUSH_LIMIT
from loopcore.kernel.runnable import Runnable
from loopcore.kernel.scheduler import Scheduler
from loopcore.ports.interest import READ
from loopcore.testing import ScriptedBackend, VirtualClock


class Step(Runnable):
    def __init__(self, log: list[Any], name: str) -> None:
        self.log, self.name = log, name

    def _run(self) -> None:
        self.log.append(self.name)

    def close(self) -> None:
        self.log.append(self.name)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def backend(clock: VirtualClock) -> ScriptedBackend:
    return ScriptedBackend(clock)


@pytest.fixture
def reactor(backend: ScriptedBackend, clock: VirtualClock) -> Scheduler:
    made = Scheduler(backend, clock=clock)
    made.poll_skip_ticks = 0
    return made


@pytest.fixture
def log() -> list[Any]:
    return []


def watch(reactor: Scheduler, fd: int, callback: Any, *args: Any) -> None:
    reactor._readiness.set_reader(fd, Handle(callback, args, reactor))


def test_the_eight_phases_in_order(reactor: Scheduler, backend: ScriptedBackend, log: list[Any]) -> None:
    reactor._close_soon(Step(log, "close"))
    reactor._flush_this_tick(Step(log, "flush"))
    reactor.call_later(0, log.append, "timers")
    for phase in ("check", "prepare", "idle"):
        reactor.add_phase_callback(phase, log.append, phase)
    reactor.call_immediate(log.append, "immediate")
    watch(reactor, 5, log.append, "io")
    reactor.call_soon(log.append, "pending")
    backend.script.append([(5, READ)])
    reactor.tick()
    assert log == ["idle", "prepare", "pending", "io", "immediate", "check", "timers", "flush", "close"]


@pytest.mark.parametrize("phase", ["idle", "prepare"])
@pytest.mark.parametrize("timers", [0, 1])
def test_what_is_scheduled_before_the_poll_runs_after_a_poll_that_does_not_block(
    reactor: Scheduler, backend: ScriptedBackend, log: list[Any], phase: str, timers: int
) -> None:
    reactor.add_phase_callback(phase, reactor.call_soon, log.append, "soon", once=True)
    for _ in range(timers):
        reactor.call_later(10.0, int)
    reactor.tick()
    assert log == ["soon"]
    assert backend.timeouts == [0.0]


def test_idle_callback_that_runs_once_and_comes_in_the_idle_phase_has_its_turn_in_the_next_tick(
    reactor: Scheduler, log: list[Any]
) -> None:
    reactor.add_phase_callback(
        "idle", lambda: reactor.add_phase_callback("idle", log.append, "once", once=True), once=True
    )
    reactor.tick()
    reactor.call_soon(int)  # or else it would wait for ever, after the idle phase
    reactor.tick()
    assert log == ["once"]


def test_phase_callbacks_run_in_every_tick_until_they_are_cancelled(reactor: Scheduler, log: list[Any]) -> None:
    first = reactor.add_phase_callback("check", log.append, "first")
    second = reactor.add_phase_callback("check", log.append, "second")
    reactor.add_phase_callback("idle", log.append, "idle").cancel()
    reactor.call_soon(log.append, "soon")
    reactor.tick()
    first.cancel()
    reactor.call_soon(log.append, "soon")
    reactor.tick()
    second.cancel()
    reactor.call_soon(log.append, "soon")
    reactor.tick()
    assert log == ["soon", "first", "second", "soon", "second", "soon"]


def test_only_an_idle_callback_keeps_the_poll_from_blocking(
    reactor: Scheduler, backend: ScriptedBackend, log: list[Any]
) -> None:
    reactor.add_phase_callback("prepare", log.append, "prepare")
    reactor.add_phase_callback("check", log.append, "check")
    reactor.call_later(7, log.append, "timer")
    reactor.tick()
    idle = reactor.add_phase_callback("idle", log.append, "idle")
    reactor.call_later(3, log.append, "timer")
    reactor.tick()
    idle.cancel()
    reactor.tick()
    assert [round(timeout or 0, 6) for timeout in backend.timeouts] == [7, 0, 3]


def test_other_phases_take_no_callbacks(reactor: Scheduler) -> None:
    with pytest.raises(ValueError, match="idle, prepare, check, not to 'poll'"):
        reactor.add_phase_callback("poll", print)


@pytest.mark.reports_errors
def test_a_phase_callback_that_raises_is_reported_and_called_again(
    reactor: Scheduler, log: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        log.append("failed")
        raise ValueError

    reactor.add_phase_callback("idle", fail)
    reactor.tick()
    reactor.tick()
    assert log == ["failed", "failed"]
    assert len(caplog.records) == 2


def test_an_immediate_set_in_an_io_callback_precedes_a_timer_without_delay(
    reactor: Scheduler, backend: ScriptedBackend, log: list[Any]
) -> None:
    def read() -> None:
        reactor.call_later(0, log.append, "timer")
        reactor.call_immediate(log.append, "immediate")
        log.append("io")

    watch(reactor, 5, read)
    backend.script.append([(5, READ)])
    reactor.tick()
    reactor.tick()
    assert log == ["io", "immediate", "timer"]


def test_immediates_set_in_the_check_phase_or_later_belong_to_the_next_tick(reactor: Scheduler, log: list[Any]) -> None:
    def immediate() -> None:
        log.append("first")
        reactor.call_immediate(log.append, "set in check")

    reactor.call_immediate(immediate)
    reactor.call_later(0, reactor.call_immediate, log.append, "set in timers")
    reactor.tick()
    assert log == ["first"]
    reactor.tick()
    assert log == ["first", "set in check", "set in timers"]


def test_an_immediate_can_be_cancelled_by_one_before_it(reactor: Scheduler, log: list[Any]) -> None:
    handles: list[Handle] = []
    reactor.call_immediate(lambda: handles[0].cancel())
    handles.append(reactor.call_immediate(log.append, "cancelled"))
    reactor.tick()
    assert log == []


def test_next_ticks_then_microtasks_then_the_next_callback(reactor: Scheduler, log: list[Any]) -> None:
    def first() -> None:
        reactor.call_soon(log.append, "next tick of the loop")
        reactor.queue_microtask(reactor.next_tick, log.append, "next-tick from a microtask")
        reactor.queue_microtask(log.append, "microtask")
        reactor.next_tick(reactor.queue_microtask, log.append, "microtask from a next-tick")
        reactor.next_tick(log.append, "next-tick")

    reactor.call_soon(first)
    reactor.call_soon(log.append, "second")
    reactor.tick()
    assert log == ["next-tick", "microtask", "microtask from a next-tick", "next-tick from a microtask", "second"]


@pytest.mark.parametrize("phase", ["io", "immediate", "timer", "idle", "check"])
def test_the_urgent_queues_are_emptied_after_callbacks_of_every_phase(
    reactor: Scheduler, backend: ScriptedBackend, log: list[Any], phase: str
) -> None:
    def schedule(callback: Any, *args: Any) -> None:
        if phase == "io":
            fd = 5 + len(reactor._readiness.watched())
            watch(reactor, fd, callback, *args)
            backend.script = type(backend.script)([[(fd, READ) for fd in reactor._readiness.watched()]])
        elif phase == "immediate":
            reactor.call_immediate(callback, *args)
        elif phase == "timer":
            reactor.call_later(0, callback, *args)
        else:
            reactor.call_soon(int)  # something to wake up for
            reactor.add_phase_callback(phase, callback, *args)

    schedule(reactor.next_tick, log.append, "urgent")
    schedule(log.append, "second")
    reactor.tick()
    assert log == ["urgent", "second"]


def test_urgent_callbacks_set_outside_a_run_go_first_and_keep_the_poll_from_blocking(
    reactor: Scheduler, backend: ScriptedBackend, log: list[Any]
) -> None:
    reactor.call_soon(log.append, "soon")
    reactor.next_tick(log.append, "urgent")
    reactor.tick()
    reactor.queue_microtask(log.append, "alone")
    reactor.tick()
    assert log == ["urgent", "soon", "alone"]
    assert backend.timeouts == [0.0, 0.0]


def test_a_budget_that_runs_out_is_reported_once_and_io_and_timers_still_run(
    reactor: Scheduler, backend: ScriptedBackend, log: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    told: list[int] = []

    class Plugin:
        @loopcore.hookimpl
        def loopcore_starvation(self, loop: Any, left: int) -> None:
            assert loop is reactor
            told.append(left)

    reactor.probes.register(Plugin())
    reactor._microtasks.budget = 10
    count = [0]

    def again() -> None:
        count[0] += 1
        reactor.next_tick(again)

    reactor.call_soon(again)
    reactor.tick()
    assert count == [11]
    watch(reactor, 5, log.append, "io")
    reactor.call_later(0, log.append, "timer")
    backend.script.append([(5, READ)])
    reactor.tick()
    assert log == ["io", "timer"]
    assert reactor.counters().starvations == len(told) == 4  # after `again`, pending, io and timers
    assert set(told) == {1}
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "10 callbacks in a row" in caplog.text


def test_flushes_and_closes_set_meanwhile_wait_for_the_next_tick_and_keep_nothing_waiting(
    reactor: Scheduler, backend: ScriptedBackend, log: list[Any]
) -> None:
    class Again(Step):
        def _run(self) -> None:
            super()._run()
            reactor._flush_this_tick(Step(log, "second flush"))

        def close(self) -> None:
            super().close()
            reactor._close_soon(Step(log, "second close"))

    reactor._flush_this_tick(Again(log, "flush"))
    reactor._close_soon(Again(log, "close"))
    reactor.tick()
    assert log == ["flush", "close"]
    reactor.tick()
    assert log == ["flush", "close", "second flush", "second close"]
    assert backend.timeouts == [0.0, 0.0]


@pytest.mark.parametrize("limit", [FLUSH_LIMIT, 100])
@pytest.mark.parametrize("phase", ["pending", "io", "check", "timers"])
def test_what_waits_for_the_end_of_the_tick_leaves_between_two_callbacks_when_it_is_much(
    reactor: Scheduler, backend: ScriptedBackend, log: list[Any], phase: str, limit: int
) -> None:
    reactor.flush_limit = limit

    def write(size: int) -> None:
        log.append(size)
        reactor._unflushed += size
        reactor._flush_this_tick(Step(log, "flush"))

    for number, size in enumerate([limit, 1, 2], 5):
        if phase == "pending":
            reactor.call_soon(write, size)
        elif phase == "check":
            reactor.call_immediate(write, size)
        elif phase == "timers":
            reactor.call_later(0, write, size)
        else:
            watch(reactor, number, write, size)
    backend.script.append([(5, READ), (6, READ), (7, READ)] if phase == "io" else [])
    reactor.tick()
    assert log == [limit, 1, "flush", "flush", 2, "flush"]
    assert reactor._unflushed == 0


@pytest.mark.reports_errors
def test_a_close_that_fails_is_reported_and_the_others_are_closed(
    reactor: Scheduler, log: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def close(self) -> None:
            raise OSError("broken")

    reactor._close_soon(Broken())
    reactor._close_soon(Step(log, "closed"))
    reactor.tick()
    assert log == ["closed"]
    assert "Broken" in caplog.text


def test_closing_the_loop_closes_what_was_given_up_and_drops_the_rest(
    reactor: Scheduler, backend: ScriptedBackend, log: list[Any]
) -> None:
    reactor._close_soon(Step(log, "closed"))
    for schedule in (reactor.call_soon, reactor.call_immediate, reactor.next_tick, reactor.call_soon_threadsafe):
        schedule(log.append, "never")
    reactor.call_later(1, log.append, "never")
    reactor._close_scheduler()
    reactor._close_scheduler()
    assert log == ["closed"]
    assert backend.is_closed
    assert reactor.is_closed()
    assert (len(reactor._ready), len(reactor._timers), len(reactor._microtasks), len(reactor._inbox)) == (0, 0, 0, 0)


def test_a_phase_callback_may_run_once(reactor: Scheduler, log: list[Any]) -> None:
    reactor.add_phase_callback("check", log.append, "often")
    reactor.add_phase_callback("check", log.append, "once", once=True)
    reactor.add_phase_callback("prepare", log.append, "never", once=True).cancel()

    def again() -> None:
        log.append("again")
        if log.count("again") < 3:
            reactor.add_phase_callback("idle", again, once=True)

    again()
    for _ in range(4):
        reactor.call_soon(log.append, "soon")
        reactor.tick()
    expected = ["again", "again", "soon", "often", "once", "again", "soon", "often", "soon", "often", "soon", "often"]
    assert log == expected


@pytest.mark.loopcore_only
def test_a_phase_callback_must_be_callable(loop: Any) -> None:
    with pytest.raises(TypeError, match="callable"):
        loop.add_phase_callback("check", 5)


def test_callbacks_that_run_once_wait_for_the_next_tick_if_an_earlier_one_ends_the_run(reactor: Scheduler) -> None:
    log: list[Any] = []

    def end() -> None:
        log.append("ended")
        raise SystemExit

    reactor.add_phase_callback("check", log.append, "every time")
    reactor.add_phase_callback("check", end, once=True)
    reactor.add_phase_callback("check", log.append, "once", once=True)
    reactor.add_phase_callback("check", log.append, "every time, too")
    reactor.call_soon(int)  # so that no tick waits
    with pytest.raises(SystemExit):
        reactor.tick()
    for _ in range(2):
        reactor.call_soon(int)
        reactor.tick()
    every = ["every time", "every time, too"]
    assert log == ["every time", "ended", "once", *every, *every]
