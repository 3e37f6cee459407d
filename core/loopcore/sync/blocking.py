"""spawn_blocking: blocking functions in threads, with a limit on how many are outstanding.

    digest = await spawn_blocking(hashlib.sha256, data)

The function runs in the running loop's default executor, in a copy of the caller's context. Each loop has at most
1,000 calls (`limit_blocking`) running or queued at a time. Further callers wait, first come first served, until a call
ends. So a fast producer is slowed down to the speed of the threads, and memory is bounded.

A call that is cancelled while it waits is never made; one that is cancelled while it is queued is removed. A running
function cannot be stopped: its result is dropped, and it counts until it ends.

Thread: the running loop's; any asyncio loop.
"""

import asyncio
import contextvars
import functools
import threading
import weakref
from collections.abc import Callable
from operator import index
from typing import Any, Final, ParamSpec, TypeVar

from loopcore.sync.admission import Admission
from loopcore.sync.waiting import Permits, new_lock, operate

P = ParamSpec("P")
T = TypeVar("T")

__all__ = ["limit_blocking", "spawn_blocking"]

LIMIT: Final = 1000
"""How many calls of a loop may be running or queued before others wait."""


class _Call:
    """A call that a thread makes, unless it was cancelled before. In reports about jobs it looks like the function."""

    def __init__(
        self, function: Callable[..., Any], bound: "functools.partial[Any]", returned: Callable[[], object]
    ) -> None:
        functools.update_wrapper(self, function, updated=())  # its attributes would hide ours
        self._bound = bound
        self._returned = returned
        self._claimed = threading.Lock()

    def claim(self) -> bool:
        """Return true to the first caller only: the thread that starts, or the task that cancels. Thread: any."""
        return self._claimed.acquire(blocking=False)

    def __call__(self) -> Any:
        if not self.claim():
            return None  # cancelled
        try:
            return self._bound()
        except StopIteration as stop:  # futures do not accept it, so the call would never end
            raise RuntimeError(f"{self._bound.args[0]!r} raised StopIteration") from stop
        finally:
            self._returned()


_permits: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Permits]" = weakref.WeakKeyDictionary()


def limit_blocking(limit: int) -> None:
    """Allow `limit` calls of the running loop at a time, from now on; those running or queued now do not count.

    Raises ValueError for less than 1, TypeError if `limit` is not an integer.
    """
    limit = index(limit)
    if limit < 1:
        raise ValueError(f"the limit must be at least 1, not {limit!r}")
    _set_limit(asyncio.get_running_loop(), limit)


async def spawn_blocking(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function(*args, **kwargs)` in a thread and return its result; its exception is raised here.

    Raises RuntimeError after the loop's default executor was shut down, and instead of StopIteration (PEP 479).
    """
    loop = asyncio.get_running_loop()
    permits = _permits.get(loop)
    if permits is None:
        permits = _set_limit(loop, LIMIT)
    await operate(Admission(new_lock(False), permits))  # not kept: it refers to its loop
    give = permits.give
    bound = functools.partial(contextvars.copy_context().run, function, *args, **kwargs)
    call = _Call(function, bound, functools.partial(_post, loop, give))
    try:
        future = loop.run_in_executor(None, call)
    except BaseException:
        give()
        raise
    try:
        result: T = await future
    except BaseException:  # including an executor that breaks before the call begins
        if call.claim():
            give()
        raise
    return result


def _set_limit(loop: asyncio.AbstractEventLoop, limit: int) -> Permits:
    """Give `loop` new permits, and forget closed loops: a waiter of one keeps it alive."""
    for reference in _permits.keyrefs():
        other = reference()
        if other is not None and other.is_closed():
            _permits.pop(other, None)
    permits = _permits[loop] = Permits(limit)
    return permits


def _post(loop: asyncio.AbstractEventLoop, give: Callable[[], object]) -> None:
    try:
        loop.call_soon_threadsafe(give)
    except RuntimeError:  # the loop was closed: no task waits any more
        if not loop.is_closed():
            raise
