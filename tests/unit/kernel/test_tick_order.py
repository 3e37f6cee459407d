"""The order of a tick: the same program on every backend and on asyncio, which must log the same."""

import asyncio
import contextvars
import gc
import platform
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from loopcore.kernel.timers import SORT_FROM

Loop = asyncio.AbstractEventLoop
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def log() -> list[Any]:
    return []


def run_ticks(loop: Loop, count: int) -> None:
    """Run `count` ticks, each as a run of its own, so that each polls."""
    for _ in range(count):
        loop.stop()
        loop.run_forever()


@pytest.mark.covers("EventLoop.call_soon(args)")
def test_callbacks_run_in_the_order_they_were_scheduled(loop: Loop, log: list[Any]) -> None:
    for number in range(200):
        loop.call_soon(log.append, number)
    run_ticks(loop, 1)
    assert log == list(range(200))


def test_callbacks_scheduled_by_callbacks_run_in_the_next_tick(loop: Loop, log: list[Any]) -> None:
    def first() -> None:
        log.append("first")
        loop.call_soon(log.append, "child")

    loop.call_soon(first)
    loop.call_soon(log.append, "second")
    run_ticks(loop, 1)
    assert log == ["first", "second"]
    run_ticks(loop, 1)
    assert log == ["first", "second", "child"]


def test_a_timer_without_delay_runs_after_what_is_ready(loop: Loop, log: list[Any]) -> None:
    loop.call_later(0, log.append, "timer")
    loop.call_soon(log.append, "soon")
    run_ticks(loop, 1)
    assert log == ["soon", "timer"]


def test_timers_without_delay_keep_asyncios_order_in_ticks_that_leave_out_the_poll(loop: Loop, log: list[Any]) -> None:
    def again(left: int) -> None:
        log.append(f"soon {left}")
        loop.call_later(0, log.append, f"timer {left}")
        if left:
            loop.call_soon(again, left - 1)
        else:
            loop.call_later(0, loop.stop)

    loop.call_soon(again, 5)
    loop.run_forever()
    expected = ["soon 5"]
    for left in range(5, 0, -1):
        expected += [f"soon {left - 1}", f"timer {left}"]
    assert log == [*expected, "timer 0"]


@pytest.mark.covers("EventLoop.call_at(args)")
def test_deadlines_decide_not_the_order_of_calls(loop: Loop, log: list[Any]) -> None:
    now = loop.time()
    for delay in (0.003, 0.001, 0.002):
        loop.call_at(now + delay, log.append, delay)
    loop.call_at(now + 0.004, loop.stop)
    loop.run_forever()
    assert log == [0.001, 0.002, 0.003]


@pytest.mark.differs(
    "EventLoop.call_at",
    why="Timers with equal deadlines fire in the order in which they were set; asyncio does not guarantee an order.",
)
@pytest.mark.loopcore_only
@pytest.mark.parametrize("count", [50, SORT_FROM - 1, SORT_FROM, 4 * SORT_FROM])
def test_equal_deadlines_fire_in_the_order_they_were_set(loop: Loop, log: list[Any], count: int) -> None:
    when = loop.time()
    for number in range(count):
        loop.call_at(when, log.append, number)
    run_ticks(loop, 1)
    assert log == list(range(count))


def test_ready_callbacks_then_events_then_timers(loop: Loop, log: list[Any], pair: Pair) -> None:
    """In asyncio an event's callback is queued when the wait returns, behind what is ready and before the timers."""
    left, right = pair
    right.send(b"x")
    loop.add_reader(left, lambda: log.append(("io", left.recv(1))))
    loop.call_later(0, log.append, "timer")
    loop.call_soon(log.append, "soon")
    run_ticks(loop, 1)
    assert log == ["soon", ("io", b"x"), "timer"]


def test_what_an_event_schedules_follows_the_timers_of_its_tick(loop: Loop, log: list[Any], pair: Pair) -> None:
    def read() -> None:
        pair[0].recv(1)
        log.append("io")
        loop.call_soon(log.append, "soon")

    pair[1].send(b"x")
    loop.add_reader(pair[0], read)
    loop.call_later(0, log.append, "timer")
    run_ticks(loop, 2)
    assert log == ["io", "timer", "soon"]


