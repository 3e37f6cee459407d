"""What a task has to know of a future that it waits for: how it hears of its end, and what that makes it raise."""

from typing import Any

from loopcore.kernel.formatting import drop_own_frames
from loopcore.kernel.future import Future

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.kernel.failure import is_of_a_program

_FINISHED = 2


def takes_waiters(future: Any) -> bool:
    """Tell whether a task may be left in one of loopcore's futures: its class has no `add_done_callback` of its own."""
    if cython.compiled and not is_of_a_program(future):
        return True
    return type(future).add_done_callback is Future.add_done_callback


def has_own_result(future: Any) -> bool:
    """Tell whether one of loopcore's futures has loopcore's `result`, not one of its class."""
    if cython.compiled and not is_of_a_program(future):
        return True
    return type(future).result is Future.result


def failure_of(waiter: Any) -> BaseException | None:
    """Return what a future that is done makes its waiter raise, or None for a result."""
    if isinstance(waiter, Future) and has_own_result(waiter):
        # Not by `result()`, which would have to raise it.
        future = waiter
        if future._status != _FINISHED:
            return future._cancelled_error()
        future._log_traceback_flag = False
        if future._exception is None:
            return None
        return future._exception.with_traceback(future._exception_traceback)
    try:
        waiter.result()  # as asyncio: it may be a program's, which decides there, or has nothing else
    except BaseException as exc:
        drop_own_frames(exc)  # of which one keeps the future
        return exc
    return None
