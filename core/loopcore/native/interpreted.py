"""The Python twins of functions in `cpython.pxd` and other headers, for the pure build: same names, same contracts."""

from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any


def run_in_context(context: Context, callback: Callable[..., object], args: tuple[Any, ...]) -> object:
    """Call `callback(*args)` with `context` as the current context, and return its result."""
    return context.run(callback, *args)


def push_last(ready: Any, runnable: Any) -> None:
    """Put `runnable` at the end of a ready queue."""
    ready.push(runnable)


identity = id


def track(handle: Any) -> None:
    """Make the collector track `handle`, which it does already."""


def to_ns(seconds: float) -> int:
    """Return `seconds` as whole nanoseconds."""
    return int(seconds * 1e9)


def bit_length(number: int) -> int:
    """Return the number of bits of `number`, which is not negative."""
    return number.bit_length()


def advance(coro: Coroutine[Any, Any, Any], task: Any) -> Any:
    """Run `coro` to its next suspension and return the object that it yields.

    If it ends instead, return its result and set `task._returned`. Its exceptions propagate.
    """
    try:
        return coro.send(None)
    except StopIteration as stop:
        task._returned = True
        return stop.value
    finally:
        del coro, task  # a live traceback would pin this frame, and through it both


def schedule_flush(driver: Any) -> None:
    """Have the tick flush `driver` at its end."""
    driver.scheduler._flush_soon(driver.sink)


def unschedule_sole_flush(driver: Any) -> bool:
    """Undo `schedule_flush` if nothing else is to be flushed; return whether it was undone."""
    return take_only(driver.scheduler._flushes, driver.sink)


def take_only(items: list[Any], item: object) -> bool:
    """Remove `item` from `items` if it is the only one; return whether it was."""
    if len(items) != 1 or items[0] is not item:
        return False
    items.clear()
    return True
