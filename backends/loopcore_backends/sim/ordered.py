"""Sets that keep the order of insertion, where the order of a plain set would depend on addresses.

Objects hash by address, which differs from run to run, and so does the order in which a set of them is iterated. In the
modules named here `set()` makes an `OrderedSet`, and every WeakSet made in a simulation has one inside. Displays and
comprehensions of sets stay plain. The tasks and futures that a simulated loop makes hash by number
(`loopcore.sim.numbered`), so that these have one order even in sets of the program.
"""

import asyncio
import sys
import weakref
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import TYPE_CHECKING, Any

from loopcore_backends.sim.replacing import Replacement, StandsFor

if TYPE_CHECKING:
    from loopcore_backends.sim.world import World

_all_tasks = asyncio.tasks.all_tasks

MODULES = (
    "asyncio.base_subprocess",
    "asyncio.staggered",
    "asyncio.taskgroups",
    "asyncio.tasks",
    "concurrent.futures.thread",
    "aiohttp.connector",
    "anyio._backends._asyncio",
    "anyio._core._synchronization",
    "websockets.asyncio.server",
    "websockets.legacy.server",
)
"""Modules that put tasks, connections and the like in sets and iterate over them."""


class OrderedSet(set[Any], metaclass=StandsFor):
    """A `set` that is iterated, and emptied by `pop`, in the order of insertion."""

    _real = set
    __slots__ = ("_order",)
    __hash__ = None

    def __init__(self, items: Iterable[Any] = (), /) -> None:
        super().__init__()
        self._order: dict[Any, None] = {}
        self.update(items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._order)

    def __repr__(self) -> str:
        return f"{{{', '.join(map(repr, self))}}}" if self else "set()"

    def __reduce__(self) -> tuple[Any, ...]:
        return set, (list(self),)

    def add(self, item: Any, /) -> None:
        super().add(item)
        self._order[item] = None

    def discard(self, item: Any, /) -> None:
        super().discard(item)
        self._order.pop(item, None)

    def remove(self, item: Any, /) -> None:
        super().remove(item)
        self._order.pop(item, None)

    def pop(self) -> Any:
        if not self:
            raise KeyError("pop from an empty set")
        item = next(iter(self))
        self.remove(item)
        return item

    def clear(self) -> None:
        super().clear()
        self._order.clear()

    def copy(self) -> "OrderedSet":
        return OrderedSet(self)

    def update(self, *others: Iterable[Any]) -> None:
        self._change("update", others)

    def difference_update(self, *others: Iterable[Any]) -> None:
        self._change("difference_update", others)

    def intersection_update(self, *others: Iterable[Any]) -> None:
        self._change("intersection_update", others)

    def symmetric_difference_update(self, other: Iterable[Any], /) -> None:
        self._change("symmetric_difference_update", [other])

    def union(self, *others: Iterable[Any]) -> "OrderedSet":
        return self.copy()._change("update", others)

    def difference(self, *others: Iterable[Any]) -> "OrderedSet":
        return self.copy()._change("difference_update", others)

    def intersection(self, *others: Iterable[Any]) -> "OrderedSet":
        return self.copy()._change("intersection_update", others)

    def symmetric_difference(self, other: Iterable[Any], /) -> "OrderedSet":
        return self.copy()._change("symmetric_difference_update", [other])

    def _change(self, method: str, others: Iterable[Iterable[Any]]) -> "OrderedSet":
        lists = [list(other) for other in others]
        getattr(super(), method)(*lists)
        self._order = {item: None for item in chain(self._order, *lists) if item in self}
        return self


def _operators(name: str, method: str) -> None:
    """Give OrderedSet the operator `name` and its form that changes the set in place."""

    def operator(self: OrderedSet, other: object) -> Any:
        return self.copy()._change(method, [other]) if isinstance(other, AbstractSet) else NotImplemented

    def in_place(self: OrderedSet, other: object) -> Any:
        return self._change(method, [other]) if isinstance(other, AbstractSet) else NotImplemented

    setattr(OrderedSet, f"__{name}__", operator)
    setattr(OrderedSet, f"__i{name}__", in_place)


for _name, _method in [
    ("or", "update"),
    ("sub", "difference_update"),
    ("and", "intersection_update"),
    ("xor", "symmetric_difference_update"),
]:
    _operators(_name, _method)


class OrderedWeakSet(weakref.WeakSet[Any], metaclass=StandsFor):
    """A `weakref.WeakSet` that is iterated in the order of insertion."""

    _real = weakref.WeakSet

    def __init__(self, items: Iterable[Any] | None = None) -> None:
        super().__init__()
        self.data: set[Any] = OrderedSet()
        self.update(items or ())


def replacements(world: "World") -> list[Replacement]:
    """`set` in the `MODULES` that are imported, `weakref.WeakSet` and `asyncio.all_tasks`."""

    def all_tasks(loop: Any = None) -> set[Any]:
        return OrderedSet(sorted(_all_tasks(loop), key=hash))  # by number, which is the order of creation

    return [
        *((sys.modules[name], "set", OrderedSet) for name in MODULES if name in sys.modules),
        (weakref, "WeakSet", OrderedWeakSet),
        (asyncio.tasks, "all_tasks", all_tasks),
    ]
