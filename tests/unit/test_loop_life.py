"""The life of a loop: made, run, stopped, closed; and what belongs to it while it lives."""

import asyncio
import contextlib
import gc
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import loopcore
from loopcore.errors import UsageError

Loop = asyncio.AbstractEventLoop
Factory = Callable[[], Loop]


# --- running and stopping -------------------------------------------------------------------------------


@pytest.mark.covers("EventLoop.run_until_complete")
def test_run_until_complete_returns_the_result(loop: Loop) -> None:
    async def main() -> int:
        return 42

    assert loop.run_until_complete(main()) == 42


def test_run_until_complete_raises_the_exception(loop: Loop) -> None:
    async def main() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        loop.run_until_complete(main())


def test_run_until_complete_takes_futures_and_other_awaitables(loop: Loop) -> None:
    class Awaitable:
        def __await__(self) -> Any:
            yield
            return "awaitable"

    future = loop.create_future()
    loop.call_soon(future.set_result, "future")
    assert loop.run_until_complete(future) == "future"
    assert loop.run_until_complete(Awaitable()) == "awaitable"


def test_run_until_complete_refuses_what_cannot_be_awaited(loop: Loop) -> None:
    with pytest.raises(TypeError, match=r"^An asyncio.Future, a coroutine or an awaitable is required$"):
        loop.run_until_complete(1)  # type: ignore[arg-type]


def test_future_of_another_loop_is_refused(loop_factory: Factory) -> None:
    one, other = loop_factory(), loop_factory()
    with pytest.raises(ValueError, match=r"^The future belongs to a different loop than the one specified"):
        one.run_until_complete(other.create_future())


def test_loop_stopped_before_the_future_is_done(loop: Loop) -> None:
    future = loop.create_future()
    loop.call_soon(loop.stop)
    with pytest.raises(RuntimeError, match=r"^Event loop stopped before Future completed\.$"):
        loop.run_until_complete(future)


@pytest.mark.parametrize("exit_type", [SystemExit, KeyboardInterrupt])
def test_exit_in_a_task_ends_the_run_and_leaves_no_report(loop: Loop, exit_type: type[BaseException]) -> None:
    async def main() -> None:
        raise exit_type

    with pytest.raises(exit_type):
        loop.run_until_complete(main())
    assert not loop.is_running()
    loop.run_until_complete(asyncio.sleep(0))  # it can go on


@pytest.mark.covers("EventLoop.run_forever", "EventLoop.stop")
def test_future_of_a_run_that_was_stopped_does_not_stop_the_next_one(loop: Loop) -> None:
    future = loop.create_future()
    loop.call_soon(loop.stop)
    with pytest.raises(RuntimeError, match="stopped before"):
        loop.run_until_complete(future)

    async def main() -> str:
        future.set_result(None)
        for _ in range(3):
            await asyncio.sleep(0)
        return "to the end"

    assert loop.run_until_complete(main()) == "to the end"


