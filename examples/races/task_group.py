"""asyncio.TaskGroup: a cancellation that arrives together with the failure of a child is lost (CPython gh-116720).

The group raises the child's error. The worker handles it and goes on, although it has been cancelled.
Python 3.12 has the race, 3.13 does not: there the next await raises CancelledError.
"""

import asyncio

from loopcore.sim import may_cancel


async def fail() -> None:
    await asyncio.sleep(0.01)
    raise ValueError


async def worker() -> None:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
    except* ValueError:
        pass
    await asyncio.sleep(0.01)


async def main() -> None:
    await may_cancel(worker(), strict=True)
