"""Exceptions on their way through futures: thrown in through `await`, and the one that may not pass."""

import asyncio
import inspect
import sys
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any

STOP_IS_WRAPPED = sys.version_info >= (3, 12, 2) or (3, 11, 8) <= sys.version_info < (3, 12)
"""Whether this Python's asyncio wraps a StopIteration that is set on a future (cpython#112182) or refuses it."""


def warn_of_old_throw() -> None:
    """Warn, where Python itself does, that `throw` was called in its form with three arguments."""
    if sys.version_info >= (3, 12):
        warnings.warn(
            "the (type, exc, tb) signature of throw() is deprecated, use the single-arg signature instead.",
            DeprecationWarning,
            stacklevel=3,
        )


def exception_to_throw(typ: Any, val: Any, tb: Any) -> BaseException:
    """Return the exception that `throw(typ, val, tb)` means. Raises TypeError if it means none."""
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
    """Return what stands for a StopIteration, which thrown into a coroutine would end it silently (PEP 479).

    Raises TypeError on the Pythons whose asyncio refuses it.
    """
    text = "StopIteration interacts badly with generators and cannot be raised into a Future"
    if not STOP_IS_WRAPPED:
        raise TypeError(text)
    error = RuntimeError(text)
    error.__cause__ = stop
    error.__context__ = stop
    return error


def bad_yield_error(task: Any, loop: Any, yielded: Any) -> RuntimeError | None:
    """Return what `task` of `loop` is told when it can not wait for what its coroutine has handed out, or None."""
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


def default_of_uninitialized(slots: tuple[str, ...]) -> Callable[[Any, str], Any]:
    """Return what says what an empty slot of a future is, as its `__getattr__`; `slots` are those of its class.

    Its class has left out `__init__`, or that of a task has refused its arguments and `__del__` asks: perhaps when the
    interpreter ends, and there are neither globals nor imports any more. Interpreted only: compiled attributes are zero
    or None by themselves.
    """
    unset = frozenset(slots) - {"__weakref__"} | {"_registration", "_log_destroy_pending"}

    def default(future: Any, name: str) -> Any:
        if name in unset:
            return False if name in ("_status", "_asyncio_future_blocking", "_log_traceback_flag") else None
        raise AttributeError(f"{type(future).__name__!r} object has no attribute {name!r}", name=name, obj=future)

    return default
