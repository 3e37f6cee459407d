"""Micro workloads: timers, their cost, their memory, their precision."""

from __future__ import annotations

import asyncio
import gc
import time

from loopcore_bench.meter import Meter, percentile
from loopcore_bench.micro import random_delays
from loopcore_bench.work import inside
from tests.benchmarks.harness.memory import resident_bytes

_FAR = 3600.0
_APART = 0.5e-6
"""Seconds between two deadlines: as of 100,000 timers within 50 ms, however many there are."""
_NAP = 0.0003
_TICK = 1000


def _nothing() -> None:
    """A timer that matters to nobody."""


@inside("timer_insert", "one call_later among far deadlines", 100_000)
async def timer_insert(meter: Meter, count: int) -> None:
    """Only the insertion is measured; the timers are cancelled afterwards."""
    call_later = asyncio.get_running_loop().call_later
    delays = random_delays(count, _FAR, 2 * _FAR)
    with meter:
        handles = [call_later(delay, _nothing) for delay in delays]
    for handle in handles:
        handle.cancel()


@inside("timer_fire", "one timer inserted and fired, two due in a microsecond", 100_000)
async def timer_fire(meter: Meter, count: int) -> None:
    """Short timers; CPU time counts here, wall time holds the waiting as well."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    delays = random_delays(count, 0.0, count * _APART)
    left = count

    def fire() -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set_result(None)

    with meter:
        for delay in delays:
            loop.call_later(delay, fire)
        await done


@inside("timer_memory", "one cancelled timer with a far deadline", 200_000, primary="bytes", warm=False)
async def timer_memory(meter: Meter, count: int) -> None:
    """What stays in the resident set when timers were cancelled and the loop had its ticks."""
    call_later = asyncio.get_running_loop().call_later
    delays = random_delays(count, _FAR, 2 * _FAR)
    gc.collect()
    before = resident_bytes()
    with meter:
        for number, delay in enumerate(delays):
            call_later(delay, _nothing).cancel()
            if number % _TICK == 0:
                await asyncio.sleep(0)
    meter.extra["bytes"] = max(0, resident_bytes() - before) / count


@inside("timer_late", "lateness of sleep(0.0003), median", 500, primary="late_us")
async def timer_late(meter: Meter, count: int) -> None:
    """How far behind its deadline a short sleep ends, by the system's clock; `early` counts those before it."""
    late: list[float] = []
    with meter:
        for _ in range(count):
            due = time.monotonic() + _NAP
            await asyncio.sleep(_NAP)
            late.append((time.monotonic() - due) * 1e6)
    meter.extra["late_us"] = percentile(late, 0.5)
    meter.extra["late_p99_us"] = percentile(late, 0.99)
    meter.extra["early"] = float(sum(value < 0 for value in late))
