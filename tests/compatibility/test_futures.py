"""Futures and tasks, method by method: asyncio's own classes are the oracle."""

import asyncio
import contextvars
import io
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import loopcore

Loop = asyncio.AbstractEventLoop


async def nothing() -> None: ...


def future_class(loop: Loop) -> Any:
    return type(loop.create_future())


def task_class(loop: Loop) -> Any:
    task = loop.create_task(nothing())
    loop.run_until_complete(task)
    return type(task)


@pytest.mark.covers("Future.__init__(loop)", "Future.get_loop")
def test_a_future_is_made_for_a_loop(loop: Loop) -> None:
    assert future_class(loop)(loop=loop).get_loop() is loop


@pytest.mark.covers("Future.__init__")
async def test_a_future_is_made_for_the_loop_that_runs(loop: Loop) -> None:
    made: Loop = future_class(loop)().get_loop()
    assert made is loop


@pytest.mark.differs(
    "Future.result",
    why="The traceback of an exception that a future raises ends in lines of loopcore, `kernel/future.py`; asyncio's "
    "future, in C, adds none.",
)
@pytest.mark.loopcore_only
async def test_the_traceback_of_a_failed_future_ends_in_loopcore(loop: Loop) -> None:
    future = loop.create_future()
    future.set_exception(ValueError())
    with pytest.raises(ValueError) as caught:
        await future
    last = traceback.extract_tb(caught.value.__traceback__).pop()
    assert last.filename.replace("\\", "/").endswith("loopcore/kernel/future.py")


@pytest.mark.covers("Future.done", "Future.result", "Future.exception", "Future.cancelled", "Future.set_result")
def test_a_future_with_a_result(loop: Loop) -> None:
    future = loop.create_future()
    assert (future.done(), future.cancelled()) == (False, False)
    for read in (future.result, future.exception):
        with pytest.raises(asyncio.InvalidStateError):
            read()
    future.set_result(5)
    assert (future.done(), future.cancelled(), future.result(), future.exception()) == (True, False, 5, None)


@pytest.mark.covers("Future.set_exception", "Future.result", "Future.exception")
def test_a_future_with_an_exception(loop: Loop) -> None:
    future = loop.create_future()
    error = ValueError("mine")
    future.set_exception(error)
    assert future.exception() is error
    with pytest.raises(ValueError, match="mine"):
        future.result()
    other = loop.create_future()
    other.set_exception(ValueError)
    assert isinstance(other.exception(), ValueError)


@pytest.mark.covers("Future.cancel(msg)", "Future.cancelled")
def test_a_cancelled_future_gives_the_message_on(loop: Loop) -> None:
    future = loop.create_future()
    assert future.cancel(msg="enough")
    assert not future.cancel()
    assert (future.done(), future.cancelled()) == (True, True)
    for read in (future.result, future.exception):
        with pytest.raises(asyncio.CancelledError) as caught:
            read()
        assert caught.value.args == ("enough",)


@pytest.mark.covers("Future.__await__", "Future.__iter__")
@pytest.mark.parametrize("way", ["__await__", "__iter__"])
async def test_a_future_is_waited_for_by_iterating_it(loop: Loop, way: str) -> None:
    future = loop.create_future()

    class Awaiting:
        def __await__(self) -> Any:
            return (yield from getattr(future, way)())

    loop.call_soon(future.set_result, 5)
    assert await Awaiting() == 5
    assert [*getattr(future, way)()] == []


@pytest.mark.covers("Task.__init__(loop, name, context)", "Task.get_loop", "Task.get_name")
def test_a_task_is_made_for_a_loop(loop: Loop) -> None:
    variable = contextvars.ContextVar("variable", default="outside")
    context = contextvars.copy_context()
    context.run(variable.set, "inside")

    async def read() -> str:
        return variable.get()

    task = task_class(loop)(read(), loop=loop, name="reader", context=context)
    if hasattr(task, "get_context"):  # asyncio: since 3.12
        assert task.get_context() is context
    assert (task.get_loop(), task.get_name()) == (loop, "reader")
    assert loop.run_until_complete(task) == "inside"


@pytest.mark.covers("Task.__init__(loop, eager_start)", "Task.get_context")
async def test_an_eager_task_begins_at_once(loop: Loop, backend_name: str) -> None:
    if backend_name == "asyncio" and sys.version_info < (3, 12):
        pytest.skip("asyncio has eager tasks since Python 3.12")
    make: Any = asyncio.Task if backend_name == "asyncio" else loopcore.Task
    task = make(nothing(), loop=loop, eager_start=True)
    assert task.done()
    assert task.get_context() is not None


