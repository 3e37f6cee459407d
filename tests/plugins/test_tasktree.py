"""The task tree: who waits for whom, and for what, seen from outside."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from loopcore_plugins._tasktree import TaskView, awaiting, coroutine_stack, view_tasks

HERE = __file__


async def leaf() -> None:
    await asyncio.get_running_loop().create_future()


async def middle() -> None:
    await leaf()


def by_name(loop: asyncio.AbstractEventLoop) -> dict[str, TaskView]:
    return {view.name: view for view in view_tasks(loop).values()}


def observe(loop: Any, program: Coroutine[Any, Any, Any], look: Callable[[], Any]) -> Any:
    """Run `program` as task "program" until nothing moves; return what `look` returns then."""

    async def run() -> Any:
        task = loop.create_task(program, name="program")
        for _ in range(20):
            await asyncio.sleep(0)
        seen = look()
        for each in asyncio.all_tasks() - {asyncio.current_task()}:
            each.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return seen

    return loop.run_until_complete(run())


async def directly(inner: asyncio.Task[None]) -> None:
    await inner


async def through_gather(inner: asyncio.Task[None]) -> None:
    await asyncio.gather(inner, asyncio.sleep(3600))


async def through_nested_gathers(inner: asyncio.Task[None]) -> None:
    await asyncio.gather(asyncio.gather(inner))


async def through_wait(inner: asyncio.Task[None]) -> None:
    await asyncio.wait([inner])


async def through_wait_for(inner: asyncio.Task[None]) -> None:
    await asyncio.wait_for(inner, 3600)


async def through_shield(inner: asyncio.Task[None]) -> None:
    await asyncio.shield(inner)


def test_the_tasks_of_an_anyio_group_are_awaited_by_the_task_that_has_the_group(loop: Any) -> None:
    anyio = pytest.importorskip("anyio")

    async def parent() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(leaf, name="child")

    views = observe(loop, parent(), lambda: by_name(loop))
    assert views["child"].awaited_by == (views["program"].id,)


@pytest.mark.parametrize(
    "how", [directly, through_gather, through_nested_gathers, through_wait, through_wait_for, through_shield]
)
def test_a_task_is_awaited_by_the_one_that_waits_for_it(
    loop: Any, how: Callable[[asyncio.Task[None]], Coroutine[Any, Any, None]]
) -> None:
    async def program() -> None:
        await how(asyncio.create_task(middle(), name="inner"))

    views = observe(loop, program(), lambda: by_name(loop))
    assert views["inner"].awaited_by == (views["program"].id,)
    assert views["program"].awaited_by == ()


def test_a_task_of_a_group_is_awaited_by_the_owner_of_the_group(loop: Any) -> None:
    async def program() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(middle(), name="one")
            group.create_task(middle(), name="two")

    views = observe(loop, program(), lambda: by_name(loop))
    assert views["one"].awaited_by == views["two"].awaited_by == (views["program"].id,)


def test_the_chain_of_those_that_wait_begins_with_the_nearest(loop: Any) -> None:
    async def outer(depth: int) -> None:
        await asyncio.create_task(outer(depth - 1) if depth else leaf(), name=f"depth-{depth}")

    def look() -> list[str]:
        views = view_tasks(loop)
        (inner,) = [view for view in views.values() if view.name == "depth-0"]
        return [view.name for view in awaiting(views, inner.id)]

    assert observe(loop, outer(2), look) == ["depth-1", "depth-2", "program"]


def test_the_stack_of_a_task_is_its_chain_of_coroutines(loop: Any) -> None:
    view = observe(loop, middle(), lambda: by_name(loop)["program"])
    assert [(place.file, place.function) for place in view.stack] == [(HERE, "middle"), (HERE, "leaf")]
    assert all(place.line > 0 for place in view.stack)
    assert view.coroutine == "middle"
    assert view.state == "waiting"
    assert view.waits_for == "leaf"


def test_the_stack_goes_through_asynchronous_generators(loop: Any) -> None:
    async def numbers() -> AsyncIterator[int]:
        await leaf()
        yield 1

    async def program() -> None:
        async for _ in numbers():
            pass

    view = observe(loop, program(), lambda: by_name(loop)["program"])
    assert [place.function.rpartition(".")[2] for place in view.stack] == ["program", "numbers", "leaf"]


def test_what_a_task_waits_for_is_said_in_words(loop: Any) -> None:
    async def program() -> None:
        queue: asyncio.Queue[int] = asyncio.Queue()
        getter = asyncio.create_task(queue.get(), name="getter")
        both = asyncio.create_task(through_gather(getter), name="both")  # type: ignore[arg-type]
        asyncio.create_task(directly(both), name="direct")
        await asyncio.sleep(3600)

    views = observe(loop, program(), lambda: by_name(loop))
    assert views["getter"].waits_for == "Queue.get"
    assert views["both"].waits_for == "gather of 2"
    assert views["direct"].waits_for == "task 'both'"
    assert views["program"].waits_for == "sleep"


async def test_running_and_ready_tasks_wait_for_nothing(loop: Any) -> None:
    loop.create_task(asyncio.sleep(0), name="ready")
    task = asyncio.current_task()
    assert task is not None
    task.set_name("me")
    views = by_name(loop)
    await asyncio.sleep(0)
    assert (views["me"].state, views["me"].waits_for) == ("running", "")
    assert (views["ready"].state, views["ready"].waits_for) == ("ready", "")


def test_a_coroutine_that_has_ended_has_no_stack() -> None:
    coro = leaf()
    coro.close()
    assert coroutine_stack(coro) == ()


INSTALLED: dict[str, Any] = {}
exec(compile("def call(function): function()", "/srv/site-packages/framework.py", "exec"), INSTALLED)


class AsyncIOBackend:
    """As in anyio."""

    @classmethod
    async def run_sync_in_worker_thread(cls, func: Any, args: tuple[Any, ...]) -> Any:
        """Wait for a function that runs in a thread."""
        return await asyncio.Future[None]()


def call(function: Any) -> None:
    """Call a function of the program, as FastAPI does with the endpoint."""


def endpoint() -> None:
    """Return nothing."""


@pytest.mark.parametrize(
    ("passed", "name"),
    [
        (endpoint, "endpoint"),
        (functools.partial(endpoint), "endpoint"),
        (functools.partial(call, function=endpoint), "call"),
        (functools.partial(INSTALLED["call"], function=endpoint), "endpoint"),
    ],
    ids=["function", "partial", "own wrapper", "wrapper of a package"],
)
def test_the_function_in_a_thread_of_anyio_ends_the_stack(passed: Any, name: str) -> None:
    async def suspended() -> list[str]:
        task = asyncio.ensure_future(AsyncIOBackend.run_sync_in_worker_thread(passed, ()))
        await asyncio.sleep(0)
        places = coroutine_stack(task.get_coro())
        task.cancel()
        return [place.function for place in places]

    assert asyncio.run(suspended())[-1] == name
