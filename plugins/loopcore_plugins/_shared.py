"""Reading what another thread writes."""

from collections import deque
from typing import TypeVar

T = TypeVar("T")


def items_of(shared: deque[T]) -> list[T]:
    """Return the items of a deque to which another thread appends. Without the GIL that may take several attempts."""
    while True:
        try:
            return list(shared)
        except RuntimeError:  # mutated during iteration
            pass
