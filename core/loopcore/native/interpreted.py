"""The Python twins of functions in `cpython.pxd` and other headers, for the pure build: same names, same contracts."""

from collections.abc import Callable
from contextvars import Context
from typing import Any


def run_in_context(context: Context, callback: Callable[..., object], args: tuple[Any, ...]) -> object:
    """Call `callback(*args)` with `context` as the current context, and return its result."""
    return context.run(callback, *args)
