import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from loopcore import new_event_loop
from loopcore.sim.numbered import numbered, restart_numbers
from loopcore_backends.sim import ordered
from loopcore_backends.sim.replacing import installed


@pytest.fixture
def loop() -> Iterator[Any]:
    restart_numbers()
    loop = numbered(new_event_loop())
    yield loop
    loop.close()


def test_futures_and_tasks_hash_by_number(loop: Any) -> None:
    async def main() -> list[int]:
        future = loop.create_future()
        task = loop.create_task(asyncio.sleep(0))
        await task
        return [hash(each) for each in (asyncio.current_task(), future, task)]

    assert loop.run_until_complete(main()) == [1, 2, 3]


def test_all_tasks_knows_them_and_names_count_from_one(loop: Any) -> None:
    async def main() -> list[str]:
        tasks = [loop.create_task(asyncio.sleep(0)) for _ in range(3)]
        named = loop.create_task(asyncio.sleep(0), name="named")
        assert asyncio.all_tasks() == {asyncio.current_task(), named, *tasks}
        await asyncio.gather(named, *tasks)
        return [task.get_name() for task in (asyncio.current_task(), named, *tasks)]  # type: ignore[union-attr]

    assert loop.run_until_complete(main()) == ["Task-1", "named", "Task-2", "Task-3", "Task-4"]


def test_results_errors_and_cancellation_are_as_ever(loop: Any) -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            await loop.create_task(fail())
        task = asyncio.create_task(asyncio.Event().wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            made = group.create_task(asyncio.sleep(0, "result"))
        assert made.result() == "result"

    loop.run_until_complete(main())


def test_all_tasks_is_in_order_of_creation(loop: Any, world: Any) -> None:
    async def main() -> None:
        tasks = [asyncio.current_task(), *(loop.create_task(asyncio.sleep(0)) for _ in range(300))]
        assert list(asyncio.all_tasks()) == tasks
        await asyncio.wait(tasks[1:])  # type: ignore[arg-type]

    with installed(ordered.replacements(world)):
        loop.run_until_complete(main())
