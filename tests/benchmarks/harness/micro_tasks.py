"""Micro workloads: many tasks."""

from __future__ import annotations

import asyncio
import gc

from loopcore_bench.meter import Meter
from loopcore_bench.micro import sleep_often
from loopcore_bench.work import inside
from tests.benchmarks.harness.memory import resident_bytes

_GATHERED = 10_000
_GROUPED = 1_000
_SLEEPERS = 100


async def _nothing() -> None:
    """The shortest coroutine: it never suspends."""


@inside("sleep0_100", "one asyncio.sleep(0) of a hundred tasks", 200_000)
async def sleep0_many(meter: Meter, count: int) -> None:
    """The same with a ready queue a hundred deep, hence with colder caches."""
    each = max(1, count // _SLEEPERS)
    tasks = min(count, _SLEEPERS)
    with meter:
        await asyncio.gather(*[sleep_often(each) for _ in range(tasks)])


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
