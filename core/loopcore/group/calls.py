"""Calls on a member's loop from other threads: every one gets an answer, also when the loop ends meanwhile.

`asyncio.run_coroutine_threadsafe` leaves a call that arrives while its loop closes without an answer. Here each call is
noted before it is posted, and `close` answers those that are left.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from loopcore.group.errors import MemberFailedError

Future: TypeAlias = "concurrent.futures.Future[Any]"


class Calls:
    """The calls on one loop. `submit` may be called in any thread, the rest on the loop."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a future's callbacks may run in the thread that settles it
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: set[Future] = set()
        self._tasks: dict[Future, asyncio.Task[Any]] = {}

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Accept calls from now on."""
        self._loop = loop

    def submit(self, function: Callable[..., Any], arguments: tuple[Any, ...], outer: "Future | None" = None) -> Future:
        """Call a function on the loop, await the result if it can be awaited; return a future of it, `outer` if given.

        Cancelling the future cancels the call. It fails with MemberFailedError if the loop ends first.
        """
        if outer is None:
            outer = concurrent.futures.Future()
        with self._lock:
            loop = self._loop
            if loop is not None:
                self._open.add(outer)
                loop.call_soon_threadsafe(self._begin, outer, function, arguments)
        if loop is None:
            outer.set_exception(not_running())
        else:
            outer.add_done_callback(partial(self._note_done, loop))
        return outer

    def _begin(self, outer: Future, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        if self._loop is None or outer.done():
            return
        task = self._tasks[outer] = self._loop.create_task(invoke(function, arguments))
        task.add_done_callback(partial(self._answer, outer))

    def _answer(self, outer: Future, task: "asyncio.Task[Any]") -> None:
        self._tasks.pop(outer, None)
        if task.cancelled():
            settle(outer, error=MemberFailedError("the call was cancelled on the member's loop"))
        elif (error := task.exception()) is not None:
            settle(outer, error=error)
        else:
            settle(outer, task.result())

    def _note_done(self, loop: asyncio.AbstractEventLoop, outer: Future) -> None:
        with self._lock:
            self._open.discard(outer)
        if outer.cancelled():
            outer.set_running_or_notify_cancel()  # concurrent.futures.wait waits for this
            try:
                loop.call_soon_threadsafe(self._cancel, outer)
            except RuntimeError:  # closed, and with it the call
                pass

    def _cancel(self, outer: Future) -> None:
        task = self._tasks.get(outer)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Refuse calls, cancel those that run, and answer all of them."""
        with self._lock:
            self._loop = None
            left = list(self._open)
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for outer in left:
            settle(outer, error=MemberFailedError("the member ended before it answered"))


async def invoke(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call a function, and await the result if it can be awaited."""
    result = function(*arguments)
    if hasattr(result, "__await__"):
        result = await result
    return result


def not_running() -> MemberFailedError:
    """Return the error of a call on a member that has ended or has not begun."""
    return MemberFailedError("the member does not run; see LoopGroup.members")


def settle(future: Future, result: Any = None, error: BaseException | None = None) -> bool:
    """Set the result or the error of a future; return False if it has one already, or was cancelled."""
    try:
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
    except concurrent.futures.InvalidStateError:
        return False
    return True
