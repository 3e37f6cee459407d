"""Tasks and futures: order of waking, cancellation, what goes wrong, what is reported."""

import asyncio
import contextvars
import gc
import io
import weakref
from typing import Any

import pytest

from loopcore.kernel.future import Future
from loopcore.kernel.task import Task
from loopcore.kernel.task_makers import ClassTasks

Loop = asyncio.AbstractEventLoop


async def suspended(loop: Loop, log: list[Any]) -> None:
    await loop.create_future()


def collect_reports(loop: Loop) -> list[dict[str, Any]]:
    reports: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: reports.append(context))
    return reports


async def test_waiters_and_callbacks_of_a_future_come_in_the_order_they_were_added(loop: Loop) -> None:
    log: list[str] = []

    async def wait(future: Any, name: str) -> None:
        await future
        log.append(name)

    for kinds in ("wcwc", "cwwc", "ww", "cc", "wccw"):
        log.clear()
        future = loop.create_future()
        tasks = []
        for number, kind in enumerate(kinds):
            if kind == "w":
                tasks.append(loop.create_task(wait(future, f"w{number}")))
                await asyncio.sleep(0)
            else:
                future.add_done_callback(lambda _, number=number: log.append(f"c{number}"))
        future.set_result(None)
        await asyncio.sleep(0)
        assert log == [f"{kind}{number}" for number, kind in enumerate(kinds)]
        await asyncio.gather(*tasks)


@pytest.mark.covers("Future.add_done_callback(context)", "Future.remove_done_callback")
def test_callbacks_get_the_future_and_their_context_and_can_be_removed(loop: Loop) -> None:
    variable = contextvars.ContextVar("variable", default="none")
    log: list[Any] = []
    future = loop.create_future()

    def callback(done: Any) -> None:
        log.append((done is future, variable.get()))

    def removed(_: Any) -> None:
        log.append("removed")

    variable.set("when added")
    future.add_done_callback(callback)
    future.add_done_callback(removed)
    future.add_done_callback(removed)
    own = contextvars.copy_context()
    own.run(variable.set, "own")
    future.add_done_callback(callback, context=own)
    variable.set("later")
    assert future.remove_done_callback(removed) == 2
    future.set_result(1)
    future.add_done_callback(callback)
    loop.stop()
    loop.run_forever()
    assert log == [(True, "when added"), (True, "own"), (True, "later")]


@pytest.mark.covers("Future.set_result", "Future.set_exception")
def test_a_future_is_finished_once(loop: Loop) -> None:
    future = loop.create_future()
    with pytest.raises(asyncio.InvalidStateError):
        future.result()
    future.set_result(5)
    for finish in (lambda: future.set_result(6), lambda: future.set_exception(ValueError())):
        with pytest.raises(asyncio.InvalidStateError):
            finish()
    assert future.cancel() is False
    assert (future.result(), future.exception(), future.done(), future.cancelled()) == (5, None, True, False)


@pytest.mark.covers("Task.cancelling", "Task.uncancel")
async def test_cancellation_is_counted_and_can_be_refused(loop: Loop) -> None:
    async def stubborn() -> tuple[str, int, int]:
        task = asyncio.current_task()
        assert task is not None
        try:
            await loop.create_future()
        except asyncio.CancelledError as error:
            return str(error), task.cancelling(), task.uncancel()
        return "not cancelled", 0, 0

    task = loop.create_task(stubborn())
    await asyncio.sleep(0)
    assert task.cancel("first")
    assert task.cancel("second")
    assert await task == ("first", 2, 1)
    assert task.cancel() is False
    assert task.uncancel() == 0
    assert task.uncancel() == 0


@pytest.mark.covers("Task.cancel(msg)")
async def test_a_task_cancelled_before_its_first_step_never_runs(loop: Loop) -> None:
    log: list[str] = []

    async def never() -> None:
        log.append("ran")

    task = loop.create_task(never())
    task.cancel("why")
    with pytest.raises(asyncio.CancelledError, match="why"):
        await task
    assert log == []
    with pytest.raises(asyncio.CancelledError) as again:
        task.result()
    assert again.value.args == ()


