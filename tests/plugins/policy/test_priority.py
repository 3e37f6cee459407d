"""The plugin `priority`: what is urgent goes first, in order; what is not is late, but never for ever."""

import asyncio
from typing import Any

import pytest

import loopcore
from loopcore.errors import UsageError
from loopcore_plugins.policy import Priority, priority

pytestmark = pytest.mark.loopcore_only


async def work_before_the_heartbeat() -> int:
    """A heartbeat among hundreds of tasks with work to do; return how many steps they make between two beats."""
    steps = 0
    beats: list[int] = []

    async def work() -> None:
        nonlocal steps
        for _ in range(20):
            steps += 1
            await asyncio.sleep(0)

    async def beat() -> None:
        for _ in range(10):
            beats.append(steps)
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(work()) for _ in range(500)]
    with priority(10):
        tasks.append(asyncio.create_task(beat()))
    await asyncio.gather(*tasks)
    return max(after - before for before, after in zip([0, *beats], beats, strict=False))


def test_without_it_a_heartbeat_waits_for_all_the_work(backend_name: str) -> None:
    assert loopcore.run(work_before_the_heartbeat(), backend=backend_name) == 500


def test_with_it_the_heartbeat_waits_for_one_budget(backend_name: str) -> None:
    plugins = [Priority(callbacks=10, seconds=None)]
    assert loopcore.run(work_before_the_heartbeat(), backend=backend_name, plugins=plugins) <= 10


async def order_of(levels: list[int]) -> list[tuple[int, int]]:
    loop = asyncio.get_running_loop()
    ran: list[tuple[int, int]] = []
    for number, level in enumerate(levels):
        with priority(level):
            loop.call_soon(ran.append, (level, number))
    while len(ran) < len(levels):
        await asyncio.sleep(0)
    return ran


def test_the_greater_goes_first_and_equals_in_order(backend_name: str) -> None:
    plugins = [Priority(patience=1000)]
    ran = loopcore.run(order_of([0, 5, -3, 5, 0, 7]), backend=backend_name, plugins=plugins)
    assert ran == [(7, 5), (5, 1), (5, 3), (0, 0), (0, 4), (-3, 2)]


def test_one_in_so_many_is_the_one_that_waited_longest(backend_name: str) -> None:
    plugins = [Priority(patience=3)]
    ran = loopcore.run(order_of([-1, 0, -1, 9, 9, 9, 9, 9]), backend=backend_name, plugins=plugins)
    # Marked are the third of each three: the oldest of all.
    assert [number for _, number in ran] == [3, 4, 0, 5, 6, 1, 7, 2]


@pytest.mark.parametrize("patience", [1, 2, 16])
def test_the_lowest_priority_waits_no_longer_than_stated(backend_name: str, patience: int) -> None:
    async def program() -> int:
        loop = asyncio.get_running_loop()
        urgent = 0
        older = 3
        done = loop.create_future()

        def flood() -> None:
            nonlocal urgent
            urgent += 1
            if not done.done():
                loop.call_soon(flood)

        with priority(-1):
            for _ in range(older):
                loop.call_soon(int)
            loop.call_soon(lambda: done.set_result(urgent))
        with priority(5):
            for _ in range(50):
                loop.call_soon(flood)
        return await done

    plugins = [Priority(patience=patience, callbacks=10, seconds=None)]
    assert loopcore.run(program(), backend=backend_name, plugins=plugins) <= patience * 4


def test_children_inherit_and_a_task_may_change_its_own(backend_name: str) -> None:
    async def program() -> list[str]:
        ran: list[str] = []

        async def child(name: str) -> None:
            await asyncio.sleep(0)
            ran.append(name)

        async def parent(name: str, level: int) -> None:
            with priority(level):
                await asyncio.create_task(child(name))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(parent("low", -1))
            tasks.create_task(parent("high", 1))
        return ran

    assert loopcore.run(program(), backend=backend_name, plugins=[Priority(seconds=None)]) == ["high", "low"]


def test_taken_out_at_run_time_it_leaves_the_rest_in_its_order(backend_name: str) -> None:
    async def program() -> list[str]:
        loop: Any = asyncio.get_running_loop()
        plugin = Priority(callbacks=1, seconds=None)
        loop.probes.register(plugin)
        ran: list[str] = []
        loop.call_soon(ran.append, "second")
        with priority(2):
            loop.call_soon(loop.probes.unregister, plugin)
        with priority(1):
            loop.call_soon(ran.append, "first")
        while len(ran) < 2:
            await asyncio.sleep(0)
        return ran

    assert loopcore.run(program(), backend=backend_name) == ["first", "second"]


def test_mistakes_are_errors() -> None:
    with pytest.raises(UsageError, match="patience must be a number of callbacks"):
        Priority(patience=0)
    with pytest.raises(TypeError), priority("high"):  # type: ignore[arg-type]
        pass
