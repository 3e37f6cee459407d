"""Channels between threads, each with a loop of its own. They end when everything has arrived, or never."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from loopcore.sync import Mutex, broadcast, mpmc, oneshot, watch
from tests.unit.sync.conftest import Run

VALUES = 2000
PATIENCE = 60


def together(run: Run, *mains: Callable[[], Coroutine[Any, Any, Any]]) -> list[Any]:
    """Run each in a thread of its own, on a loop of its own; return what they return."""
    with ThreadPoolExecutor(len(mains)) as pool:
        jobs = [pool.submit(lambda main: run(main()), main) for main in mains]
        return [job.result(PATIENCE) for job in jobs]


@pytest.mark.parametrize("capacity", [1, 64])
def test_mpmc_brings_everything_from_several_threads(run: Run, capacity: int) -> None:
    sender, receiver = mpmc.Channel[tuple[int, int]](capacity, threadsafe=True)
    senders = [sender, sender.clone(), sender.clone()]

    def producer(name: int) -> Callable[[], Coroutine[Any, Any, None]]:
        async def produce() -> None:
            with senders[name]:
                for number in range(VALUES):
                    await senders[name].send((name, number))

        return produce

    async def consume() -> list[tuple[int, int]]:
        return [value async for value in receiver]

    received = together(run, producer(0), producer(1), producer(2), consume)[3]
    for name in range(3):
        assert [number for sent_by, number in received if sent_by == name] == list(range(VALUES))


def test_several_threads_share_the_values(run: Run) -> None:
    sender, receiver = mpmc.Channel[int](4, threadsafe=True)

    async def produce() -> None:
        with sender:
            for number in range(VALUES):
                await sender.send(number)

    async def consume() -> list[int]:
        return [value async for value in receiver]

    _, first, second = together(run, produce, consume, consume)
    assert first == sorted(first)
    assert second == sorted(second)
    assert sorted(first + second) == list(range(VALUES))


@pytest.mark.parametrize("overflow", ["wait", "lag"])
def test_broadcast_reaches_every_thread(run: Run, overflow: broadcast.Overflow) -> None:
    sender, first = broadcast.Channel[int](16, overflow=overflow, threadsafe=True)
    second = sender.subscribe()

    async def produce() -> None:
        with sender:
            for number in range(VALUES):
                await sender.send(number)

    def consumer(receiver: broadcast.Receiver[int]) -> Callable[[], Coroutine[Any, Any, list[Any]]]:
        async def consume() -> list[Any]:
            return [item async for item in receiver.with_gaps()]

        return consume

    _, *seen = together(run, produce, consumer(first), consumer(second))
    for items in seen:
        at = 0
        for item in items:
            if isinstance(item, int):
                assert item == at
                at += 1
            else:
                assert overflow == "lag"
                at += item.missed
        assert at == VALUES


def test_watch_and_oneshot_cross_threads(run: Run) -> None:
    progress, view = watch.Channel(0, threadsafe=True)
    answer, question = oneshot.Channel[str](threadsafe=True)

    async def work() -> None:
        for number in range(VALUES):
            progress.send(number + 1)
            if number % 100 == 0:
                await asyncio.sleep(0)
        answer.send("done")

    async def look() -> tuple[int, str]:
        return await view.wait_for(lambda value: value == VALUES), await question

    assert together(run, work, look)[1] == (VALUES, "done")


def test_a_mutex_excludes_other_threads(run: Run) -> None:
    mutex = Mutex({"count": 0}, threadsafe=True)
    inside: list[int] = []

    async def add() -> None:
        for _ in range(300):
            async with mutex as guard:
                inside.append(threading.get_ident())
                count = guard.value["count"]
                await asyncio.sleep(0)
                guard.value["count"] = count + 1
                assert inside.pop() == threading.get_ident()
                assert not inside

    together(run, add, add, add)

    async def look() -> int:
        async with mutex as guard:
            return guard.value["count"]

    assert run(look()) == 900


def test_a_loop_that_closed_while_it_waited_passes_the_value_on(run: Run) -> None:
    sender, receiver = mpmc.Channel[str](1, threadsafe=True)
    gone = asyncio.SelectorEventLoop()
    orphan: Any = receiver.recv()

    async def begin() -> None:
        orphan.send(None)

    gone.run_until_complete(begin())
    gone.close()
    sender.try_send("value")
    assert run(receiver.recv()) == "value"