async def test_a_cancelled_task_gives_its_message_to_the_first_that_asks(loop: Loop) -> None:
    async def cancels_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel("why")
        await asyncio.sleep(0)

    (error,) = await asyncio.gather(loop.create_task(cancels_itself()), return_exceptions=True)
    assert isinstance(error, asyncio.CancelledError)
    assert str(error) == ""


@pytest.mark.covers("EventLoop.create_task(context)")
def test_a_task_runs_in_one_separate_context(loop: Loop) -> None:
    variable = contextvars.ContextVar("variable", default=0)
    seen: list[int] = []

    async def count() -> None:
        for _ in range(3):
            variable.set(variable.get() + 1)
            await asyncio.sleep(0)
        seen.append(variable.get())

    variable.set(10)
    own = contextvars.copy_context()
    own.run(variable.set, 100)
    first, second = loop.create_task(count()), loop.create_task(count(), context=own)
    loop.run_until_complete(asyncio.wait([first, second]))  # type: ignore[arg-type]
    assert seen == [13, 103]
    assert (variable.get(), own[variable]) == (10, 103)


@pytest.mark.covers("Task.set_name", "Task.get_coro", "Future.__class_getitem__", "Task.__class_getitem__")
def test_names_coroutines_generics_and_weak_references(loop: Loop) -> None:
    async def nothing() -> None: ...

    coro = nothing()
    task = loop.create_task(coro, name="mine")
    assert (task.get_name(), task.get_coro()) == ("mine", coro)
    task.set_name(17)  # type: ignore[arg-type]
    assert task.get_name() == "17"
    other = loop.create_task(nothing())
    assert other.get_name().startswith("Task-")
    assert "nothing" in repr(other)
    assert weakref.ref(task)() is task
    assert type(task)[int].__args__ == (int,)  # type: ignore[index]
    loop.run_until_complete(asyncio.wait([task, other]))  # type: ignore[arg-type]
    future = loop.create_future()
    assert "pending" in repr(future)
    assert weakref.ref(future)() is future
    assert type(future)[int].__args__ == (int,)  # type: ignore[index]


@pytest.mark.covers("Task.get_stack(limit)", "Task.print_stack(file)")
async def test_stacks_of_suspended_and_failed_tasks(loop: Loop) -> None:
    async def fail() -> None:
        raise ValueError("mine")

    waiting, failed = loop.create_task(suspended(loop, [])), loop.create_task(fail())
    await asyncio.sleep(0)
    assert [frame.f_code.co_name for frame in waiting.get_stack()] == ["suspended"]
    assert [frame.f_code.co_name for frame in failed.get_stack(limit=1)] == ["fail"]
    text = io.StringIO()
    waiting.print_stack(file=text)
    failed.print_stack(file=text)
    assert "in suspended" in text.getvalue()
    assert "ValueError: mine" in text.getvalue()
    assert isinstance(failed.exception(), ValueError)
    waiting.cancel()


class Yields:
    """An awaitable that hands out whatever it is given."""

    def __init__(self, *what: Any) -> None:
        self.what = what

    def __await__(self) -> Any:
        yield from self.what


async def test_bad_yields_are_errors_in_the_coroutine_and_it_may_go_on(loop: Loop) -> None:
    errors: list[str] = []

    async def expect_error(awaitable: Any) -> None:
        try:
            await awaitable
        except RuntimeError as error:
            errors.append(str(error))

    future = loop.create_future()
    await expect_error(Yields(17))
    await expect_error(Yields(future))
    await expect_error(Yields(character for character in "a"))
    await expect_error(asyncio.current_task())
    await Yields(None, None)
    expected = ["bad yield: 17", "yield was used instead of yield from", "yield from for generator", "await on itself"]
    assert len(errors) == len(expected)
    for error, part in zip(errors, expected, strict=True):
        assert part in error


