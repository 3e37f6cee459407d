"""psycopg_pool: getconn() swallows a cancellation that arrives together with the connection (psycopg #1275).

psycopg_pool 3.3.0 has the race, 3.3.3 does not. The connection is a stand-in: the race is in the queue of the pool.
"""

import asyncio
from unittest.mock import AsyncMock

from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool

from loopcore.sim import may_cancel


async def main() -> None:
    connection = AsyncMock(closed=False)
    connection.pgconn.transaction_status = TransactionStatus.IDLE
    stand_in = AsyncMock(connect=AsyncMock(return_value=connection))
    async with AsyncConnectionPool(connection_class=stand_in, min_size=1, max_size=1, num_workers=1) as pool:

        async def use() -> None:
            await pool.putconn(await pool.getconn())

        first = await pool.getconn()
        waiting = asyncio.create_task(may_cancel(use(), strict=True))
        await asyncio.sleep(0.01)
        await pool.putconn(first)
        await waiting
