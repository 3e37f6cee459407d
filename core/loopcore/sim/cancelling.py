"""Cancellation at any await, as a choice of the tape.

A coroutine can be cancelled wherever it suspends, and asyncio lets the cancellation arrive at three moments that
libraries treat differently:

* **at once**: the coroutine has suspended and nothing else has happened yet;
* **as it was woken**: the future it awaits is done, but the task has not run. `Task.cancel` cannot cancel a finished
  future, so the result is lost on the way to the coroutine. This is the race that loses wake-ups, items and
  connections;
* **as another was woken**: another coroutine is about to run when this one is cancelled. The other sees a waiter
  that is cancelled but has not cleaned up after itself.

All three happen in production: a cancellation comes from a timer, from a client that hangs up or from a task group, and
each of those shares a tick with other events. So a failure found this way can happen (level `io`).

`may_cancel` drives the coroutine and sees each future before the task does. A done callback added there runs before the
task's own, which is the moment between the wake-up and the next step.

Each suspension is one choice, so the number of suspensions need not be known in advance.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Generator
from enum import Enum
from typing import Any, Final, TypeVar, final
from weakref import WeakKeyDictionary

from loopcore.errors import UsageError
from loopcore.sim.current import world
from loopcore.sim.waiting import is_library

__all__ = ["CANCELLED", "Cancelled", "SwallowedCancellationError", "may_cancel"]

_A = TypeVar("_A")
_T = TypeVar("_T")

#: Suspensions after this one are left alone.
_LIMIT: Final = 200

_MOMENTS: Final = ("at once", "as another was woken", "as it was woken")


@final
class Cancelled(Enum):
    """The type of `CANCELLED`."""

    CANCELLED = "cancelled"

    def __repr__(self) -> str:
        return "CANCELLED"


#: What `may_cancel` returns when the tape cancelled the coroutine and the coroutine ended as cancelled.
CANCELLED: Final = Cancelled.CANCELLED


class SwallowedCancellationError(AssertionError):
    """A coroutine was cancelled and returned a result all the same."""


async def may_cancel(
    coroutine: Coroutine[Any, Any, _T], *, name: str | None = None, strict: bool = False
) -> _T | Cancelled:
    """Run `coroutine` as a task that the tape of the running simulation may cancel, once, at one of its suspensions.

    Returns what the coroutine returns, or `CANCELLED` if the tape cancelled it and CancelledError came out of it. An
    exception of the coroutine's own is raised here, whether it was cancelled or not.

    A coroutine that is cancelled and returns a result has swallowed the cancellation. The log of the world has a note
    then, and with `strict` SwallowedCancellationError is raised. Without `strict` the result is returned: a coroutine
    may catch CancelledError on purpose.

    `name` names the coroutine in the choices, the log and the task; the default is the coroutine's own name. A
    choice of 0 goes on: with a tape of zeros this is `await asyncio.create_task(coroutine)`. Only the first 200
    suspensions are choices.

    Cancelling the caller cancels the coroutine, as with any awaited task, and raises CancelledError here.
    Raises UsageError outside a simulation. Thread: the loop's own.
    """
    if not isinstance(coroutine, (Coroutine, Generator)):
        raise UsageError(f"may_cancel() takes a coroutine, as in may_cancel(get()), not {coroutine!r}")
    try:
        points = _Points(coroutine, name or str(getattr(coroutine, "__name__", type(coroutine).__name__)))
    except UsageError:
        coroutine.close()
        raise
    caller = asyncio.current_task()
    assert caller is not None
    before = caller.cancelling()
    try:
        points.task = asyncio.get_running_loop().create_task(_watched(coroutine, points), name=points.name)
        result: _T = await points.task
    except asyncio.CancelledError:
        if points.cancelled and caller.cancelling() == before:
            return CANCELLED
        raise
    finally:
        points.resumed()
        coroutine.close()  # Cancelled before its first step, it has never been awaited.
    if points.cancelled:
        swallowed = f"{points.name} was cancelled {points.where}, and returned a result all the same"
        points.note(swallowed)
        if strict:
            raise SwallowedCancellationError(swallowed)
    return result


async def _watched(coroutine: Coroutine[Any, Any, _T], points: _Points) -> _T:
    points.task = asyncio.current_task()  # An eager task runs before create_task has returned it.
    return await _Driven(coroutine, points)


class _Driven(Generator[Any, Any, _T]):
    """Drive a coroutine as `await` does, and show each awaited object to `points` before the task sees it.

    `cr_await` makes it a link of the chain of suspended coroutines, for reports of waiting tasks.
    """

    __slots__ = ("_points", "cr_await")
    cr_frame = None

    def __init__(self, coroutine: Coroutine[Any, Any, _T], points: _Points) -> None:
        self.cr_await = coroutine
        self._points = points

    def __await__(self) -> Generator[Any, Any, _T]:
        return self

    def send(self, value: Any) -> Any:
        self._points.resumed()
        return self._points.suspended(self.cr_await.send(value))

    def throw(self, *thrown: Any) -> Any:
        self._points.resumed()
        return self._points.suspended(self.cr_await.throw(*thrown))

    def close(self) -> None:
        self.cr_await.close()


class _Points:
    """The suspensions of one coroutine, and the choice at each of them.

    Labels begin with "cancel NAME: ", so that all suspensions of a coroutine are one kind of choice (`tape.Random`).
    """

    __slots__ = ("__weakref__", "_count", "_coroutine", "_loop", "_world", "cancelled", "name", "task", "where")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        self._world = world()
        self._loop = asyncio.get_running_loop()
        self._coroutine = coroutine
        self._count = 0
        self.where = ""
        self.name = name
        self.cancelled = False
        self.task: asyncio.Task[Any] | None = None

    def suspended(self, awaited: _A) -> _A:
        """The coroutine waits for `awaited`: a future, or None after a bare yield. Return it."""
        if asyncio.isfuture(awaited):
            awaited.add_done_callback(self._woken)
        count = self._count
        self._count += 1
        if self.cancelled or count >= _LIMIT:
            return awaited
        self.where = _place(self._coroutine)
        moments = _MOMENTS if asyncio.isfuture(awaited) else _MOMENTS[:2]
        chosen = self._world.tape.choose(len(moments) + 1, f"cancel {self.name}: {self.where}: {', '.join(moments)}")
        if chosen == 1:
            self._loop.call_soon(self._cancel, count, "at once")
        elif chosen == 2:
            _waiting(self._loop)[self] = None
        elif chosen == 3:
            assert asyncio.isfuture(awaited)
            awaited.add_done_callback(lambda _: self._cancel(count, "as it was woken"))
        return awaited

    def resumed(self) -> None:
        """The coroutine goes on, or has ended."""
        _waiting(self._loop).pop(self, None)

    def note(self, text: str) -> None:
        """Write `text` into the world's log."""
        self._world.note("cancel", text)

    def _woken(self, _: asyncio.Future[Any]) -> None:
        """What the coroutine awaited is done. Other coroutines may be cancelled before this one runs."""
        for other in list(_waiting(self._loop)):
            if other is not self and self._world.tape.choose(
                2, f"cancel {other.name}: {other.where}, as {self.name} was woken"
            ):
                other._cancel(other._count - 1, f"as {self.name} was woken")

    def _cancel(self, suspension: int, moment: str) -> None:
        """Cancel the task, unless it has left that suspension."""
        _waiting(self._loop).pop(self, None)
        if self.cancelled or self._count - 1 != suspension or self.task is None or self.task.done():
            return
        self.cancelled = True
        self.where += f", {moment}"
        self.note(f"cancel {self.name} {self.where}")
        self.task.cancel()


_waiting_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Points, None]] = WeakKeyDictionary()


def _waiting(loop: asyncio.AbstractEventLoop) -> dict[_Points, None]:
    """The coroutines of `loop` that are cancelled when another is woken, in the order of their choices."""
    return _waiting_of_loop.setdefault(loop, {})


def _place(coroutine: object) -> str:
    """Where `coroutine` is suspended: the innermost frame that is not asyncio's or loopcore's own."""
    found = ""
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is not None and not is_library(frame):
            within = f"in {frame.f_code.co_name} " if found else ""
            found = f"{within}at {os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        following = getattr(coroutine, "cr_await", None)
        coroutine = getattr(coroutine, "gi_yieldfrom", None) if following is None else following
    return found or "in the standard library"
