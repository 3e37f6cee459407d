"""The Python twins of functions in `cpython.pxd` and other headers, for the pure build: same names, same contracts."""

from collections.abc import Callable
from contextvars import Context
from typing import Any


def run_in_context(context: Context, callback: Callable[..., object], args: tuple[Any, ...]) -> object:
    """Call `callback(*args)` with `context` as the current context, and return its result."""
    return context.run(callback, *args)


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
