"""Metrics of the loop, its callbacks, timers and tasks: each is moved by a program, by an amount that is known."""

import asyncio
import gc
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import loopcore
from loopcore_plugins.metrics import record
from tests.plugins.metrics.reading import SECONDS, Counting, Reader, nothing, proves
from tests.transports.recorder import run

pytestmark = pytest.mark.loopcore_only


@pytest.fixture
def reader(loop: Any) -> Reader:
    return Reader(loop)


@pytest.fixture
def full(loop: Any) -> Reader:
    return Reader(loop, full=True)


# The loop


async def block() -> None:
    time.sleep(SECONDS)
    await asyncio.sleep(0.001)  # so that another wait comes, and ends the tick


@proves("loopcore.eventloop.time")
def test_time_that_a_callback_takes_is_active(reader: Reader) -> None:
    assert reader.moved("loopcore.eventloop.time", block())["active"] >= SECONDS


@proves("loopcore.eventloop.time")
def test_time_in_a_wait_is_idle(loop: Any, reader: Reader) -> None:
    def wake_later(waiter: asyncio.Future[None]) -> None:
        while not loop.is_waiting():
            time.sleep(0)
        time.sleep(SECONDS)
        loop.call_soon_threadsafe(waiter.set_result, None)

    async def wait() -> None:
        waiter = loop.create_future()
        thread = threading.Thread(target=wake_later, args=(waiter,))
        thread.start()
        await waiter
        thread.join()

    assert reader.moved("loopcore.eventloop.time", wait())["idle"] >= SECONDS


