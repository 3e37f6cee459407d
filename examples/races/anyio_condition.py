"""anyio.Condition: a waiter that is cancelled while it takes the lock again ends with RuntimeError.

wait() takes the lock again under a shield, which stops no cancellation that comes from asyncio. The block is left
without the lock, and its release fails. anyio 4.14.2, the latest, has the race; asyncio.Condition does not.
"""

import asyncio

import anyio

from loopcore.sim import may_cancel


async def main() -> None:
    condition = anyio.Condition()

    async def wait() -> None:
        async with condition:
            await condition.wait()

    waiting = asyncio.create_task(may_cancel(wait()))
    await asyncio.sleep(0.01)
    async with condition:
        condition.notify()
    await waiting
