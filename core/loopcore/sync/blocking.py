"""spawn_blocking: functions that block, in threads, and no more of them than can be worked off.

    digest = await spawn_blocking(hashlib.sha256, data)

The function runs in the running loop's default executor, in a copy of the caller's context. Of one loop at most
1,000 calls (`limit_blocking`) are there at a time, running or queued. Who comes then waits until one has ended, in the
order of the calls, so a fast producer is slowed down to what the threads can do, and memory is bounded.

Cancelled while it waits, the call is never made; cancelled while it is queued, it is taken out. A function that runs
cannot be stopped: its result is dropped, and it counts until it ends.

Thread: the running loop's; any asyncio loop.
"""

import asyncio
import contextvars
import functools
import weakref
from collections.abc import Callable
from operator import index
from typing import Any, Final, ParamSpec, TypeVar

from loopcore.sync.admission import Admission
from loopcore.sync.waiting import Permits, operate

P = ParamSpec("P")
T = TypeVar("T")

__all__ = ["limit_blocking", "spawn_blocking"]

LIMIT: Final = 1000
"""Calls of a loop, running and queued, before others wait."""


class _Call:
    """A call that a thread makes, unless it was given up before. It looks like the function to who reports on jobs."""

    def __init__(
        self, function: Callable[..., Any], bound: "functools.partial[Any]", returned: Callable[[], object]
    ) -> None:
        functools.update_wrapper(self, function, updated=())  # its attributes would hide ours
        self._bound = bound
        self._returned = returned
        self._claim = [None]

    def claim(self) -> bool:
        """Tell whether this is the first to ask: the thread that begins, or who gives up. Thread: any."""
        try:
            self._claim.pop()
        except IndexError:
            return False
        return True

    def __call__(self) -> Any:
        if not self.claim():
            return None  # nobody wants it any more
        try:
            return self._bound()
        except StopIteration as stop:  # which no future takes, so the call would never end
            raise RuntimeError(f"{self._bound.args[0]!r} raised StopIteration") from stop
        finally:
            self._returned()


_permits: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Permits]" = weakref.WeakKeyDictionary()


def limit_blocking(limit: int) -> None:
    """Let `limit` calls of the running loop be there at a time, from now on; those that are there do not count.

    Raises ValueError for less than 1, TypeError for what is no integer.
    """
    limit = index(limit)
    if limit < 1:
        raise ValueError(f"at least 1 call has to be possible, not {limit!r}")
    _permits[asyncio.get_running_loop()] = Permits(limit)


async def spawn_blocking(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `function(*args, **kwargs)` returns in a thread; raise what it raises.

    Raises RuntimeError after the loop's default executor was shut down, and in place of StopIteration (PEP 479).
    """
    loop = asyncio.get_running_loop()
    permits = _permits.get(loop)
    if permits is None:
        permits = _permits.setdefault(loop, Permits(LIMIT))
    await operate(Admission(None, permits))  # not kept: it refers to its loop
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
    except asyncio.CancelledError:
        if call.claim():
            give()
        raise
    return result


def _post(loop: asyncio.AbstractEventLoop, give: Callable[[], object]) -> None:
    try:
        loop.call_soon_threadsafe(give)
    except RuntimeError:  # the loop was closed: nobody waits any more
        if not loop.is_closed():
            raise
