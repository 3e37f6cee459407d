"""anyio.TaskGroup: a cancelled group swallows a cancellation that arrives as its last child ends.

anyio 4.14.2, the latest, has the race for cancellations that come from asyncio; 4.3.0 does not. anyio.connect_tcp() is
such a group.
"""

import asyncio

import anyio

from loopcore.sim import may_cancel


async def first_of_two() -> None:
    async with anyio.create_task_group() as group:

        async def answer(delay: float) -> None:
            await asyncio.sleep(delay)
            group.cancel_scope.cancel()

        group.start_soon(answer, 0.01)
        group.start_soon(answer, 0.02)
    await asyncio.sleep(0.01)


async def main() -> None:
    await may_cancel(first_of_two(), strict=True)
