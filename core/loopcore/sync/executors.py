"""From a thread into a loop, and tasks that are not lost: `block_on` and `spawn`."""

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, TypeVar

from loopcore.runner import as_coroutine, run

T = TypeVar("T")

__all__ = ["block_on", "spawn"]

_SPAWNED: Final[set["asyncio.Task[Any]"]] = set()
"""Tasks that run on their own: a loop refers to its tasks weakly."""


def block_on(
    awaitable: Awaitable[T], *, loop: asyncio.AbstractEventLoop | None = None, timeout: float | None = None
) -> T:
    """Wait for `awaitable` in this thread, and return its result.

    Without `loop` it runs on a new loop of this thread, as by `loopcore.run`: right for channels with `threadsafe=True`
    and for whole programs. With `loop`, which another thread runs, it runs there. After `timeout` seconds it is
    cancelled, and TimeoutError raised.

    Thread: any in which no loop runs; RuntimeError is raised where one does, for it would stand still.
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
        return job.result()
    except BaseException:
        job.cancel()  # an interrupt in this thread; of no effect if it is its own error
        raise
    finally:
        del job  # which refers to its error, whose traceback refers to this frame


def spawn(awaitable: Awaitable[T], *, name: str | None = None) -> "asyncio.Task[T]":
    """Run `awaitable` as a task of the running loop, which is kept alive until it is done, also if nobody keeps it.

    An error that nobody asks for is reported by the task, to the loop's exception handler.
    """
    task: asyncio.Task[T] = asyncio.get_running_loop().create_task(as_coroutine(awaitable), name=name)
    _SPAWNED.add(task)
    task.add_done_callback(_SPAWNED.discard)
    return task


async def _within(awaitable: Awaitable[T], timeout: float | None) -> T:
    async with asyncio.timeout(timeout):
        return await awaitable


def _close(awaitable: Any) -> None:
    if asyncio.iscoroutine(awaitable):
        awaitable.close()
