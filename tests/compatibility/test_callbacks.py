"""Callbacks, timers and their handles, parameter by parameter."""

import asyncio
import contextvars
import logging
import sys
import traceback
from typing import Any

import pytest

Loop = asyncio.AbstractEventLoop

SCHEDULERS = [
    pytest.param("call_soon", (), marks=pytest.mark.covers("EventLoop.call_soon(context, args)")),
    pytest.param("call_soon_threadsafe", (), marks=pytest.mark.covers("EventLoop.call_soon_threadsafe(context, args)")),
    pytest.param("call_later", (0.001,), marks=pytest.mark.covers("EventLoop.call_later(context, args)")),
    pytest.param("call_at", (0.0,), marks=pytest.mark.covers("EventLoop.call_at(context, args)")),
]


@pytest.mark.parametrize(("name", "when"), SCHEDULERS)
def test_a_callback_gets_its_arguments_in_its_context(loop: Loop, name: str, when: tuple[float, ...]) -> None:
    variable = contextvars.ContextVar("variable", default="outside")
    context = contextvars.copy_context()
    context.run(variable.set, "inside")
    seen: list[Any] = []

    def callback(first: int, second: str) -> None:
        seen.append((first, second, variable.get()))
        loop.stop()

    getattr(loop, name)(*when, callback, 1, "2", context=context)
    loop.run_forever()
    assert seen == [(1, "2", "inside")]


@pytest.mark.covers("EventLoop.set_exception_handler")
def test_the_error_of_a_callback_is_the_current_exception_of_the_handler(loop: Loop) -> None:
    seen: list[Any] = []

    def handler(_: Loop, context: dict[str, Any]) -> None:
        error = sys.exc_info()[1]
        assert error is not None
        assert error is context["exception"]
        functions = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        seen.append((functions, error.__context__))

    def fail() -> None:
        error = KeyError("mine")
        try:
            raise error
        finally:
            error.__context__ = inner

    inner = ValueError("inner")
    loop.set_exception_handler(handler)
    loop.call_soon(fail)
    loop.call_later(0.001, loop.stop)
    try:
        raise LookupError("outer")
    except LookupError:
        loop.run_forever()
    ((functions, cause),) = seen
    assert functions[-1] == "fail"
    assert "_report" not in functions
    assert cause is inner


@pytest.mark.covers("EventLoop.time", "EventLoop.call_at", "TimerHandle.when")
def test_time_is_the_clock_of_the_timers(loop: Loop) -> None:
    fired: list[float] = []
    deadline = loop.time() + 0.01
    handle = loop.call_at(deadline, lambda: (fired.append(loop.time()), loop.stop()))
    loop.run_forever()
    assert handle.when() == deadline
    assert fired[0] >= deadline


@pytest.mark.differs(
    "EventLoop.time",
    why="Timers are due by the loop's clock, also if a subclass or a mock replaces `time()`: give the loop another "
    "clock, `EventLoop(clock=...)`.",
)
@pytest.mark.loopcore_only
def test_a_replaced_time_is_not_the_clock_of_the_timers(loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now - 1000.0)
    handle = loop.call_later(0.0, loop.stop)
    loop.run_forever()
    assert handle.when() >= now


@pytest.mark.parametrize(
    ("name", "when"),
    [
        pytest.param("call_soon", (), marks=pytest.mark.covers("Handle.get_context")),
        pytest.param("call_later", (0,), marks=pytest.mark.covers("TimerHandle.get_context")),
    ],
)
def test_a_handle_knows_its_context(loop: Loop, name: str, when: tuple[float, ...], backend_name: str) -> None:
    if backend_name == "asyncio" and sys.version_info < (3, 12):
        pytest.skip("asyncio's handles have it since Python 3.12")
    context = contextvars.copy_context()
    assert getattr(loop, name)(*when, print, context=context).get_context() is context


@pytest.mark.covers("Handle.cancelled", "Handle.cancel")
def test_a_handle_knows_whether_it_was_cancelled(loop: Loop) -> None:
    handle = loop.call_soon(pytest.fail)
    assert not handle.cancelled()
    handle.cancel()
    handle.cancel()
    assert handle.cancelled()
    loop.call_soon(loop.stop)
    loop.run_forever()


@pytest.mark.covers("TimerHandle.cancelled", "TimerHandle.cancel")
def test_a_timer_knows_whether_it_was_cancelled(loop: Loop) -> None:
    handle = loop.call_later(0, pytest.fail)
    assert not handle.cancelled()
    handle.cancel()
    handle.cancel()
    assert handle.cancelled()
    loop.call_later(0.001, loop.stop)
    loop.run_forever()


@pytest.mark.covers(
    "TimerHandle.__lt__",
    "TimerHandle.__le__",
    "TimerHandle.__gt__",
    "TimerHandle.__ge__",
    "TimerHandle.__eq__",
    "TimerHandle.__hash__",
)
def test_timers_compare_by_their_deadlines(loop: Loop) -> None:
    early, late = loop.call_at(1.0, print, 1), loop.call_at(2.0, print, 1)
    twin, other = loop.call_at(1.0, print, 1), loop.call_at(1.0, print, 2)
    assert (early < late, late < early, early < twin) == (True, False, False)
    assert (late > early, early > late, early > twin) == (True, False, False)
    assert (early <= late, late <= early, early <= twin, early <= other) == (True, False, True, False)
    assert (late >= early, early >= late, early >= twin, early >= other) == (True, False, True, False)
    assert (early == twin, early == other, early == late, early == 1.0) == (True, False, False, False)
    assert hash(early) == hash(twin) == hash(1.0)
    twin.cancel()
    assert early != twin


@pytest.mark.covers("EventLoop.slow_callback_duration")
def test_debug_mode_warns_of_slow_callbacks(loop: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert loop.slow_callback_duration == 0.1
    loop.set_debug(True)
    messages = []
    for limit in (60.0, 0.0):
        loop.slow_callback_duration = limit
        caplog.clear()
        loop.call_soon(sum, [1, 2])
        loop.call_soon(loop.stop)
        with caplog.at_level(logging.WARNING):
            loop.run_forever()
        messages.append([record.name for record in caplog.records if "sum(" in record.getMessage()])
    assert messages == [[], ["asyncio"]]
