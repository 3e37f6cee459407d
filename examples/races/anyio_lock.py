"""anyio.Lock: release() skips a cancelled waiter but leaves it in the queue, and strands the next one (anyio #1145).

The owner releases the lock and wants it again at once. It queues behind a waiter that is cancelled, and no release is
left to wake it.
anyio 4.13.0 has the race, 4.14.2 does not.
"""

import asyncio

import anyio

from loopcore.sim import may_cancel


async def main() -> None:
    lock = anyio.Lock()

    async def work() -> None:
        for _ in range(2):
            async with lock:
                await asyncio.sleep(0.01)

    await asyncio.gather(may_cancel(work(), name="first"), may_cancel(work(), name="second"))
