"""The functions of interpreter.h in Python."""

from collections.abc import Callable
from contextvars import Context, copy_context
from threading import get_ident
from time import monotonic, monotonic_ns
from types import MethodType
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:

    class Stepped(Protocol):
        """A task, as `advance` uses it."""

        _how: int

        @property
        def _coro(self) -> Any:
            """The coroutine."""


__all__ = [
    "advance",
    "call_in_context",
    "copy_context",
    "get_ident",
    "identity",
    "is_method",
    "monotonic",
    "monotonic_ns",
    "run_in_context",
    "stop_with",
    "to_ns",
]

RETURNED: Final = 0
RAISED: Final = -1
YIELDED: Final = 1

identity = id


def run_in_context(context: Context, callback: Callable[..., object], args: tuple[Any, ...]) -> object:
    """Call `callback(*args)` with `context` as the current context, and return its result."""
    return context.run(callback, *args)


def call_in_context(context: Context, callback: Callable[..., object], args: tuple[Any, ...]) -> BaseException | None:
    """Call in a context. Return None, or the exception that was raised."""
    try:
        context.run(callback, *args)
    except BaseException as error:
        return error
    finally:
        del context, callback, args  # a traceback keeps this frame
    return None


def advance(task: "Stepped", thrown: BaseException | None, context: Context | None) -> Any:
    """Run the coroutine of `task` to its next suspension: throw `thrown` into it, or send None.

    It runs in `context`, or in the current one if that is None. `task._how` says what is returned: what the coroutine
    yielded, its result, or the exception that it raised.
    """
    coro = task._coro
    step, value = (coro.send, None) if thrown is None else (coro.throw, thrown)
    task._how = RAISED
    try:
        outcome = step(value) if context is None else context.run(step, value)
        task._how = YIELDED
        return outcome
    except StopIteration as stop:
        task._how = RETURNED
        return stop.value
    except BaseException as error:
        return error
    finally:
        del coro, step, value, task, thrown, context  # a traceback keeps this frame


def stop_with(value: object) -> None:
    """Raise StopIteration with `value`. A bare `raise StopIteration` has to follow, for the compiled build."""
    raise StopIteration(value)


def is_method(method: object, function: object, owner: object) -> bool:
    """Return whether `method` is `function` bound to `owner`, and not to an object that `owner` stands for."""
    return type(method) is MethodType and method.__func__ is function and method.__self__ is owner


def to_ns(seconds: float) -> int:
    """Return `seconds` as whole nanoseconds."""
    return int(seconds * 1e9)
