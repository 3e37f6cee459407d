"""A stand-in for Cython's module of directives where Cython is not installed: the code runs interpreted."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

compiled: Final = False


class critical_section:  # noqa: N801 - Cython's name
    """A block that only one thread at a time executes, in compiled code and without the GIL."""

    def __init__(self, guarded: object) -> None:
        """Do nothing."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *exc_info: object) -> None:
        """Do nothing."""


def nonecheck(wanted: bool) -> Callable[[F], F]:
    """Return a decorator that changes nothing: interpreted code always checks for None."""
    return lambda function: function


def cast(type_: object, value: Any) -> Any:
    """Return `value`; compiled, without a check of its type."""
    return value
