"""What a future that is done makes its waiter raise."""

from typing import Any

from loopcore.kernel.future import Future

_FINISHED = 2


def failure_of(waiter: Any) -> BaseException | None:
    """Return what a future that is done makes its waiter raise, or None for a result."""
    # Not by `result()`: what is raised there would keep this frame, and with it the future, in its traceback.
    if isinstance(waiter, Future):
        future = waiter
        if future._status != _FINISHED:
            return future._cancelled_error()
        future._log_traceback_flag = False
        if future._exception is None:
            return None
        return future._exception.with_traceback(future._exception_traceback)
    try:
        failure: BaseException | None = waiter.exception()
        return failure
    except BaseException as exc:
        return exc