@pytest.mark.covers("EventLoop.add_writer(args)")
def test_reader_runs_before_writer_of_the_same_descriptor(loop: Loop, log: list[Any], pair: Pair) -> None:
    pair[1].send(b"x")
    loop.add_writer(pair[0], log.append, "writer")
    loop.add_reader(pair[0], log.append, "reader")
    run_ticks(loop, 1)
    assert log == ["reader", "writer"]


def test_a_reader_that_removes_the_writer_keeps_it_from_running(loop: Loop, log: list[Any], pair: Pair) -> None:
    def read() -> None:
        log.append("reader")
        loop.remove_writer(pair[0])

    pair[1].send(b"x")
    loop.add_writer(pair[0], log.append, "writer")
    loop.add_reader(pair[0], read)
    run_ticks(loop, 1)
    assert log == ["reader"]


def test_a_callback_that_removes_a_reader_drops_its_event(loop: Loop, log: list[Any], pair: Pair) -> None:
    pair[1].send(b"x")
    loop.add_reader(pair[0], log.append, "reader")
    loop.call_soon(loop.remove_reader, pair[0])
    run_ticks(loop, 2)
    assert log == []


def test_an_event_is_not_for_the_next_owner_of_its_descriptor_number(loop: Loop, log: list[Any], pair: Pair) -> None:
    left, right = pair
    old = left.fileno()
    right.send(b"x")
    loop.add_reader(old, log.append, "old owner")
    fresh: list[socket.socket] = []

    def replace() -> None:
        loop.remove_reader(old)
        left.close()
        fresh.extend(socket.socketpair())
        assert fresh[0].fileno() == old
        loop.add_reader(old, log.append, "new owner")

    loop.call_soon(replace)
    run_ticks(loop, 2)
    assert log == []
    fresh[1].send(b"y")
    run_ticks(loop, 1)
    assert log == ["new owner"]
    loop.remove_reader(old)
    for sock in fresh:
        sock.close()


@pytest.mark.covers("Handle.cancel", "TimerHandle.cancel")
def test_cancelling_inside_the_batch_keeps_a_callback_and_a_timer_from_running(loop: Loop, log: list[Any]) -> None:
    handles: list[asyncio.Handle] = []

    def cancel() -> None:
        for handle in handles:
            handle.cancel()

    loop.call_soon(cancel)
    handles.append(loop.call_soon(log.append, "callback"))
    handles.append(loop.call_later(0, log.append, "timer"))
    loop.call_soon(log.append, "end")
    run_ticks(loop, 2)
    assert log == ["end"]


def test_a_timer_that_cancels_another_due_timer_keeps_it_from_running(loop: Loop, log: list[Any]) -> None:
    now = loop.time()
    late = loop.call_at(now, log.append, "late")
    loop.call_at(now - 1, late.cancel)
    run_ticks(loop, 2)
    assert log == []


def test_stop_before_the_run_makes_it_one_tick(loop: Loop, log: list[Any]) -> None:
    loop.call_soon(loop.call_soon, log.append, "second tick")
    loop.call_soon(log.append, "first tick")
    run_ticks(loop, 1)
    assert log == ["first tick"]


def test_stop_inside_a_callback_lets_the_tick_finish(loop: Loop, log: list[Any]) -> None:
    loop.call_soon(loop.stop)
    loop.call_soon(log.append, "same tick")
    loop.call_later(0, log.append, "timer of the same tick")
    loop.call_soon(loop.call_soon, log.append, "next tick")
    loop.run_forever()
    assert log == ["same tick", "timer of the same tick"]
    run_ticks(loop, 1)
    assert log[2:] == ["next tick"]


def test_calls_from_the_own_thread_and_call_soon_keep_their_order(loop: Loop, log: list[Any]) -> None:
    def inside() -> None:
        loop.call_soon(log.append, 3)
        loop.call_soon_threadsafe(log.append, 4)
        loop.call_soon(log.append, 5)

    loop.call_soon(log.append, 0)
    loop.call_soon_threadsafe(log.append, 1)
    loop.call_soon(log.append, 2)
    loop.call_soon(inside)
    run_ticks(loop, 2)
    assert log == [0, 1, 2, 3, 4, 5]


def test_a_call_from_another_thread_before_the_run_keeps_its_place(loop: Loop, log: list[Any]) -> None:
    loop.call_soon(log.append, "before")
    thread = threading.Thread(target=loop.call_soon_threadsafe, args=(log.append, "thread"))
    thread.start()
    thread.join()
    loop.call_soon(log.append, "after")
    run_ticks(loop, 1)
    assert log == ["before", "thread", "after"]


