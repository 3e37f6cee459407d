"""Names: what a reader of a trace recognises a callback, a coroutine or a file by."""

import functools
from pathlib import Path
from typing import Any


def describe_callback(runnable: object) -> str:
    """Return the qualified name of the function behind a handle, a partial or a method; else that of its class."""
    function: Any = getattr(runnable, "_callback", None) or runnable
    while isinstance(function, functools.partial):
        function = function.func
    owner = getattr(function, "__self__", None)
    name: str | None = getattr(function, "__qualname__", None)
    if name is None:
        return type(function).__qualname__
    return f"{type(owner).__qualname__}.{function.__name__}" if "." not in name and owner is not None else name


def describe_coroutine(task: Any) -> str:
    """Return the qualified name of the coroutine that `task` runs."""
    coroutine = task.get_coro()
    return getattr(coroutine, "__qualname__", None) or type(coroutine).__qualname__


def describe_outcome(task: Any) -> str:
    """Return suspended, cancelled, failed or finished; does not count as looking at the exception."""
    if not task.done():
        return "suspended"
    if task.cancelled():
        return "cancelled"
    return "finished" if task._exception is None else "failed"


def describe_error(exc: BaseException | None) -> str | None:
    """Return the error as one line, or None."""
    return None if exc is None else f"{type(exc).__name__}: {exc}"


def fill_in(path: Path, **values: int) -> Path:
    """Replace {name} in the file's name, and nothing else: other braces are the user's."""
    name = path.name
    for key, value in values.items():
        name = name.replace(f"{{{key}}}", str(value))
    return path.with_name(name)
