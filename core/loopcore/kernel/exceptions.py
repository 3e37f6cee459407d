"""Exceptions that pass through futures: those thrown in through `await`, and StopIteration, which must not pass."""

import asyncio
import inspect
import sys
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Final

STOP_IS_WRAPPED = sys.version_info >= (3, 12, 2) or (3, 11, 8) <= sys.version_info < (3, 12)
"""Whether this Python's asyncio wraps a StopIteration set on a future (cpython#112182), rather than refusing it."""


def warn_of_old_throw() -> None:
    """Warn, on the Pythons that do, that `throw` was called with the deprecated three arguments."""
    if sys.version_info >= (3, 12):
        warnings.warn(
            "the (type, exc, tb) signature of throw() is deprecated, use the single-arg signature instead.",
            DeprecationWarning,
            stacklevel=3,
        )


def exception_to_throw(typ: object, val: object, tb: object) -> BaseException:
    """Return the exception that `throw(typ, val, tb)` stands for. Raises TypeError if it stands for none."""
    if tb is not None and not isinstance(tb, TracebackType):
        raise TypeError("throw() third argument must be a traceback")
    if isinstance(typ, BaseException):
        if val is not None:
            raise TypeError("instance exception may not have a separate value")
        error = typ
    elif isinstance(typ, type) and issubclass(typ, BaseException):
        if isinstance(val, typ):
            error = val
        elif isinstance(val, tuple):
            error = typ(*val)
        else:
            error = typ() if val is None else typ(val)
    else:
        raise TypeError("exceptions must be classes deriving BaseException or instances of such a class")
    return error if tb is None else error.with_traceback(tb)


def stop_iteration_as_runtime_error(stop: StopIteration) -> BaseException:
    """Return the exception to throw instead of a StopIteration, which would end a coroutine silently (PEP 479).

    Raises TypeError on the Pythons whose asyncio refuses a StopIteration.
    """
    text = "StopIteration interacts badly with generators and cannot be raised into a Future"
    if not STOP_IS_WRAPPED:
        raise TypeError(text)
    error = RuntimeError(text)
    error.__cause__ = stop
    error.__context__ = stop
    return error


def bad_yield_error(task: object, loop: object, yielded: object) -> RuntimeError | None:
    """Return the error to throw into `task` of `loop` if it cannot wait for the object that it yielded, or None."""
    blocking = getattr(yielded, "_asyncio_future_blocking", None)
    if blocking is None:
        if inspect.isgenerator(yielded):
            return RuntimeError(f"yield was used instead of yield from for generator in task {task!r} with {yielded!r}")
        return RuntimeError(f"Task got bad yield: {yielded!r}")
    if asyncio.futures._get_loop(yielded) is not loop:  # type: ignore[attr-defined]
        return RuntimeError(f"Task {task!r} got Future {yielded!r} attached to a different loop")
    if not blocking:
        return RuntimeError(f"yield was used instead of yield from in task {task!r} with {yielded!r}")
    if yielded is task:
        return RuntimeError(f"Task cannot await on itself: {task!r}")
    return None


_ZEROS: Final = {
    "_status": 0,
    "_asyncio_future_blocking": False,
    "_log_traceback_flag": False,
    "_number": 0,
    "_registration": 0,
    "_must_cancel": False,
    "_has_public": False,
    "_log_destroy_pending": False,
    "_num_cancels_requested": 0,
    "_label": 0,
}


def default_of_uninitialized(slots: tuple[str, ...]) -> Callable[[object, str], object]:
    """Return a `__getattr__` by which the slots of futures start as zero or None, as compiled attributes do.

    Interpreted only. `__del__` may read a slot at interpreter exit, when globals and imports are gone.
    """
    unset = dict.fromkeys(slots) | _ZEROS

    def default(future: object, name: str) -> object:
        if name in unset:
            return unset[name]
        raise AttributeError(f"{type(future).__name__!r} object has no attribute {name!r}", name=name, obj=future)

    return default
