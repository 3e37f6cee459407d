"""What others see of tasks and futures: the list of all tasks, the text that stands for one. All of issue 3."""

import asyncio
import gc
import re
from typing import Any

import pytest

import loopcore
from loopcore.kernel import visible

pytestmark = pytest.mark.loopcore_only

Loop = asyncio.AbstractEventLoop


class OurFuture(loopcore.Future):  # type: ignore[misc, valid-type]
    pass


class OurTask(loopcore.Task):  # type: ignore[misc, valid-type]
    pass


async def test_an_eager_task_is_listed_from_its_first_step_to_its_end(loop: Loop) -> None:
    async def child(wait: asyncio.Future[None] | None) -> set[Any]:
        listed = asyncio.all_tasks()
        if wait is not None:
            await wait
        return listed

    wait = loop.create_future()
    waiting = loopcore.Task(child(wait), loop=loop, eager_start=True)
    finished = loopcore.Task(child(None), loop=loop, eager_start=True)
    assert finished in finished.result()
    assert finished not in asyncio.all_tasks()
    assert waiting in asyncio.all_tasks()
    wait.set_result(None)
    assert waiting in await waiting
    assert waiting not in asyncio.all_tasks()


@pytest.mark.skipif(loopcore.Task is not visible.Task, reason="not an asyncio.Task")
async def test_a_task_is_not_listed_while_it_is_being_made(loop: Loop) -> None:
    async def main() -> None: ...

    task = loopcore.Task.__new__(loopcore.Task)
    coro = main()
    asyncio.Task.__init__(task, coro, loop=loop)  # as loopcore.Task does first: from here on asyncio lists it
    try:
        assert task not in asyncio.all_tasks()
    finally:
        coro.close()


@pytest.mark.parametrize("make", ["create_task", "Task"])
async def test_a_name_is_converted_once(loop: Loop, make: str) -> None:
    class Name:
        def __str__(self) -> str:
            listed.append(asyncio.all_tasks())
            return "converted"

    async def main() -> None: ...

    listed: list[set[asyncio.Task[Any]]] = []
    task = (
        loop.create_task(main(), name=Name())
        if make == "create_task"
        else loopcore.Task(main(), loop=loop, name=Name())
    )  # type: ignore[arg-type]
    assert (task.get_name(), listed) == ("converted", [{asyncio.current_task()}])
    await task


def test_a_subclass_is_called_by_its_own_name(loop: Loop) -> None:
    async def main() -> None: ...

    assert re.match("^<OurFuture pending", repr(OurFuture(loop=loop)))
    task = OurTask(main(), loop=loop, name="mine")
    assert re.match("^<OurTask pending name='mine' coro=<", repr(task))
    loop.run_until_complete(task)
    assert re.match("^<OurTask finished name='mine' coro=<", repr(task))


def test_a_future_that_contains_itself_is_cut_short(loop: Loop) -> None:
    future = loop.create_future()
    future.set_result(future)
    assert repr(future) == "<Future finished result=...>"


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("make", [loopcore.Task, asyncio.Task])
async def test_a_failed_task_that_nobody_holds_is_reported_without_the_garbage_collector(
    loop: Loop, make: Any, debug: bool
) -> None:
    loop.set_debug(debug)
    reports: list[str] = []
    loop.set_exception_handler(lambda _, context: reports.append(context["message"]))

    async def fail() -> None:
        raise ZeroDivisionError

    gc.disable()
    try:
        make(fail(), loop=loop)
        await asyncio.sleep(0)
        assert reports == ["Task exception was never retrieved"]
    finally:
        gc.enable()