def test_exception_of_a_task_whose_run_was_interrupted_is_not_reported(
    loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    """Only `run_until_complete` has the task, and raises something else: the exception cannot be retrieved."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        loop.call_soon(interrupt)  # before the task's own callbacks
        raise ZeroDivisionError

    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(main())
    gc.collect()
    assert caplog.messages == []


def test_stop_before_run_makes_it_a_single_tick(loop: Loop) -> None:
    seen: list[int] = []

    def chain(number: int) -> None:
        seen.append(number)
        loop.call_soon(chain, number + 1)

    chain(0)
    loop.stop()
    loop.run_forever()
    assert seen == [0, 1]
    loop.stop()
    loop.run_forever()
    assert seen == [0, 1, 2]


def test_callbacks_ready_when_stop_is_called_still_run(loop: Loop) -> None:
    seen: list[str] = []
    loop.call_soon(loop.stop)
    loop.call_soon(seen.append, "after stop")
    loop.run_forever()
    assert seen == ["after stop"]


@pytest.mark.covers("EventLoop.is_running")
def test_running_loop_is_known_while_it_runs_only(loop: Loop) -> None:
    async def main() -> Loop:
        assert loop.is_running()
        return asyncio.get_running_loop()

    assert not loop.is_running()
    assert loop.run_until_complete(main()) is loop
    assert not loop.is_running()
    assert asyncio._get_running_loop() is None


async def test_running_loop_cannot_be_run_or_closed(loop: Loop, backend_name: str) -> None:
    future = loop.create_future()
    if backend_name != "asyncio" or sys.version_info < (3, 13):
        # asyncio 3.13.0 forgets, when this fails, that it is running.
        with pytest.raises(RuntimeError, match=r"^This event loop is already running$"):
            loop.run_forever()
    with pytest.raises(RuntimeError, match=r"^This event loop is already running$"):
        loop.run_until_complete(future)
    with pytest.raises(RuntimeError, match=r"^Cannot close a running event loop$"):
        loop.close()
    assert asyncio.get_running_loop() is loop


def test_loop_does_not_run_inside_another(loop_factory: Factory) -> None:
    outer, inner = loop_factory(), loop_factory()
    future = inner.create_future()

    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"^Cannot run the event loop while another loop is running$"):
            inner.run_until_complete(future)
        assert asyncio.get_running_loop() is outer

    outer.run_until_complete(main())


def test_loops_of_two_threads_run_at_the_same_time(loop_factory: Factory) -> None:
    here, there = loop_factory(), loop_factory()
    thread = threading.Thread(target=there.run_forever)
    thread.start()

    async def ask() -> Loop:
        return asyncio.get_running_loop()

    async def main() -> None:
        answer = asyncio.run_coroutine_threadsafe(ask(), there)
        assert await asyncio.wrap_future(answer) is there

    here.run_until_complete(main())
    there.call_soon_threadsafe(there.stop)
    thread.join()


def test_callback_scheduled_from_a_signal_handler_ends_the_wait(loop: Loop) -> None:
    import os
    import signal

    before = signal.signal(signal.SIGUSR1, lambda *_: loop.call_soon_threadsafe(loop.stop))
    try:
        sender = threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGUSR1])
        sender.start()
        loop.run_forever()
        sender.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


# --- closing --------------------------------------------------------------------------------------------


@pytest.mark.covers("EventLoop.close", "EventLoop.is_closed")
def test_closed_loop_says_so(loop: Loop) -> None:
    assert not loop.is_closed()
    assert loop._closed is False  # type: ignore[attr-defined]  # libraries look at it (issue 32)
    loop.close()
    loop.close()
    assert loop.is_closed()
    assert loop._closed is True  # type: ignore[attr-defined]
    calls: list[Callable[[], Any]] = [
        loop.run_forever,
        lambda: loop.run_until_complete(future),
        lambda: loop.call_soon(print),
        lambda: loop.call_soon_threadsafe(print),
        lambda: loop.call_later(1, print),
        lambda: loop.call_at(1, print),
    ]
    future = loop.create_future()
    for call in calls:
        with pytest.raises(RuntimeError, match=r"^Event loop is closed$"):
            call()


def test_closed_loop_makes_no_tasks(loop: Loop) -> None:
    async def main() -> None: ...

    loop.close()
    coroutine = main()
    with pytest.raises(RuntimeError, match=r"^Event loop is closed$"):
        loop.create_task(coroutine)
    coroutine.close()


def test_closing_drops_callbacks_and_what_they_hold(loop: Loop) -> None:
    class Thing:
        pass

    thing = Thing()
    watch = weakref.ref(thing)
    loop.call_soon(print, thing)
    loop.call_later(1000, print, thing)
    loop.call_soon_threadsafe(print, thing)
    del thing
    loop.close()
    gc.collect()
    assert watch() is None


def test_unclosed_loop_warns_and_is_closed(loop_factory: Factory) -> None:
    kept = [loop_factory()]

    def drop() -> None:
        kept.clear()
        gc.collect()

    with pytest.warns(ResourceWarning, match=r"^unclosed event loop <"):
        drop()


def test_closed_loop_can_be_collected(loop_factory: Factory) -> None:
    loop = loop_factory()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    watch = weakref.ref(loop)
    del loop
    gc.collect()
    assert watch() is None


def test_loop_that_could_not_be_made_leaves_nothing(loopcore_factory: Factory, backend_name: str) -> None:
    class NoPlugin:
        @loopcore.hookimpl
        def loopcore_no_such_hook(self) -> None: ...

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UsageError):
            loopcore.new_event_loop(backend_name, plugins=[NoPlugin()])
        gc.collect()


def test_loop_that_a_plugin_ends_while_it_is_made_is_closed(loopcore_factory: Factory, backend_name: str) -> None:
    made: list[Any] = []

    class Exit:
        @loopcore.hookimpl
        def loopcore_loop_created(self, loop: Any) -> None:
            made.append(loop)
            raise SystemExit

    with pytest.raises(SystemExit):
        loopcore.new_event_loop(backend_name, plugins=[Exit()])
    assert made[0].is_closed()


def test_loop_is_closed_if_a_plugin_exits_meanwhile(loopcore_factory: Factory, backend_name: str) -> None:
    class Exit:
        @loopcore.hookimpl
        def loopcore_loop_closing(self) -> None:
            raise SystemExit

    loop = loopcore.new_event_loop(backend_name, plugins=[Exit()])
    executor = ThreadPoolExecutor()
    loop.set_default_executor(executor)
    with pytest.raises(SystemExit):
        loop.close()
    assert loop.is_closed()
    with pytest.raises(RuntimeError):
        executor.submit(int)  # its parts are closed as well


@pytest.mark.loopcore_only
def test_repr_names_the_backend(loop: Loop, backend_name: str) -> None:
    assert repr(loop) == f"<EventLoop backend={backend_name} running=False closed=False debug=False>"
    loop.close()
    assert repr(loop) == f"<EventLoop backend={backend_name} running=False closed=True debug=False>"


# --- debug mode -----------------------------------------------------------------------------------------


@pytest.mark.covers("EventLoop.get_debug", "EventLoop.set_debug")
def test_debug_mode_is_off_and_can_be_turned_on(loop: Loop) -> None:
    assert loop.get_debug() is False
    loop.set_debug(True)
    assert loop.get_debug() is True


@pytest.mark.parametrize(
    ("options", "environment", "wanted"),
    [([], {}, False), (["-X", "dev"], {}, True), ([], {"PYTHONASYNCIODEBUG": "1"}, True),
     (["-E"], {"PYTHONASYNCIODEBUG": "1"}, False)],
)  # fmt: skip
def test_debug_mode_comes_from_the_environment(options: list[str], environment: dict[str, str], wanted: bool) -> None:
    program = "import loopcore; loop = loopcore.new_event_loop(); print(loop.get_debug()); loop.close()"
    import os

    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONASYNCIODEBUG", "PYTHONDEVMODE")}
    done = subprocess.run(
        [sys.executable, *options, "-c", program], env=kept | environment, capture_output=True, text=True, check=True
    )
    assert (done.stdout.strip(), done.stderr) == (str(wanted), "")


def test_debug_mode_tracks_where_coroutines_were_made_while_running(loop: Loop) -> None:
    async def depth() -> int:
        return sys.get_coroutine_origin_tracking_depth()

    async def switch() -> list[int]:
        depths = [sys.get_coroutine_origin_tracking_depth()]
        for enabled in (False, True):
            loop.set_debug(enabled)
            await asyncio.sleep(0.001)
            depths.append(sys.get_coroutine_origin_tracking_depth())
        return depths

    assert loop.run_until_complete(depth()) == 0
    loop.set_debug(True)
    assert loop.run_until_complete(switch()) == [10, 0, 10]
    assert sys.get_coroutine_origin_tracking_depth() == 0


# --- tasks and futures ----------------------------------------------------------------------------------


@pytest.mark.covers(
    "EventLoop.create_future", "EventLoop.create_task(name)", "Future.get_loop", "Task.get_loop", "Task.get_name"
)
def test_create_future_and_create_task(loop: Loop) -> None:
    async def main() -> None: ...

    future = loop.create_future()
    assert asyncio.isfuture(future)
    assert future.get_loop() is loop
    task = loop.create_task(main(), name="it")
    assert isinstance(task, asyncio.Task)
    assert task.get_name() == "it"
    assert task.get_loop() is loop
    loop.run_until_complete(task)


@pytest.mark.covers("EventLoop.set_task_factory", "EventLoop.get_task_factory")
def test_task_factory_makes_the_tasks(loop: Loop) -> None:
    made: list[Any] = []

    def factory(where: Any, coro: Any, **kwargs: Any) -> Any:
        made.append((where, kwargs))
        return asyncio.Task(coro, loop=where, **kwargs)

    async def main() -> None: ...

    assert loop.get_task_factory() is None
    loop.set_task_factory(factory)
    assert loop.get_task_factory() is factory
    task = loop.create_task(main(), name="it")
    loop.run_until_complete(task)
    assert task.get_name() == "it"
    ((where, _),) = made
    assert where is loop
    loop.set_task_factory(None)
    assert loop.get_task_factory() is None


def test_task_factory_must_be_callable(loop: Loop) -> None:
    with pytest.raises(TypeError, match=r"^task factory must be a callable or None$"):
        loop.set_task_factory(1)  # type: ignore[arg-type]


def test_a_task_factory_is_given_the_name_where_asyncio_gives_it(loop: Loop) -> None:
    """Since 3.14, so that the first step of an eager task has it (issue 32). Before, the task is named afterwards."""
    given: list[Any] = []

    def factory(where: Any, coro: Any, **kwargs: Any) -> Any:
        given.append(kwargs)
        return asyncio.Task(coro, loop=where, **kwargs)

    async def main() -> None: ...

    loop.set_task_factory(factory)
    tasks = [loop.create_task(main(), name="it"), loop.create_task(main())]
    loop.run_until_complete(asyncio.gather(*tasks))
    assert tasks[0].get_name() == "it"
    assert given == [{"name": "it"} if sys.version_info >= (3, 14) else {}, {}]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with 3.12")
@pytest.mark.parametrize("kind", [asyncio.Task, loopcore.Task])
async def test_an_interrupted_eager_task_is_reported_as_soon_as_nobody_holds_it(loop: Loop, kind: Any) -> None:
    """Issue 32: the frames of the interrupt held the interpreted task until a collection."""
    reports: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: reports.append(context))

    async def interrupt() -> None:
        raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        kind(interrupt(), loop=loop, eager_start=True)
    assert [report["message"] for report in reports] == ["Task exception was never retrieved"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with 3.12")
@pytest.mark.parametrize("kind", [asyncio.Task, loopcore.Task])
async def test_an_eager_task_runs_its_first_step_with_its_name(loop: Loop, kind: Any) -> None:
    """On 3.14 (issue 32); before, asyncio names it when it has run."""
    names: list[str] = []

    async def child() -> None:
        task = asyncio.current_task()
        assert task is not None
        names.append(task.get_name())
        await asyncio.sleep(0)
        names.append(task.get_name())

    loop.set_task_factory(asyncio.create_eager_task_factory(kind))  # type: ignore[attr-defined]
    await asyncio.create_task(child(), name="its own")
    assert names[1] == "its own"
    assert (names[0] == "its own") is (sys.version_info >= (3, 14))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with 3.12")
async def test_eager_task_factory_of_asyncio_works(loop: Loop) -> None:
    seen: list[str] = []

    async def child() -> None:
        seen.append("child")

    loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
    asyncio.create_task(child())
    seen.append("main")
    assert seen == ["child", "main"]


@pytest.mark.parametrize("value", ["asyncio", ""])
def test_environment_chooses_the_task_class(
    loopcore_factory: Factory, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("LOOPCORE_TASKS", value)
    loop = loopcore_factory()

    async def main() -> None: ...

    task = loop.create_task(main())
    loop.run_until_complete(task)
    future = loop.create_future()
    if value == "asyncio":
        assert (type(task), type(future)) == (asyncio.Task, asyncio.Future)
    else:
        assert isinstance(task, loopcore.Task)
        assert isinstance(future, loopcore.Future)


def test_unknown_task_class_is_an_error(loopcore_factory: Factory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPCORE_TASKS", "uvloop")
    with pytest.raises(UsageError, match=r"^LOOPCORE_TASKS='uvloop' must be asyncio; unset it"):
        loopcore_factory()


@pytest.mark.differs("EventLoop.close", why="Callbacks that have not run are cancelled, which their handles show.")
def test_a_callback_that_never_runs_is_cancelled(loop: Loop) -> None:
    handle = loop.call_soon(print)
    loop.close()
    assert handle.cancelled() is isinstance(loop, loopcore.EventLoop)
