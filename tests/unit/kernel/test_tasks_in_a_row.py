"""Futures and tasks, many one after another: nothing of an earlier one shows in a later one."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from loopcore.kernel.future import Future
from loopcore.kernel.task import Task

Loop = asyncio.AbstractEventLoop


async def nothing() -> None:
    pass


async def fail() -> None:
    raise ValueError("of the task")


def leave_pending(future: Any) -> None:
    future.add_done_callback(print)
    future.add_done_callback(repr)


def leave_failed(future: Any) -> None:
    future.set_exception(ValueError("of the future"))
    assert future.exception() is not None


def leave_cancelled(future: Any) -> None:
    future.cancel("a message")


def leave_asked(future: Any) -> None:
    next(iter(future))
    future.set_result([1])


ENDINGS: list[Callable[[Any], None]] = [leave_pending, leave_failed, leave_cancelled, leave_asked]


@pytest.mark.parametrize("leave", ENDINGS)
async def test_a_future_has_nothing_of_the_one_before(loop: Loop, leave: Callable[[Any], None]) -> None:
    for _ in range(3):
        earlier: Any = loop.create_future()
        earlier.note = 1
        leave(earlier)
        del earlier
        future: Any = loop.create_future()
        assert not future.done()
        assert not future.cancelled()
        assert not future._asyncio_future_blocking
        assert future._callbacks is None
        assert future.get_loop() is loop
        assert not hasattr(future, "note")
        with pytest.raises(asyncio.InvalidStateError):
            future.result()
        future.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            future.result()
        assert caught.value.args == ()
        del future


async def test_a_task_has_nothing_of_the_one_before(loop: Loop) -> None:
    for _ in range(3):
        named: Any = loop.create_task(nothing(), name="named")
        named.note = 1
        named.cancel("a message")
        await asyncio.wait([named])
        del named
        coroutine = nothing()
        task: Any = loop.create_task(coroutine)
        assert task.get_name().startswith("Task-")
        assert task.get_coro() is coroutine
        assert task.cancelling() == 0
        assert task in asyncio.all_tasks()
        assert await task is None
        assert task not in asyncio.all_tasks()
        assert not hasattr(task, "note")
        del task


@pytest.mark.parametrize("make", [lambda loop: loop.create_future(), lambda loop: loop.create_task(nothing())])
async def test_what_looks_at_one_that_has_gone_sees_that(loop: Loop, make: Callable[[Any], Any]) -> None:
    for _ in range(3):
        told: list[Any] = []
        made = make(loop)
        watched = weakref.ref(made, told.append)
        await asyncio.sleep(0)
        del made
        assert watched() is None
        assert told == [watched]
        other = make(loop)
        assert watched() is None
        assert len(weakref.getweakrefs(other)) <= 1  # asyncio's list of tasks
        other.attribute = 1
        await asyncio.sleep(0)
        del other
        assert not hasattr(make(loop), "attribute")
        await asyncio.sleep(0)


def test_reports_are_made_of_each_that_has_something_to_say(loop: Loop) -> None:
    reports: list[str] = []
    loop.set_exception_handler(lambda _, context: reports.append(context["message"]))

    async def main() -> None:
        for _ in range(3):
            loop.create_task(fail())
            await asyncio.sleep(0)
            loop.create_future().set_exception(ValueError("of the future"))
            loop.create_task(nothing())
            loop.create_future()
            await asyncio.sleep(0)

    loop.run_until_complete(main())
    gc.collect()
    assert sorted(reports) == [f"{what} exception was never retrieved" for what in ["Future"] * 3 + ["Task"] * 3]


async def test_what_the_collector_has_finalized_is_not_made_again_without_a_finalizer(loop: Loop) -> None:
    """A finalizer runs once (PEP 442): one that was finalized in a cycle must not be the next future."""
    reports: list[str] = []
    loop.set_exception_handler(lambda _, context: reports.append(context["message"]))
    for _ in range(20):
        future = loop.create_future()
        future.add_done_callback(lambda _, itself=future: None)
        del future
    gc.collect()
    for _ in range(20):
        loop.create_future().set_exception(ValueError("of the future"))
    assert len(reports) == 20


async def test_pending_tasks_that_go_are_reported_and_off_the_list(loop: Loop) -> None:
    reports: list[str] = []
    loop.set_exception_handler(lambda _, context: reports.append(context["message"]))

    async def wait() -> None:
        await loop.create_future()

    before = asyncio.all_tasks()
    for _ in range(3):
        loop.create_task(wait())
        await asyncio.sleep(0)
        gc.collect()
        assert asyncio.all_tasks() == before
        await loop.create_task(nothing())
    assert reports == ["Task was destroyed but it is pending!"] * 3


async def test_subclasses_end_as_they_are(loop: Loop) -> None:
    ended: list[str] = []

    class Telling(Future):
        def __del__(self) -> None:
            ended.append("future")
            super().__del__()

    class TellingTask(Task):
        def __del__(self) -> None:
            ended.append("task")
            super().__del__()

    for _ in range(3):
        Telling(loop=loop)
        TellingTask(nothing(), loop=loop)
        await asyncio.sleep(0)
        assert type(loop.create_future()) is not Telling
    assert sorted(ended) == ["future"] * 3 + ["task"] * 3


async def test_what_goes_with_a_task_may_make_another(loop: Loop) -> None:
    made: list[Any] = []

    class Result:
        def __del__(self) -> None:
            made.append(loop.create_future())
            made.append(loop.create_task(nothing()))

    async def give() -> Result:
        return Result()

    for _ in range(5):
        loop.create_task(give())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert len({id(each) for each in made}) == 10
    await asyncio.wait([each for each in made if isinstance(each, asyncio.Task)])
