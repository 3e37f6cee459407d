"""Micro workloads: tasks and futures."""

from __future__ import annotations

import asyncio
import gc

from loopcore_bench.meter import Meter, resident_bytes
from loopcore_bench.work import inside

_GATHERED = 10_000
_GROUPED = 1_000
_SLEEPERS = 100


async def _nothing() -> None:
    """The shortest coroutine: it never suspends."""


async def _sleep_often(count: int) -> None:
    sleep = asyncio.sleep
    for _ in range(count):
        await sleep(0)


@inside("sleep0", "one asyncio.sleep(0) of a single task", 200_000)
async def sleep0(meter: Meter, count: int) -> None:
    """The bare task switch: suspend, queue, resume."""
    with meter:
        await _sleep_often(count)


@inside("sleep0_100", "one asyncio.sleep(0) of a hundred tasks", 200_000)
async def sleep0_many(meter: Meter, count: int) -> None:
    """The same with a ready queue a hundred deep, hence with colder caches."""
    each = max(1, count // _SLEEPERS)
    tasks = min(count, _SLEEPERS)
    with meter:
        await asyncio.gather(*[_sleep_often(each) for _ in range(tasks)])


@inside("pingpong", "one future made, set and awaited between two tasks", 200_000)
async def pingpong(meter: Meter, count: int) -> None:
    """Each player hangs up a new future, wakes the other one and waits: one switch an operation."""
    loop = asyncio.get_running_loop()
    create_future = loop.create_future
    waiting: asyncio.Future[None] | None = None

    async def play(turns: int) -> None:
        nonlocal waiting
        for _ in range(turns):
            other = waiting
            waiting = mine = create_future()
            if other is not None:
                other.set_result(None)
            await mine
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    first, second = count - count // 2, count // 2
    with meter:
        players = [loop.create_task(play(first)), loop.create_task(play(second))]
        for player in players:
            await player


@inside("spawn", "one task made and awaited", 100_000)
async def spawn(meter: Meter, count: int) -> None:
    """create_task of an empty coroutine, then await it."""
    create_task = asyncio.get_running_loop().create_task
    with meter:
        for _ in range(count):
            await create_task(_nothing())


@inside("gather", "one of ten thousand coroutines under gather", 100_000)
async def gather(meter: Meter, count: int) -> None:
    """Most of it is the standard library's own code, the same for every loop."""
    with meter:
        left = count
        while left > 0:
            batch = min(left, _GATHERED)
            left -= batch
            await asyncio.gather(*[_nothing() for _ in range(batch)])


@inside("taskgroup", "one task in a TaskGroup of a thousand", 100_000)
async def taskgroup(meter: Meter, count: int) -> None:
    """Structured spawn: the group's done callback is part of the price."""
    with meter:
        left = count
        while left > 0:
            batch = min(left, _GROUPED)
            left -= batch
            async with asyncio.TaskGroup() as group:
                for _ in range(batch):
                    group.create_task(_nothing())


@inside("task_memory", "one task that waits for a future of its own", 50_000, primary="bytes", warm=False)
async def task_memory(meter: Meter, count: int) -> None:
    """Growth of the resident set per pending task: task, coroutine, frame, future, list entry and allocator slack."""
    loop = asyncio.get_running_loop()

    async def pend(future: asyncio.Future[None]) -> None:
        await future

    gc.collect()
    before = resident_bytes()
    with meter:
        futures: list[asyncio.Future[None]] = [loop.create_future() for _ in range(count)]
        tasks = [loop.create_task(pend(future)) for future in futures]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    meter.extra["bytes"] = (resident_bytes() - before) / count
    for future in futures:
        future.set_result(None)
    for task in tasks:
        await task
