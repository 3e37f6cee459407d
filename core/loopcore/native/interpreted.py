"""The Python twins of what `cpython.pxd` and others of C define, for the pure build: same names, same contracts."""

from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any


def run_in_context(context: Context, callback: Callable[..., object], args: tuple[Any, ...]) -> object:
    """Call `callback(*args)` with `context` as the current context, and return its result."""
    return context.run(callback, *args)


identity = id


def to_ns(seconds: float) -> int:
    """Return `seconds` in whole nanoseconds."""
    return int(seconds * 1e9)


def bit_length(number: int) -> int:
    """Return how many bits `number`, which is not negative, needs."""
    return number.bit_length()


def advance(coro: Coroutine[Any, Any, Any], task: Any) -> Any:
    """Run `coro` to its next suspension and return what it hands out.

    When it ends instead, return its result and set `task._returned`. What it raises goes through.
    """
    try:
        return coro.send(None)
    except StopIteration as stop:
        task._returned = True
        return stop.value
    finally:
        del coro, task  # this frame may live as long as a traceback does, and would keep them alive


def take_only(items: list[Any], item: object) -> bool:
    """Take `item` out of `items`, if it is the only one; tell whether it was."""
    if len(items) != 1 or items[0] is not item:
        return False
    items.clear()
    return True
