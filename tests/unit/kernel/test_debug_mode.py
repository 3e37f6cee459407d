"""Debug mode: slow callbacks, where things were made, calls from a wrong thread, what is no callback."""

import asyncio
import contextlib
import gc
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import loopcore
from loopcore.kernel.scheduler import Scheduler
from loopcore.testing import ScriptedBackend, VirtualClock

Loop = asyncio.AbstractEventLoop
SCHEDULERS = ["call_soon", "call_later", "call_at", "call_soon_threadsafe"]
OWN_SCHEDULERS = ["call_immediate", "next_tick", "queue_microtask"]


def delays(loop: Loop, way: str) -> tuple[float, ...]:
    return {"call_later": (0.0,), "call_at": (loop.time(),)}.get(way, ())


@pytest.fixture
def debug_loop(loop: Loop) -> Loop:
    loop.set_debug(True)
    return loop


def test_a_slow_callback_is_logged_and_told(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    reactor = Scheduler(ScriptedBackend(clock), clock=clock)
    reactor.set_debug(True)
    reactor.slow_callback_duration = 0.5

    def work(seconds: float) -> None:
        clock.at += seconds

    for seconds in (0.1, 0.75, 0.4):
        reactor.call_soon(work, seconds)
    with caplog.at_level(logging.WARNING, "asyncio"):
        reactor.tick()
    (record,) = caplog.records
    assert record.name == "asyncio"
    assert record.getMessage().endswith("took 0.750 seconds")
    assert "work(0.75)" in record.getMessage()


@pytest.mark.parametrize("way", SCHEDULERS)
def test_a_handle_says_where_the_program_made_it(debug_loop: Loop, way: str) -> None:
    handle = getattr(debug_loop, way)(*delays(debug_loop, way), print)
    assert handle._source_traceback[-1].name == "test_a_handle_says_where_the_program_made_it"
    assert "created at" in repr(handle)
    handle.cancel()


@pytest.mark.loopcore_only
@pytest.mark.parametrize("way", OWN_SCHEDULERS)
def test_a_handle_of_nodes_kind_says_where_it_was_made(debug_loop: Any, way: str) -> None:
    handle = getattr(debug_loop, way)(print)
    assert handle._source_traceback[-1].name == "test_a_handle_of_nodes_kind_says_where_it_was_made"


def test_futures_and_tasks_say_where_they_were_made(debug_loop: Loop, backend_name: str) -> None:
    async def nothing() -> None:
        pass

    def make() -> Any:
        return debug_loop.create_future(), debug_loop.create_task(nothing())

    future, task = make()
    debug_loop.run_until_complete(task)
    for made in (future, task):
        names = [frame.name for frame in made._source_traceback]
        if backend_name == "asyncio" and names[-1] == "create_future":
            names.pop()
        assert names[-1] == "make"


@pytest.mark.reports_errors
def test_the_report_of_an_exception_shows_where_its_callback_was_made(
    debug_loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ValueError

    def schedule_it_here() -> None:
        debug_loop.call_soon(fail)

    schedule_it_here()
    debug_loop.stop()
    debug_loop.run_forever()
    assert "schedule_it_here" in caplog.text
    assert "Object created at" in caplog.text


@pytest.mark.parametrize("way", ["call_soon", "call_later", "call_at"])
def test_a_call_from_a_wrong_thread_raises(debug_loop: Loop, way: str) -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            getattr(debug_loop, way)(*delays(debug_loop, way), print)
        except RuntimeError as exc:
            errors.append(exc)
        debug_loop.call_soon_threadsafe(debug_loop.stop)

    thread = threading.Thread(target=work)
    debug_loop.call_soon(thread.start)
    debug_loop.run_forever()
    thread.join()
    assert [str(error) for error in errors] == [
        "Non-thread-safe operation invoked on an event loop other than the current one"
    ]


@pytest.mark.parametrize("way", SCHEDULERS)
def test_what_is_no_callback_raises(debug_loop: Loop, way: str) -> None:
    async def function() -> None:
        pass

    coroutine = function()
    schedule: Callable[..., Any] = getattr(debug_loop, way)
    named = "call_" if way == "call_later" else way  # asyncio's call_later names call_at
    for wrong in (coroutine, function):
        with pytest.raises(TypeError, match=f"coroutines cannot be used with {named}"):
            schedule(*delays(debug_loop, way), wrong)
    with pytest.raises(TypeError, match=f"a callable object was expected by {named}"):
        schedule(*delays(debug_loop, way), 17)
    coroutine.close()


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("way", SCHEDULERS)
def test_a_closed_loop_takes_no_callbacks(loop: Loop, way: str, debug: bool) -> None:
    loop.set_debug(debug)
    loop.close()
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        getattr(loop, way)(*delays(loop, way), print)


@pytest.mark.loopcore_only
@pytest.mark.parametrize("way", [*OWN_SCHEDULERS, "add_phase_callback"])
def test_a_closed_loop_takes_no_callbacks_of_nodes_kind(loop: Any, way: str) -> None:
    loop.close()
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        getattr(loop, way)(*(("idle",) if way == "add_phase_callback" else ()), print)


def test_a_closed_loop_makes_no_tasks(loop: Loop) -> None:
    async def nothing() -> None:
        pass

    loop.close()
    coroutine = nothing()
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        loop.create_task(coroutine)
    coroutine.close()
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        loop.run_forever()


def test_a_cancelled_handle_still_says_what_it_was(debug_loop: Loop) -> None:
    handle = debug_loop.call_soon(print, "argument")
    handle.cancel()
    assert "print('argument')" in repr(handle)
    assert handle._callback is None  # type: ignore[attr-defined]


@pytest.mark.loopcore_only
def test_debug_mode_keeps_a_failed_task_no_longer_than_its_owner(debug_loop: Loop) -> None:
    """Frames of the kernel must not keep the task alive through its exception's traceback."""
    reports: list[str] = []
    debug_loop.set_exception_handler(lambda _, context: reports.append(context["message"]))

    async def fail() -> None:
        raise ValueError

    async def main() -> None:
        asyncio.ensure_future(fail())
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    gc.disable()
    try:
        debug_loop.run_until_complete(main())
    finally:
        gc.enable()
    assert reports == ["Task exception was never retrieved"]


@pytest.mark.loopcore_only
def test_debug_mode_notices_a_future_that_is_set_from_another_thread(loop: Any) -> None:
    loop.set_debug(True)
    raised: list[BaseException] = []

    async def main() -> None:
        future = loop.create_future()
        waiting = loop.create_task(asyncio.wait_for(future, 10))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

        def meddle() -> None:
            try:
                future.set_result(1)
            except RuntimeError as exc:
                raised.append(exc)

        thread = threading.Thread(target=meddle)
        thread.start()
        await asyncio.to_thread(thread.join)
        waiting.cancel()
        await asyncio.wait([waiting])

    loop.run_until_complete(main())
    loop.run_until_complete(loop.shutdown_default_executor())
    assert "Non-thread-safe" in str(raised[0])


def test_a_loop_closes_although_the_repr_of_a_callback_raises(loopcore_factory: Callable[[], Loop]) -> None:
    loop = loopcore_factory()

    class Odd:
        def __call__(self) -> None: ...

        def __repr__(self) -> str:
            raise ValueError("no name yet")

    loop.set_debug(True)
    handle = loop.call_soon(Odd())
    loop.close()
    assert handle.cancelled()
    assert "Odd at 0x" in repr(handle)
    assert "its repr raised ValueError" in repr(handle)


def test_a_future_that_is_done_answers_other_threads(loop: Loop) -> None:
    loop.set_debug(True)
    future = loop.create_future()
    future.set_result(1)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(future.cancel).result() is False
        with pytest.raises(asyncio.InvalidStateError):
            pool.submit(future.set_result, 2).result()
        with pytest.raises(asyncio.InvalidStateError):
            pool.submit(future.set_exception, ValueError()).result()
    assert future.result() == 1


@pytest.mark.differs(
    "Future.set_result",
    why="In debug mode a call from another thread is refused, and the future stays pending; asyncio's is "
    "done then, and only one with callbacks refuses.",
)
def test_a_pending_future_refuses_other_threads(loop: Loop) -> None:
    loop.set_debug(True)
    future = loop.create_future()

    async def main() -> None:
        with ThreadPoolExecutor(1) as pool, contextlib.suppress(RuntimeError):
            pool.submit(future.set_result, 1).result()

    loop.run_until_complete(main())
    assert future.done() is not isinstance(loop, loopcore.EventLoop)
