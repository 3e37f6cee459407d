"""asyncio.Condition: a waiter that is cancelled as it is notified loses the notification (CPython gh-112202).

`notify` wakes one waiter. If that waiter is cancelled before it has run, no other is woken, and the item stays there.
Python 3.11 has the race, 3.13 does not.
"""

import asyncio

from loopcore.sim import may_cancel


async def main() -> None:
    condition, items = asyncio.Condition(), ["item"]

    async def take() -> str:
        async with condition:
            await condition.wait()
            return items.pop()

    first = asyncio.create_task(may_cancel(take(), name="first"))
    await asyncio.sleep(0.01)
    second = asyncio.create_task(take())
    await asyncio.sleep(0.01)
    async with condition:
        condition.notify()
    await asyncio.sleep(0.01)
    assert not items, "notify() was lost: the second taker still waits"
    second.cancel()
    await asyncio.wait([first, second])