async def test_a_future_of_another_loop_is_an_error(loop_factory: Any) -> None:
    stranger = loop_factory().create_future()
    with pytest.raises(RuntimeError, match="attached to a different loop"):
        await stranger


def test_an_exception_nobody_asks_for_is_reported_when_the_task_goes(loop: Loop) -> None:
    reports = collect_reports(loop)

    async def fail() -> None:
        raise ValueError("mine")

    async def main() -> None:
        loop.create_task(fail())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        future = loop.create_future()
        future.set_exception(KeyError("mine too"))

    gc.disable()  # reference counting is enough: nothing keeps the task in a cycle
    try:
        loop.run_until_complete(main())
    finally:
        gc.enable()
    assert [report["message"] for report in reports] == [
        "Task exception was never retrieved",
        "Future exception was never retrieved",
    ]
    assert [repr(report["exception"]) for report in reports] == ["ValueError('mine')", "KeyError('mine too')"]


def test_an_exception_that_was_seen_is_not_reported(loop: Loop) -> None:
    reports = collect_reports(loop)

    async def main() -> None:
        for see in ("exception", "result"):
            future = loop.create_future()
            future.set_exception(ValueError())
            try:
                getattr(future, see)()
            except ValueError:
                assert see == "result"

    loop.run_until_complete(main())
    gc.collect()
    assert reports == []


def test_a_pending_task_that_goes_is_reported(loop: Loop) -> None:
    reports = collect_reports(loop)
    loop.create_task(suspended(loop, []), name="lost")
    loop.stop()
    loop.run_forever()
    gc.collect()
    (report,) = reports
    assert report["message"] == "Task was destroyed but it is pending!"
    assert "lost" in repr(report["task"])
    reports.clear()  # or else the task is still to be found, from Python 3.14 on


@pytest.mark.loopcore_only
def test_a_task_finished_from_outside_is_reported_and_does_not_end_the_run(loop: Any) -> None:
    reports = collect_reports(loop)

    async def never() -> None: ...

    coro = never()
    loop._tasks = ClassTasks(Future, Task)
    task = loop.create_task(coro)
    Future.set_result(task, 1)
    loop.call_soon(loop.stop)
    loop.run_forever()
    coro.close()
    assert [type(report["exception"]) for report in reports] == [asyncio.InvalidStateError]


@pytest.mark.parametrize("wrong", [17, "text", None, len])
def test_only_coroutines_make_tasks(loop: Loop, wrong: Any) -> None:
    with pytest.raises(TypeError, match="a coroutine was expected"):
        loop.create_task(wrong)


async def test_a_stop_iteration_does_not_pass_for_a_result(loop: Loop) -> None:
    future = loop.create_future()
    try:
        future.set_exception(StopIteration())
    except TypeError:
        return
    with pytest.raises(RuntimeError, match="StopIteration interacts badly"):
        await future


async def test_a_cancelled_gather_leaves_its_child_the_exception() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            raise ValueError("cleanup failed") from None

    child = asyncio.ensure_future(stubborn())

    async def parent() -> None:
        await asyncio.gather(child, return_exceptions=True)

    task = asyncio.ensure_future(parent())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert isinstance(child.exception(), ValueError)


def test_a_task_that_is_ready_when_its_loop_closes_is_freed_at_once(loop: Loop) -> None:
    async def main() -> None:
        while True:
            await asyncio.sleep(0)

    reports: list[str] = []
    loop.set_exception_handler(lambda _, context: reports.append(context["message"]))
    gc.disable()
    try:
        task = loop.create_task(main())
        loop.call_soon(loop.stop)
        loop.run_forever()
        gone = weakref.ref(task)
        del task
        loop.close()
        assert gone() is None
    finally:
        gc.enable()
    assert reports == ["Task was destroyed but it is pending!"]
