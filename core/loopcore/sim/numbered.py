"""Futures and tasks that hash by number, so that a set of them is iterated in the same order in every run.

Other objects hash by their address. The numbers in the names of unnamed tasks start at 1 in each simulation.
"""

from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from loopcore.kernel.future import Future
from loopcore.kernel.own_tasks import OwnTasks
from loopcore.kernel.task_makers import ClassTasks

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Self

L = TypeVar("L")

_hashes, _names = count(1), count(1)


def restart_numbers() -> None:
    """Count from 1 again: a simulation begins."""
    global _hashes, _names
    _hashes, _names = count(1), count(1)


def numbered(loop: L) -> L:
    """Have `loop` make futures and tasks of this module; return it."""
    loop._tasks = ClassTasks(NumberedFuture, NumberedTask)  # type: ignore[attr-defined]
    return loop


class NumberedFuture(Future):
    """A `loopcore.Future` that hashes by number."""

    __slots__ = ("_hash",)
    _hash: int

    def __new__(cls, *_: object, **__: object) -> "Self":
        self = super().__new__(cls)
        self._hash = next(_hashes)
        return self

    def __hash__(self) -> int:
        return self._hash


_Task: Any = OwnTasks().task_class


class NumberedTask(_Task):  # type: ignore[misc]
    """A `loopcore.Task` that hashes by number."""

    __slots__ = ("_hash",)
    _hash: int

    def __new__(cls, *_: object, **__: object) -> Any:
        self = super().__new__(cls)
        self._hash = next(_hashes)
        return self

    def __init__(self, coro: "Coroutine[Any, Any, Any]", *, name: object = None, **options: object) -> None:
        super().__init__(coro, name=f"Task-{next(_names)}" if name is None else name, **options)

    def __hash__(self) -> int:
        return self._hash


# Their names stand in reprs, which programs print and tests compare.
NumberedFuture.__name__ = NumberedFuture.__qualname__ = Future.__name__
NumberedTask.__name__ = NumberedTask.__qualname__ = _Task.__name__
