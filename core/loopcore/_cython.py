"""Stands in for Cython's own module of directives where Cython is not installed: the code is interpreted."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

compiled: Final = False


def nonecheck(wanted: bool) -> Callable[[F], F]:
    """Return a decorator that changes nothing: interpreted, None is looked at always."""
    return lambda function: function
