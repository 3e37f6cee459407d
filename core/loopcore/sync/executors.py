"""Calls from a thread into a loop, and tasks that are kept alive: `block_on` and `spawn`."""

import asyncio
import concurrent.futures
import inspect
from collections.abc import Awaitable
from typing import Any, Final, TypeVar

from loopcore.runner import as_coroutine, run

T = TypeVar("T")

__all__ = ["block_on", "spawn"]

_SPAWNED: Final[set["asyncio.Task[Any]"]] = set()
"""Keeps spawned tasks alive: a loop refers to its tasks only weakly."""

_CLOSED_POLL_INTERVAL: Final = 0.5
"""Seconds between checks for a closed loop: closing it wakes no waiter."""


def block_on(
    awaitable: Awaitable[T], *, loop: asyncio.AbstractEventLoop | None = None, timeout: float | None = None
) -> T:
    """Wait for `awaitable` in this thread, and return its result.

    Without `loop` it runs on a new loop in this thread, as with `loopcore.run`; use this for channels with
    `threadsafe=True` and for whole programs. With `loop`, which must run in another thread, it runs there. After
    `timeout` seconds it is cancelled and TimeoutError is raised. RuntimeError is raised if that loop is closed first.

    Thread: any without a running loop; if there is one, RuntimeError is raised, because that loop would be blocked.
    """
    if asyncio._get_running_loop() is not None:
        _close(awaitable)
        raise RuntimeError("block_on() would block the event loop that runs in this thread; use `await` here")
    if loop is None:
        return run(_within(awaitable, timeout))
    waiting = _within(awaitable, timeout)
    try:
        job = asyncio.run_coroutine_threadsafe(waiting, loop)
    except RuntimeError:  # the loop was closed
        waiting.close()
        _close(awaitable)
        raise
    try:
        while not concurrent.futures.wait((job,), _CLOSED_POLL_INTERVAL).done:
            if loop.is_closed() and not job.done():
                if inspect.getcoroutinestate(waiting) == inspect.CORO_CREATED:  # it had no time to begin
                    waiting.close()
                    _close(awaitable)
                raise RuntimeError("the event loop was closed before the awaitable was done")
        return job.result()
    except BaseException:
        if not loop.is_closed():
            job.cancel()  # after an interrupt in this thread; has no effect if the job itself failed
        raise
    finally:
        del job  # it refers to its error, whose traceback refers to this frame


def spawn(awaitable: Awaitable[T], *, name: str | None = None) -> "asyncio.Task[T]":
    """Run `awaitable` as a task of the running loop. The task is kept alive until it is done; no reference is needed.

    If its exception is never retrieved, the task reports it to the loop's exception handler.
    """
    task: asyncio.Task[T] = asyncio.get_running_loop().create_task(as_coroutine(awaitable), name=name)
    _SPAWNED.add(task)
    task.add_done_callback(_SPAWNED.discard)
    return task


async def _within(awaitable: Awaitable[T], timeout: float | None) -> T:
    async with asyncio.timeout(timeout):
        return await awaitable


def _close(awaitable: object) -> None:
    if asyncio.iscoroutine(awaitable):
        awaitable.close()
