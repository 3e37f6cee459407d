"""Tasks of Celery that run coroutines on loopcore, in two ways.

    celery -A jobs worker --pool prefork --concurrency 2
    python -c 'import jobs; print(jobs.many.delay(3).get(timeout=10))'

Celery does not use asyncio: its worker calls plain functions. `alone` makes a loop for each call, which is
simple, and right if nothing outlives the call. `many` uses one loop that its process keeps running in a thread:
objects that belong to a loop, such as a pool of connections, are then made once for a process.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from celery import Celery
from celery.signals import worker_process_init, worker_process_shutdown, worker_ready, worker_shutdown

import loopcore
from loopcore.sync import block_on

T = TypeVar("T")

app = Celery(
    "jobs",
    broker=os.environ.get("JOBS_BROKER", "memory://"),
    backend=os.environ.get("JOBS_RESULTS", "cache+memory://"),
)
app.conf.update(task_always_eager=False, broker_connection_retry_on_startup=True)
folder = os.environ.get("JOBS_FOLDER")
if folder:  # the broker filesystem://, for local testing
    app.conf.broker_transport_options = {
        "data_folder_in": folder,
        "data_folder_out": folder,
        "control_folder": os.path.join(folder, "control"),  # else it is one in the working directory
    }


class Background:
    """A loop that runs in a thread, from `start` to `stop`. One for each process."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Make the loop in this process, never before a fork, and run it."""
        if self.loop is None:
            self.loop = loopcore.new_event_loop()
            self._thread = threading.Thread(target=self.loop.run_forever, name="jobs", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the loop, and wait for its thread."""
        if self.loop is not None and self._thread is not None:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()
            self.loop = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine on the loop, and wait for its result."""
        self.start()
        return block_on(coroutine, loop=self.loop)


background = Background()


@worker_process_init.connect  # in each child of the pool prefork
@worker_ready.connect  # in the worker itself: the pools threads and solo have no children
def start(sender: Any = None, **_: Any) -> None:
    if "prefork" not in type(getattr(sender, "pool", None)).__module__:
        background.start()


@worker_process_shutdown.connect
@worker_shutdown.connect
def stop(**_: Any) -> None:
    background.stop()


async def where(wait: float = 0.001) -> str:
    await asyncio.sleep(wait)
    loop = asyncio.get_running_loop()
    return f"{type(loop).__module__} {os.getpid()} {id(loop)}"


@app.task
def alone() -> str:
    return loopcore.run(where())


@app.task
def many(count: int) -> list[str]:
    async def main() -> list[str]:
        return await asyncio.gather(*(where() for _ in range(count)))

    return background.run(main())
