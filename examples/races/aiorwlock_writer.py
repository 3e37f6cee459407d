"""aiorwlock: a writer that is cancelled while it waits releases a lock that another holds.

aiorwlock 1.3.0 has the race, 1.5.1 does not.
"""

import asyncio

from aiorwlock import RWLock

from loopcore.sim import may_cancel


async def main() -> None:
    lock, writers = RWLock(), []

    async def write(name: str) -> None:
        async with lock.writer:
            writers.append(name)
            assert writers == [name], f"{' and '.join(writers)} write at the same time"
            try:
                await asyncio.sleep(0.01)
            finally:
                writers.remove(name)

    await asyncio.gather(*(may_cancel(write(name), name=name) for name in ("first", "second", "third")))
