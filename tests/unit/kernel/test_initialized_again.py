"""Futures and tasks whose `__init__` is called again: an error from Python 3.15 on (docs/adr/0007)."""

import asyncio
import sys
from typing import Any

import pytest

from loopcore.kernel.future import Future
from loopcore.kernel.task import Task

Loop = asyncio.AbstractEventLoop

before_315 = pytest.mark.skipif(sys.version_info >= (3, 15), reason="from Python 3.15 on this is an error")


async def nothing() -> None:
    pass


@before_315
async def test_a_future_that_is_initialized_again_owes_its_callback(loop: Loop) -> None:
    called: list[Any] = []
    for make in (lambda: Future(loop=loop), lambda: Task(nothing(), loop=loop)):
        future: Any = make()
        future.add_done_callback(called.append)
        if isinstance(future, asyncio.Task):
            await asyncio.sleep(0)
            future.__init__(nothing(), loop=loop)
        else:
            future.set_result(None)
            future.__init__(loop=loop)
        assert not future.done()
        future.add_done_callback(called.append)
        await asyncio.sleep(0)
        assert called == [future]
        if not isinstance(future, asyncio.Task):
            future.set_result(None)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert called == [future, future]
        called.clear()


@before_315
async def test_a_future_that_is_initialized_and_finished_again_calls_in_order(loop: Loop) -> None:
    called: list[str] = []
    reports: list[Any] = []
    loop.set_exception_handler(lambda _, context: reports.append(context))
    future: Any = Future(loop=loop)
    future.add_done_callback(lambda _: called.append("first"))
    future.set_result(None)
    loop.call_soon(called.append, "between")
    future.__init__(loop=loop)
    future.add_done_callback(lambda _: called.append("second"))
    future.set_result(None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert called == ["first", "between", "second"]
    assert reports == []


@before_315
@pytest.mark.parametrize("other", ["as this one", "asyncio's"])
def test_a_task_that_is_initialized_for_another_loop_runs_there(loop_factory: Any, other: str) -> None:
    loop = loop_factory()
    another = asyncio.SelectorEventLoop() if other == "asyncio's" else loop_factory()
    called: list[Any] = []
    made: list[Any] = []

    async def tell() -> None:
        called.append(asyncio.get_running_loop())

    async def make() -> None:
        made.append(Task(tell(), loop=loop))
        made[0].add_done_callback(called.append)
        loop.call_soon(loop.stop)  # when the callback is due

    making = loop.create_task(make())
    loop.run_forever()
    assert making.done()
    assert called == [loop]
    made[0].__init__(tell(), loop=another)
    for _ in range(2):
        another.run_until_complete(asyncio.sleep(0))
    assert called == [loop, another]
    loop.run_until_complete(asyncio.sleep(0))
    assert called == [loop, another, made[0]]
    another.close()


@pytest.mark.skipif(sys.version_info < (3, 15), reason="before Python 3.15 it starts anew")
@pytest.mark.parametrize("classes", [(Future, Task), (asyncio.Future, asyncio.Task)], ids=["loopcore's", "asyncio's"])
async def test_a_second_initialization_is_an_error_and_changes_nothing(loop: Loop, classes: tuple[Any, Any]) -> None:
    """Issue 33."""
    make_future, make_task = classes

    async def answer() -> str:
        return "the task's"

    future = make_future(loop=loop)
    future.set_result("the future's")
    task = make_task(answer(), loop=loop)
    left = nothing()
    with pytest.raises(RuntimeError, match="Future object is already initialized"):
        future.__init__(loop=loop)
    with pytest.raises(RuntimeError, match="Task object is already initialized"):
        task.__init__(left, loop=loop)
    left.close()
    assert await future == "the future's"
    assert await task == "the task's"
