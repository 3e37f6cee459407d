"""The workloads inside a loop: a callback, a task switch, two alternating tasks, a task's life, a timeout's life."""

from __future__ import annotations

import asyncio
import random

from loopcore_bench.meter import Meter
from loopcore_bench.work import inside

_SEED = 20
_FAR = 3600.0
_TICK = 1000


@inside("call_soon", "one callback that schedules the next", 300_000)
async def call_soon_chain(meter: Meter, count: int) -> None:
    """A chain: the ready queue never holds more than one entry."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    call_soon = loop.call_soon
    left = count

    def step() -> None:
        nonlocal left
        left -= 1
        if left > 0:
            call_soon(step)
        else:
            done.set_result(None)

    with meter:
        call_soon(step)
        await done


async def sleep_often(count: int) -> None:
    """Await `asyncio.sleep(0)` `count` times."""
    sleep = asyncio.sleep
    for _ in range(count):
        await sleep(0)


@inside("sleep0", "one asyncio.sleep(0) of a single task", 200_000)
async def sleep0(meter: Meter, count: int) -> None:
    """The bare task switch: suspend, queue, resume."""
    with meter:
        await sleep_often(count)


@inside("pingpong", "one future made, set and awaited between two tasks", 200_000)
async def pingpong(meter: Meter, count: int) -> None:
    """Each player publishes a new future, wakes the other one and waits: one switch an operation."""
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


async def _return() -> None:
    """The shortest coroutine: it never suspends."""


@inside("spawn", "one task made and awaited", 100_000)
async def spawn(meter: Meter, count: int) -> None:
    """create_task of an empty coroutine, then await it."""
    create_task = asyncio.get_running_loop().create_task
    with meter:
        for _ in range(count):
            await create_task(_return())


def _nothing() -> None:
    """A timer callback without effect."""


def random_delays(count: int, low: float, high: float) -> list[float]:
    """Delays in random order, the same in every run: sorted insertion would be a heap's best case."""
    source = random.Random(_SEED)
    return [source.uniform(low, high) for _ in range(count)]


@inside("timer_cancel", "one call_later cancelled at once", 100_000)
async def timer_cancel(meter: Meter, count: int) -> None:
    """The life of almost every timeout. The loop gets a tick every thousand, to clean up if it wants to."""
    call_later = asyncio.get_running_loop().call_later
    delays = random_delays(count, _FAR, 2 * _FAR)
    with meter:
        for number, delay in enumerate(delays):
            call_later(delay, _nothing).cancel()
            if number % _TICK == 0:
                await asyncio.sleep(0)