@pytest.mark.covers("EventLoop.create_task(kwargs)")
async def test_create_task_hands_further_arguments_to_the_task(loop: Any, backend_name: str) -> None:
    if backend_name == "asyncio" and sys.version_info < (3, 13, 3):
        pytest.skip("asyncio's create_task takes them since Python 3.13.3")
    assert loop.create_task(nothing(), eager_start=True).done()
    later = loop.create_task(nothing(), eager_start=False)
    assert not later.done()
    await later


@pytest.mark.covers("Task.done", "Task.cancelled", "Task.result", "Task.exception")
def test_a_task_reports_its_outcome(loop: Loop) -> None:
    async def end(how: Callable[[], Any]) -> Any:
        return how()

    def fail() -> None:
        raise ValueError("mine")

    def be_cancelled() -> None:
        raise asyncio.CancelledError("enough")

    tasks = [loop.create_task(end(how)) for how in (lambda: 5, fail, be_cancelled)]
    assert not any(task.done() for task in tasks)
    with pytest.raises(asyncio.InvalidStateError):
        tasks[0].result()
    with pytest.raises(asyncio.InvalidStateError):
        tasks[0].exception()
    loop.run_until_complete(asyncio.wait(tasks))
    fine, failed, cancelled = tasks
    assert all(task.done() for task in tasks)
    assert [task.cancelled() for task in tasks] == [False, False, True]
    assert (fine.result(), fine.exception()) == (5, None)
    with pytest.raises(ValueError, match="mine"):
        failed.result()
    assert isinstance(failed.exception(), ValueError)
    with pytest.raises(asyncio.CancelledError):
        cancelled.exception()


@pytest.mark.covers("Task.add_done_callback(context)", "Task.remove_done_callback")
def test_callbacks_of_a_task(loop: Loop) -> None:
    variable = contextvars.ContextVar("variable", default="outside")
    context = contextvars.copy_context()
    context.run(variable.set, "inside")
    seen: list[Any] = []
    task = loop.create_task(nothing())

    def note(done: Any) -> None:
        seen.append((done, variable.get()))

    task.add_done_callback(pytest.fail)
    task.add_done_callback(note, context=context)
    task.add_done_callback(pytest.fail)
    assert task.remove_done_callback(pytest.fail) == 2
    assert task.remove_done_callback(pytest.fail) == 0
    loop.run_until_complete(task)
    assert seen == [(task, "inside")]


@pytest.mark.covers("Task.__await__", "Task.__iter__")
@pytest.mark.parametrize("way", ["__await__", "__iter__"])
async def test_a_task_is_waited_for_by_iterating_it(loop: Loop, way: str) -> None:
    async def five() -> int:
        return 5

    class Awaiting:
        def __init__(self, task: Any) -> None:
            self.task = task

        def __await__(self) -> Any:
            return (yield from getattr(self.task, way)())

    assert await Awaiting(loop.create_task(five())) == 5


@pytest.mark.covers("Task.set_result", "Task.set_exception")
def test_a_tasks_result_is_its_coroutines(loop: Loop) -> None:
    task: Any = loop.create_task(nothing())
    with pytest.raises(RuntimeError, match="does not support set_result"):
        task.set_result(5)
    with pytest.raises(RuntimeError, match="does not support set_exception"):
        task.set_exception(ValueError())
    assert loop.run_until_complete(task) is None


@pytest.mark.covers("Task.print_stack(file)", "Task.get_stack")
async def test_a_cancelled_task_has_no_stack(loop: Loop) -> None:
    task = loop.create_task(asyncio.sleep(10))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    out = io.StringIO()
    task.print_stack(file=out)
    assert task.get_stack() == []
    assert out.getvalue() == f"No stack for {task!r}\n"


async def test_a_task_is_not_shown_to_wait_for_one_of_another_name(loop: Loop) -> None:
    seen: list[str] = []
    inner = loop.create_task(asyncio.sleep(0))
    inner.add_done_callback(lambda _: seen.append(repr(outer)))

    async def wait() -> None:
        await inner

    outer = loop.create_task(wait())
    await outer
    # loopcore leaves out a task that has ended, while the other has not gone on.
    assert " wait_for=" not in seen[0] or f"name={inner.get_name()!r}" in seen[0]


@pytest.mark.covers("Task.print_stack(limit, file)", "Task.get_stack(limit)")
def test_the_stack_of_a_failed_task_can_be_cut_short(loop: Loop) -> None:
    def fail() -> None:
        raise ValueError("mine")

    async def outer() -> None:
        fail()

    task = loop.create_task(outer())
    loop.run_until_complete(asyncio.wait([task]))
    assert isinstance(task.exception(), ValueError)
    for limit, functions in ((None, ["outer", "fail"]), (1, ["outer"])):
        out = io.StringIO()
        task.print_stack(limit=limit, file=out)
        assert [frame.f_code.co_name for frame in task.get_stack(limit=limit)] == functions
        assert [line.split(" in ")[1].strip() for line in out.getvalue().splitlines() if " in " in line] == functions
