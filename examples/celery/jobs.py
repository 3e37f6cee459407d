"""Tasks of Celery that are coroutines on loopcore. See loops.py for how they run.

celery -A jobs worker --pool prefork --concurrency 2
python -c 'import jobs; print(jobs.many.delay(3).get(timeout=10))'
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from celery import Celery
from celery.utils.log import get_logger
from loops import Loops
from redis.asyncio import Redis

import loopcore

logger = get_logger(__name__)

REDIS = os.environ.get("JOBS_REDIS", "redis://127.0.0.1:6379/0")

app = Celery("jobs", broker=os.environ.get("JOBS_BROKER", REDIS), backend=os.environ.get("JOBS_RESULTS", REDIS))
app.conf.update(
    broker_connection_retry_on_startup=True,
    task_acks_late=True,  # a task stays in the broker until it has ended ...
    task_reject_on_worker_lost=True,  # ... also if its process is killed
    worker_prefetch_multiplier=1,
    worker_proc_alive_timeout=60,  # seconds to enter the lifespan; a process that takes longer is killed
)
folder = os.environ.get("JOBS_FOLDER")
if folder:  # the broker filesystem://, for local testing
    app.conf.broker_transport_options = {
        "data_folder_in": folder,
        "data_folder_out": folder,
        "polling_interval": 0.1,  # seconds
        "control_folder": os.path.join(folder, "control"),  # else it is one in the working directory
    }


@asynccontextmanager
async def connections() -> AsyncIterator[Redis]:
    """A pool of connections, which belongs to its loop: one for each process, closed when the process ends."""
    # With a timeout redis-py uses asyncio.wait_for, which on Python 3.11 may lose the cancellation of a task.
    async with Redis.from_url(REDIS, decode_responses=True, socket_timeout=None) as redis:
        yield redis
    logger.info("the connections of process %d are closed", os.getpid())


loops = Loops(connections)


@app.task(autoretry_for=(ConnectionError,), retry_backoff=True)
@loops.task
async def visit(page: str) -> int:
    return int(await loops.shared.incr(page))


@app.task(bind=True, soft_time_limit=60, time_limit=70)
@loops.task
async def follow(self: Any, name: str) -> None:
    """Wait until there is a key `name`. However the task ends, the list `name:log` says that it cleaned up."""
    redis, me = loops.shared, f"{self.request.id} {os.getpid()}"
    await redis.rpush(f"{name}:log", f"began {me}")
    try:
        while not await redis.exists(name):
            await asyncio.sleep(0.05)
    finally:
        await redis.rpush(f"{name}:log", f"ended {me}")


async def where(wait: float = 0.001) -> str:
    await asyncio.sleep(wait)
    loop = asyncio.get_running_loop()
    return f"{type(loop).__module__} {os.getpid()} {id(loop)}"


@app.task
@loops.task
async def many(count: int) -> list[str]:
    return await asyncio.gather(*(where() for _ in range(count)))


@app.task
def alone() -> str:
    """Without `loops`: a loop for this call alone."""
    return loopcore.run(where())
