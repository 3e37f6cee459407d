"""anyio.CapacityLimiter: a token that was granted to a waiter is lost when the waiter is cancelled (anyio #947).

anyio 4.9.0 has the race, 4.14.2 does not.
"""

import asyncio

import anyio

from loopcore.sim import may_cancel


async def main() -> None:
    limiter = anyio.CapacityLimiter(1)

    async def work() -> None:
        async with limiter:
            await asyncio.sleep(0.01)

    await asyncio.gather(*(may_cancel(work(), name=name) for name in ("first", "second", "third")))
    await work()
