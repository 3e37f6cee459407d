"""Names: by which a reader of a trace recognises a callback, a coroutine or a file."""

import functools
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any


def describe_callback(runnable: object) -> str:
    """Return the qualified name of the function behind a handle, a partial or a method; else that of its class."""
    function: Any = getattr(runnable, "_callback", None)
    if function is None:
        function = runnable
    while isinstance(function, functools.partial):
        function = function.func
    with suppress(Exception):  # any object can be called, even a proxy that raises on every access
        owner = getattr(function, "__self__", None)
        name = function.__qualname__
        if "." in name or owner is None:
            return str(name)
        return f"{owner.__name__ if isinstance(owner, ModuleType) else type(owner).__qualname__}.{name}"
    return type(function).__qualname__


def describe_coroutine(task: Any) -> str:
    """Return the qualified name of the coroutine that `task` runs."""
    coroutine = task.get_coro()
    return getattr(coroutine, "__qualname__", None) or type(coroutine).__qualname__


def describe_outcome(task: Any) -> str:
    """Return suspended, cancelled, failed or finished; does not mark the exception as retrieved."""
    if not task.done():
        return "suspended"
    if task.cancelled():
        return "cancelled"
    return "finished" if task._exception is None else "failed"


def describe_error(exc: BaseException | None) -> str | None:
    """Return the error as one line, or None."""
    if exc is None:
        return None
    try:
        return f"{type(exc).__name__}: {exc}"
    except Exception:  # its __str__ fails
        return type(exc).__name__


def fill_in(path: Path, **values: int) -> Path:
    """Replace {name} in the file's name, and nothing else: other braces are the user's."""
    name = path.name
    for key, value in values.items():
        name = name.replace(f"{{{key}}}", str(value))
    return path.with_name(name)
