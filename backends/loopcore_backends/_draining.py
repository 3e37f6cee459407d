"""Taking everything from a queue that several calls may take from."""

from collections import deque
from typing import TypeVar

T = TypeVar("T")


def drain(items: deque[T]) -> list[T]:
    """Remove and return all items, in order.

    One by one, so that each goes to one caller, wherever calls overlap. Thread: any, in the middle of another call too.
    """
    taken: list[T] = []
    try:
        while True:
            taken.append(items.popleft())
    except IndexError:
        return taken
