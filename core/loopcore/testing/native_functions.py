"""The functions of `loopcore._native`, called as modules of this build call them: in C if it is compiled.

A test compares them with the Python modules of the same names.
"""

from collections.abc import Callable
from contextvars import Context
from typing import Any

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native import interpreter
    from cython.cimports.loopcore.testing.native_functions import advance
else:
    from loopcore._native import interpreter
    from loopcore._native.interpreter import advance


class Step:
    """A coroutine and how its last step has ended, as `advance` takes and sets them."""

    __slots__ = ("_coro", "_how")

    def __init__(self, coro: object) -> None:
        self._coro: object = coro
        self._how: int = 2

    def step(self, thrown: BaseException | None, context: Context | None) -> tuple[int, Any]:
        """Run the coroutine to its next suspension; return how it ended and its outcome."""
        outcome = advance(self, thrown, context)
        return self._how, outcome


class Stop:
    """An iterator that ends with `value`."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value: object = value

    def __iter__(self) -> "Stop":
        return self

    def __await__(self) -> "Stop":
        return self

    def __next__(self) -> object:
        interpreter.stop_with(self.value)
        raise StopIteration


def call_in_context(context: Context, callback: Callable[..., object], args: tuple[object, ...]) -> Any:
    """Call it."""
    return interpreter.call_in_context(context, callback, args)


def copy_context() -> Context:
    """Call it."""
    copied: Context = interpreter.copy_context()
    return copied


def is_method(method: object, function: object, owner: object) -> bool:
    """Call it."""
    return bool(interpreter.is_method(method, function, owner))


def clocks() -> tuple[float, int, int]:
    """Return `monotonic()`, `monotonic_ns()` and `to_ns(1.5)`."""
    return interpreter.monotonic(), interpreter.monotonic_ns(), interpreter.to_ns(1.5)


def numbers(what: object) -> tuple[int, int]:
    """Return `identity(what)` and `get_ident()`."""
    return interpreter.identity(what), interpreter.get_ident()