@pytest.mark.covers("EventLoop.call_soon_threadsafe(args)")
def test_calls_from_other_threads_end_a_wait_without_limit_and_keep_their_order(loop: Loop, log: list[Any]) -> None:
    def post(number: int) -> None:
        log.append(number)
        if len(log) == 1000:
            loop.stop()

    def work() -> None:
        for number in range(1000):
            loop.call_soon_threadsafe(post, number)

    thread = threading.Thread(target=work)
    loop.call_soon(thread.start)
    loop.run_forever()
    thread.join()
    assert log == list(range(1000))


@pytest.mark.reports_errors
def test_an_exception_in_a_callback_is_reported_and_the_tick_goes_on(loop: Loop, log: list[Any]) -> None:
    loop.set_exception_handler(lambda _, context: log.append(repr(context["exception"])))

    def fail() -> None:
        raise ValueError("mine")

    loop.call_soon(fail)
    loop.call_later(0, fail)
    loop.call_soon(log.append, "next")
    run_ticks(loop, 1)
    assert log == ["ValueError('mine')", "next", "ValueError('mine')"]


@pytest.mark.parametrize("way", ["call_soon", "call_later", "call_soon_threadsafe"])
def test_a_callback_runs_in_the_context_it_was_scheduled_in(loop: Loop, log: list[Any], way: str) -> None:
    variable = contextvars.ContextVar("variable", default="none")
    schedule: Callable[..., Any] = getattr(loop, way)
    delay = (0,) if way == "call_later" else ()

    def nested() -> None:
        log.append(variable.get())
        variable.set("inner")
        schedule(*delay, lambda: log.append(variable.get()))

    own = contextvars.copy_context()
    own.run(variable.set, "own")
    variable.set("outer")
    schedule(*delay, nested)
    variable.set("later")
    schedule(*delay, lambda: log.append(variable.get()), context=own)
    run_ticks(loop, 2)
    assert log == ["outer", "own", "inner"]
    assert variable.get() == "later"


@pytest.mark.loopcore_only  # asyncio's report fails in its turn from 3.12 on: it enters the same context
@pytest.mark.parametrize("kind", ["callback", "task"])
def test_a_context_that_is_entered_already_is_reported_and_does_not_end_the_run(
    loop: Loop, log: list[Any], kind: str
) -> None:
    loop.set_exception_handler(lambda _, context: log.append(str(context["exception"])[:20]))
    context = contextvars.copy_context()

    async def never_starts() -> None:
        log.append("started")

    def inside() -> None:
        if kind == "task":
            coro = never_starts()
            task = loop.create_task(coro, context=context)
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coro.close()
        else:
            loop.call_soon(log.append, "callback", context=context)
        loop.call_soon(log.append, "elsewhere", context=contextvars.Context())
        run_ticks(loop, 2)

    context.run(inside)
    gc.collect()  # the report of a task comes with its end
    assert sorted(log) == ["cannot enter context", "elsewhere"]


class Goodbye:
    """A callback that schedules another one by `schedule` as it goes."""

    def __init__(self, schedule: Callable[..., object], log: list[Any]) -> None:
        self.schedule = schedule
        self.log = log

    def __call__(self) -> None:
        self.log.append("called")

    def __del__(self) -> None:
        self.schedule(self.log.append, "gone")


@pytest.mark.loopcore_only
@pytest.mark.parametrize("way", ["next_tick", "queue_microtask"])
def test_what_goes_with_the_last_callback_may_schedule_another(loop: Any, log: list[Any], way: str) -> None:
    getattr(loop, way)(Goodbye(getattr(loop, way), log))
    loop.run_until_complete(asyncio.sleep(0))
    gc.collect()  # where references are not counted
    loop.run_until_complete(asyncio.sleep(0))
    assert log == ["called", "gone"]
    assert len(loop._microtasks) == 0


@pytest.mark.loopcore_only
@pytest.mark.skipif(platform.python_implementation() != "CPython", reason="references are not counted")
@pytest.mark.parametrize("way", ["next_tick", "queue_microtask"])
def test_what_goes_with_a_callback_schedules_before_the_next_callback(loop: Any, log: list[Any], way: str) -> None:
    loop.call_soon(Goodbye(getattr(loop, way), log))
    loop.call_soon(log.append, "the next")
    loop.run_until_complete(asyncio.sleep(0))
    assert log == ["called", "gone", "the next"]
