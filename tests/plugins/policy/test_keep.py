"""The plugin `keep`: a task that nothing but its own future refers to is not lost to the garbage collector."""

import asyncio
import gc
import weakref
from typing import Any

import pytest

import loopcore
from loopcore_plugins.policy import Keep

pytestmark = pytest.mark.loopcore_only


class Subscriptions:
    """A registry as libraries have them: it keeps no subscriber alive."""

    def __init__(self) -> None:
        self.waiting: weakref.WeakSet[Any] = weakref.WeakSet()

    async def receive(self, received: list[str]) -> None:
        future = asyncio.get_running_loop().create_future()
        self.waiting.add(future)
        received.append(await future)

    def publish(self, message: str) -> None:
        for future in self.waiting:
            future.set_result(message)


async def subscribe_and_publish() -> list[str]:
    """Start three subscribers without keeping their tasks, collect garbage, publish."""
    subscriptions = Subscriptions()
    received: list[str] = []
    for _ in range(3):
        asyncio.get_running_loop().create_task(subscriptions.receive(received))
    await asyncio.sleep(0)
    gc.collect()
    subscriptions.publish("news")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return received


@pytest.mark.reports_errors
def test_without_it_waiting_tasks_are_collected(backend_name: str) -> None:
    assert loopcore.run(subscribe_and_publish(), backend=backend_name) == []


def test_with_it_they_get_their_message(backend_name: str) -> None:
    keep = Keep()
    assert loopcore.run(subscribe_and_publish(), backend=backend_name, plugins=[keep]) == ["news"] * 3
    assert len(keep) == 0


def test_tasks_that_are_done_are_let_go(backend_name: str) -> None:
    keep = Keep()

    async def fail() -> None:
        raise ValueError

    async def program() -> tuple[int, int]:
        tasks = [asyncio.create_task(asyncio.sleep(0)), asyncio.create_task(fail()), asyncio.create_task(fail())]
        tasks[2].cancel()
        held = len(keep)
        await asyncio.gather(*tasks, return_exceptions=True)
        return held, len(keep)

    assert loopcore.run(program(), backend=backend_name, plugins=[keep]) == (4, 1)


def test_the_end_of_the_loop_lets_go_of_tasks_that_wait(backend_name: str) -> None:
    keep = Keep()
    loop = loopcore.new_event_loop(backend=backend_name, plugins=[keep])
    waiting: Any = loop.create_task(asyncio.Event().wait())
    loop.run_until_complete(asyncio.sleep(0))
    assert len(keep) == 1
    loop.close()
    assert len(keep) == 0
    waiting._log_destroy_pending = False


def test_registered_at_run_time_it_holds_what_is_there_until_it_goes(backend_name: str) -> None:
    keep = Keep()

    async def program() -> tuple[int, int]:
        probes: Any = asyncio.get_running_loop().probes  # type: ignore[attr-defined]
        other = asyncio.create_task(asyncio.sleep(0))
        probes.register(keep)
        held = len(keep)
        probes.unregister(keep)
        await other
        return held, len(keep)

    assert loopcore.run(program(), backend=backend_name) == (2, 0)


def test_registered_at_run_time_it_holds_no_tasks_of_a_task_factory(backend_name: str) -> None:
    keep = Keep()

    async def program() -> int:
        loop: Any = asyncio.get_running_loop()
        loop.set_task_factory(lambda loop, coro, **options: asyncio.Task(coro, loop=loop, **options))
        other = loop.create_task(asyncio.sleep(0))
        loop.probes.register(keep)
        await other
        return len(keep)

    assert loopcore.run(program(), backend=backend_name) == 1