@proves("loopcore.eventloop.utilization")
async def test_utilization_is_that_since_the_last_reading(
    loop: Any, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.sleep(SECONDS)
    first = reader.metrics.snapshot()
    assert first.recent_utilization == first.utilization
    assert 0.0 < first.utilization < 1.0
    time.sleep(SECONDS)
    soon = reader.read("loopcore.eventloop.utilization")
    monkeypatch.setattr(record, "RECENT", 0.0)
    assert (soon - first.utilization, reader.read("loopcore.eventloop.utilization")) == (0.0, 1.0)


@proves("loopcore.eventloop.delay")
def test_a_blocked_loop_delays_what_comes_in_that_time(reader: Reader) -> None:
    delay = reader.moved("loopcore.eventloop.delay", block())
    bounds = loopcore.Histogram.bounds()
    longer = sum(count for count, bound in zip(delay.buckets, bounds, strict=True) if bound > SECONDS / 2 * 1e9)
    assert longer >= SECONDS / 2 * 1e6 * 15 / 16
    assert delay.max_ns >= SECONDS * 1e9


@proves("loopcore.eventloop.tick.duration")
def test_a_tick_lasts_as_long_as_its_callbacks_and_every_wait_ends_one(reader: Reader) -> None:
    before = reader.metrics.snapshot()
    duration = reader.moved("loopcore.eventloop.tick.duration", block())
    assert duration.sum_ns >= SECONDS * 1e9
    # The end of the run ends one, too.
    assert duration.count == reader.read("loopcore.eventloop.polls") - before.counters.polls + 1


@proves("loopcore.eventloop.ticks", "loopcore.eventloop.polls", "loopcore.eventloop.poll.events")
def test_ticks_polls_and_events_are_as_many_as_hooks_tell(loop: Any, reader: Reader) -> None:
    counting = Counting()
    loop.probes.register(counting)

    async def main() -> None:
        near, far = socket.socketpair()
        with near, far:
            near.setblocking(False)
            for _ in range(5):
                loop.call_later(0, far.send, b"x")
                await loop.sock_recv(near, 1)

    before = reader.metrics.snapshot()
    run(loop, main())
    moved = reader.metrics.snapshot().since(before)
    assert counting.events >= 5
    for name, told in (("ticks", counting.ticks), ("polls", counting.polls), ("poll.events", counting.events)):
        assert reader.read(f"loopcore.eventloop.{name}", moved) == told


@proves("loopcore.eventloop.starvations")
def test_a_starvation_is_counted(loop: Any, reader: Reader) -> None:
    loop._microtasks.budget = 1

    async def main() -> None:
        loop.next_tick(loop.next_tick, int)

    assert reader.moved("loopcore.eventloop.starvations", main()) == 1


@proves("loopcore.budget.forced_yields")
def test_a_budget_that_puts_off_callbacks_is_counted(loop: Any, reader: Reader) -> None:
    class Budget:
        callbacks, seconds = 1, None

        @loopcore.hookimpl
        def loopcore_make_tick_budget(self) -> Any:
            return self

    async def main() -> None:
        for _ in range(4):
            loop.call_soon(int)
        await asyncio.sleep(0)

    loop.probes.register(Budget())
    assert reader.moved("loopcore.budget.forced_yields", main()) == 4  # the last of the five is not put off


@proves("loopcore.threadsafe.posts", "loopcore.threadsafe.wakeups")
def test_posts_of_other_threads_are_counted_and_share_a_wake(loop: Any, reader: Reader) -> None:
    async def main() -> None:
        for _ in range(3):  # all in one callback, so that the loop cannot take the first before the last comes
            _in_thread(loop.call_soon_threadsafe, int)

    before = reader.metrics.snapshot()
    assert reader.moved("loopcore.threadsafe.posts", main()) == 3
    assert reader.read("loopcore.threadsafe.wakeups") - before.counters.threadsafe_wakes == 1


def _in_thread(function: Callable[..., object], *args: Any) -> None:
    thread = threading.Thread(target=function, args=args)
    thread.start()
    thread.join()


# Callbacks, timers


async def call(schedule: Callable[..., object], count: int, function: Callable[..., object] = int) -> None:
    for _ in range(count):
        schedule(function)
    await asyncio.sleep(0.001)


@proves("loopcore.callbacks")
def test_callbacks_are_counted(loop: Any, reader: Reader) -> None:
    without = reader.moved("loopcore.callbacks", call(loop.call_soon, 0))
    assert reader.moved("loopcore.callbacks", call(loop.call_soon, 7)) == without + 7


@proves("loopcore.callback.queue_time", "loopcore.callback.duration")
@pytest.mark.parametrize("source", ["soon", "threadsafe", "immediate", "next_tick", "microtask"])
def test_callbacks_are_measured_by_source(loop: Any, full: Reader, source: str) -> None:
    schedule = {
        "soon": loop.call_soon,
        "threadsafe": lambda function: _in_thread(loop.call_soon_threadsafe, function),
        "immediate": loop.call_immediate,
        "next_tick": loop.next_tick,
        "microtask": loop.queue_microtask,
    }[source]
    for metric in ("queue_time", "duration"):
        name = f"loopcore.callback.{metric}"
        without = full.moved(name, call(schedule, 0)).get(source)
        assert full.moved(name, call(schedule, 7))[source].count == 7 + (without.count if without else 0)


@proves("loopcore.callback.duration")
def test_a_callback_is_measured_for_as_long_as_it_runs(loop: Any, full: Reader) -> None:
    durations = full.moved("loopcore.callback.duration", call(loop.call_soon, 1, lambda: time.sleep(SECONDS)))
    assert durations["soon"].max_ns >= SECONDS * 1e9


@proves("loopcore.callback.queue_time")
def test_a_callback_waits_for_those_before_it(loop: Any, full: Reader) -> None:
    waits = full.moved("loopcore.callback.queue_time", call(loop.call_soon, 2, lambda: time.sleep(SECONDS)))
    assert waits["soon"].max_ns >= SECONDS * 1e9


@proves("loopcore.callback.slow")
def test_slow_callbacks_are_counted(loop: Any, full: Reader) -> None:
    counting = Counting()
    loop.probes.register(counting)
    loop.slow_callback_duration = SECONDS
    slow = full.moved("loopcore.callback.slow", call(loop.call_soon, 3, lambda: time.sleep(SECONDS)))
    assert slow == counting.slow
    assert slow >= 3


@proves("loopcore.ready.length", "loopcore.timers.length", "loopcore.timers.cancelled")
def test_lengths_of_queues_are_those_of_now(loop: Any, reader: Reader) -> None:
    async def main() -> list[Any]:
        for _ in range(3):
            loop.call_soon(int)
        timers = [loop.call_later(100, int) for _ in range(5)]
        loop._timers.next_deadline()  # one that is cancelled before the loop has looked at it leaves at once
        timers[0].cancel()
        read = [reader.read(f"loopcore.{name}") for name in ("ready.length", "timers.length", "timers.cancelled")]
        for timer in timers:
            timer.cancel()
        return read

    assert loop.run_until_complete(main()) == [3, 5, 1]


@proves("loopcore.timers.fired", "loopcore.timer.lateness")
def test_timers_that_fire_are_counted_and_measured(loop: Any, reader: Reader) -> None:
    async def main() -> None:
        for _ in range(6):
            loop.call_later(0, int)
        loop.call_later(0, int).cancel()
        await asyncio.sleep(0.001)

    before = reader.metrics.snapshot()
    assert reader.moved("loopcore.timers.fired", main()) == 7
    assert reader.read("loopcore.timer.lateness", reader.metrics.snapshot().since(before)).count == 7


# Tasks


@proves("loopcore.tasks.live", "loopcore.tasks.created", "loopcore.tasks.finished", "loopcore.task.steps")
@pytest.mark.reports_errors
def test_tasks_are_counted_by_how_they_end(loop: Any, reader: Reader) -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    async def step() -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    async def main() -> int:
        tasks = [loop.create_task(each()) for each in (nothing, nothing, step, fail, asyncio.Event().wait)]
        lost = loop.create_task(_await(loop.create_future()))
        await asyncio.sleep(0)
        live: int = reader.read("loopcore.tasks.live")
        del lost
        gc.collect()
        tasks[-1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return live

    before = reader.metrics.snapshot()
    live = loop.run_until_complete(main())
    moved = reader.metrics.snapshot().since(before)
    assert live == 4  # this one, and those that wait or have steps before them
    assert reader.read("loopcore.tasks.created", moved) == 7
    assert reader.read("loopcore.tasks.live", moved) == 0
    ended = {"finished": 4, "failed": 1, "cancelled": 1, "destroyed": 1}
    assert reader.read("loopcore.tasks.finished", moved) == ended
    assert reader.moved("loopcore.task.steps", step()) == 4


async def _await(future: asyncio.Future[None]) -> None:
    await future
