"""asyncio.wait_for: a cancellation that arrives together with the result is swallowed (CPython gh-86296).

The worker is cancelled, but wait_for returns the item and the worker goes on as if nothing had happened.
Python 3.11 has the race, 3.12 does not.
"""

import asyncio

from loopcore.sim import may_cancel


async def main() -> None:
    queue: asyncio.Queue[str] = asyncio.Queue()

    async def worker() -> None:
        while await asyncio.wait_for(queue.get(), timeout=5) != "stop":
            pass

    working = asyncio.create_task(may_cancel(worker(), strict=True))
    for item in ("one", "two", "stop"):
        await asyncio.sleep(0.01)
        queue.put_nowait(item)
    await working
