"""Parts of a loop, created on first use.

Most loops never use most of their parts: a test creates a loop, runs a coroutine and closes it, without a connection, a
child process or a signal. Parts also tie a loop into reference cycles, since each refers to the loop. A loop that
releases its parts when it closes is freed at once, and its memory is available to the next one (docs/adr/0015).
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from loopcore.services.owners import Owners

T = TypeVar("T")

_REPLACED: Final = "replaced"
"""The table's entry for parts that a program has replaced: by name, a list with the loop's own part first."""


_TIES: Final = {
    _REPLACED,
    "_asyncgens",
    "_children",
    "_endpoints",
    "_files",
    "_heritage",
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
    A value that a program sets hides the previous one, even before the loop's `__init__`. Deleting it restores the
    previous one, as `unittest.mock.patch.object` expects of an attribute that is not in an object's own dict.

    Thread: any; threads that get a part concurrently all get the same one.
    """

    __slots__ = ("_make", "_name")

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make
        self._name: str = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, loop: Any, owner: Any) -> Any:
        if loop is None:
            return self
        parts = loop._parts
        made = parts.get(self._name)
        return parts.setdefault(self._name, self._make(loop)) if made is None else made

    def __set__(self, loop: Any, value: Any) -> None:
        global _any_early
        if not hasattr(loop, "_threads"):  # a subclass that sets it before it calls our `__init__`
            _any_early = True
            if not hasattr(loop, "_parts"):
                loop._parts = {}
        parts = loop._parts
        made = parts.get(self._name)
        if made is not None and made is not value:
            replaced = parts.setdefault(_REPLACED, {}).setdefault(self._name, [])
            for position, before in enumerate(replaced):
                if before is value:  # restored, as pytest's monkeypatch does: what hid it is no longer needed
                    del replaced[position:]
                    break
            else:
                replaced.append(made)
        parts[self._name] = value

    def __delete__(self, loop: Any) -> None:
        parts = loop._parts
        try:
            del parts[self._name]  # created again on the next use
        except KeyError:
            raise AttributeError(f"{type(loop).__name__!r} object has no {self._name!r} to delete") from None
        replaced = parts.get(_REPLACED, {}).get(self._name)
        if replaced:
            parts[self._name] = replaced.pop()


def part(make: Callable[[Any], T]) -> T:
    """Declare an attribute of a loop class, created by `make(loop)` once per loop, on first use."""
    return cast(T, Part(make))


def table_of_transports(loop: object) -> Owners:
    """Return the table of descriptors and their owners: add_reader and sock_* must not touch a transport's.

    Libraries know the attribute's name, `_transports`, from asyncio.
    """
    return Owners()


def table_of_parts(loop: Any) -> dict[str, Any]:
    """Return an empty table for a new loop, or the table with the parts that a subclass set before our `__init__`."""
    # In this order: a `hasattr` of an empty slot takes longer than any other step of creating a loop.
    if not _any_early or hasattr(loop, "_threads") or not hasattr(loop, "_parts"):
        return {}
    parts: dict[str, Any] = loop._parts
    return parts


def close_parts(loop: Any) -> None:
    """Close the created parts that have something to close, while the loop is still open."""
    parts = loop._parts
    replaced = parts.get(_REPLACED)
    if replaced is None and parts.keys().isdisjoint(_CLOSED):
        return  # the usual case; looking each one up would take longer than anything else here
    for name in _CLOSED:
        if replaced is not None and replaced.get(name):
            replaced[name][0].close()
        made = parts.get(name)
        if made is not None:
            made.close()


def let_go_of_parts(loop: Any) -> None:
    """Break the cycles between a closed loop and its parts."""
    parts = loop._parts
    for name in _TIES.intersection(parts):
        del parts[name]
    if "_executors" in parts and not loop.unfinished_jobs():  # a program may ask for them as long as there are any
        del parts["_executors"]
