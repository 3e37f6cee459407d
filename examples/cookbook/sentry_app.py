"""Sentry: errors of tasks, and each stall of the loop, as events.

Start it with `SENTRY_DSN=... python sentry_app.py`.
"""

import asyncio
import os
import time
from typing import Any

import sentry_sdk
from sentry_sdk.integrations.asyncio import AsyncioIntegration

import loopcore
from loopcore_plugins.watchdog import Stall, Watchdog


class StallsToSentry:
    """A plugin: it is called in the watchdog's thread, while the loop is still stalled."""

    @loopcore.hookimpl
    def loopcore_stall_begin(self, stall: Stall) -> None:
        """Report where the loop stands. Events of one line are one issue."""
        where = f"{stall.place.file}:{stall.place.line}" if stall.place else "unknown"
        with sentry_sdk.new_scope() as scope:
            scope.fingerprint = ["loop-stalled", where]
            scope.set_tag("stall.cause", stall.cause)
            scope.capture_message(f"event loop stalled at {where}", level="warning")


def make_task(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Future[Any]:
    """Make loopcore's tasks. Without a factory, Sentry's integration makes asyncio's."""
    return loopcore.Task(coro, loop=loop, **options)


async def fail() -> None:
    """Fails. The integration wraps each task, so the error is reported whether or not the task is awaited."""
    raise ValueError("a task failed")


async def main() -> None:
    """Sentry has to be initialised where the loop runs."""
    asyncio.get_running_loop().set_task_factory(make_task)
    sentry_sdk.init(dsn=os.environ["SENTRY_DSN"], integrations=[AsyncioIntegration()])
    task = asyncio.create_task(fail())
    await asyncio.wait([task])
    print(isinstance(task, loopcore.Task), task.exception())
    time.sleep(0.5)  # a mistake, for the watchdog
    await asyncio.to_thread(sentry_sdk.flush)


if __name__ == "__main__":
    loopcore.run(main(), plugins=[Watchdog(threshold=0.1), StallsToSentry()])
