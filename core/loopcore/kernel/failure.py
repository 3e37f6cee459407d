"""How a task waits for a future: how it is notified of the end, and which exception it then raises."""

from typing import TYPE_CHECKING, Any

from loopcore.kernel.formatting import drop_own_frames
from loopcore.kernel.future import Future

if TYPE_CHECKING:
    import asyncio

_FINISHED = 2

OWN_CLASSES: set[type] = {Future}
"""loopcore's classes of futures, which override nothing."""

_OWN_CLASSES = OWN_CLASSES


def takes_waiters(future: Future) -> bool:
    """Return whether a task may be the waiter of a loopcore future: its class does not override `add_done_callback`."""
    return type(future) in _OWN_CLASSES or type(future).add_done_callback is Future.add_done_callback


def has_default_result(future: Future) -> bool:
    """Return whether the class of a loopcore future does not override `result`."""
    return type(future) in _OWN_CLASSES or type(future).result is Future.result


def failure_of(waiter: "Future | asyncio.Future[Any]") -> BaseException | None:
    """Return the exception that a done future raises in its waiter, or None if it has a result."""
    if isinstance(waiter, Future) and has_default_result(waiter):
        # Not through `result()`, which would have to raise the exception.
        future = waiter
        if future._status != _FINISHED:
            return future._cancelled_error()
        future._log_traceback_flag = False
        if future._exception is None:
            return None
        return future._exception.with_traceback(future._exception_traceback)
    try:
        waiter.result()  # as asyncio does: the program may have overridden `result`, or implement nothing else
    except BaseException as exc:
        drop_own_frames(exc)  # one of these frames refers to the future
        return exc
    return None
