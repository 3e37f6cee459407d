"""Parts of a loop, created on first use.

Most loops never use most of their parts: a test creates a loop, runs a coroutine and closes it, without a connection, a
child process or a signal. Parts also tie a loop into reference cycles, since each refers to the loop. A loop that
releases its parts when it closes is freed at once, and its memory is available to the next one (docs/adr/0015).
"""

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from loopcore.services.transport_table import TransportTable

if TYPE_CHECKING:
    from typing import Protocol

    class HasParts(Protocol):
        """A loop, as the keeper of its parts."""

        _parts: dict[str, Any]

        def unfinished_jobs(self) -> list[Callable[..., Any]]: ...


T = TypeVar("T")

_TIES: Final = {
    "_asyncgens",
    "_children",
    "_endpoints",
    "_files",
    "_at_fork_state",
    "_resolver",
    "_signals",
    "_sockops",
}
"""Parts that a closed loop does not need, or can create again. Not `_faults`, which may hold the program's handler."""


_CLOSED: Final = ("_signals", "_children", "_executors")
"""The parts that are closed when the loop is closed, in this order."""


_any_early = False
"""Whether any part was ever set before the loop's `__init__`, as a subclass may do; from then on every loop checks."""


class Part:
    """A descriptor, returned by `part`: it keeps the part that it created in the loop's table of parts.

    Not in the loop's instance dict: Python 3.12 and later call methods faster on an object without one (docs/adr/0007).
    A program may set a part, even before the loop's `__init__`; a deleted one is created again on its next use.

    Thread: any; threads that get a part concurrently all get the same one.
    """

    __slots__ = ("_make", "_name")

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make
        self._name: str = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, loop: "HasParts | None", owner: object) -> Any:
        if loop is None:
            return self
        parts = loop._parts
        made = parts.get(self._name)
        return parts.setdefault(self._name, self._make(loop)) if made is None else made

    def __set__(self, loop: "HasParts", value: Any) -> None:
        global _any_early
        if not hasattr(loop, "_threads"):  # a subclass that sets it before it calls our `__init__`
            _any_early = True
            if not hasattr(loop, "_parts"):
                loop._parts = {}
        loop._parts[self._name] = value

    def __delete__(self, loop: "HasParts") -> None:
        try:
            del loop._parts[self._name]
        except KeyError:
            raise AttributeError(f"{type(loop).__name__!r} object has no {self._name!r} to delete") from None


def part(make: Callable[[Any], T]) -> T:
    """Declare an attribute of a loop class, created by `make(loop)` once per loop, on first use."""
    return cast(T, Part(make))


def created(loop: "HasParts", name: str) -> Any:
    """Return a part of `loop` if it was created, else None."""
    return loop._parts.get(name)


def table_of_transports(loop: object) -> TransportTable:
    """Return the table of descriptors and their owners: add_reader and sock_* must not touch a transport's.

    Libraries know the attribute's name, `_transports`, from asyncio.
    """
    return TransportTable()


def table_of_parts(loop: "HasParts") -> dict[str, Any]:
    """Return an empty table for a new loop, or the table with the parts that a subclass set before our `__init__`."""
    # In this order: a `hasattr` of an empty slot takes longer than any other step of creating a loop.
    if not _any_early or hasattr(loop, "_threads") or not hasattr(loop, "_parts"):
        return {}
    return loop._parts


def close_parts(loop: "HasParts") -> None:
    """Close the created parts that have something to close, while the loop is still open."""
    parts = loop._parts
    if parts.keys().isdisjoint(_CLOSED):
        return  # the usual case; looking each one up would take longer than anything else here
    with contextlib.ExitStack() as closing:  # each of them, even if another fails
        for name in reversed(_CLOSED):
            if name in parts:
                closing.callback(parts[name].close)


def drop_parts(loop: "HasParts") -> None:
    """Break the cycles between a closed loop and its parts."""
    parts = loop._parts
    for name in _TIES.intersection(parts):
        del parts[name]
    if "_executors" in parts and not loop.unfinished_jobs():  # a program may ask for them as long as there are any
        del parts["_executors"]
