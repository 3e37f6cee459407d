"""Parts of a loop that are made when they are first asked for.

Most loops never use most of their parts: a test makes a loop, runs a coroutine and closes it, without a connection, a
child or a signal. A part is also what ties a loop into reference cycles, since it is given the loop; a loop that lets
go of its parts when it closes is freed at once, and its memory is there for the next one (docs/adr/0025).
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from loopcore.services.owners import Owners

T = TypeVar("T")

_TIES: Final = {
    "_asyncgens",
    "_children",
    "_endpoints",
    "_files",
    "_heritage",
    "_resolver",
    "_signals",
    "_sockops",
}
"""What a closed loop needs no longer, or can make again. Not `_faults`, which may have the program's handler."""


_CLOSED: Final = ("_signals", "_children", "_executors")
"""What a loop closes when it is closed, in this order."""


_any_early = False
"""Whether a part was ever set of a loop that was not initialised yet, as a subclass may do; then each loop is asked."""


class Part:
    """What `part` returns: an attribute of the class that keeps what it has made in the loop's table of parts.

    Not in the loop's own dict: Python 3.12 and later call a method quickly on an object that has none (docs/adr/0014).
    A program may set one, also before the loop's `__init__`; one that is deleted is made again when it is asked for.

    Thread: any; of threads that ask at once, all get the same.
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
        if not hasattr(loop, "_threads"):  # a subclass does so before it calls `__init__` of ours
            _any_early = True
            if not hasattr(loop, "_parts"):
                loop._parts = {}
        loop._parts[self._name] = value

    def __delete__(self, loop: Any) -> None:
        try:
            del loop._parts[self._name]
        except KeyError:
            raise AttributeError(f"{type(loop).__name__!r} object has no {self._name!r} to delete") from None


def part(make: Callable[[Any], T]) -> T:
    """Declare an attribute of a loop's class that `make(loop)` returns, once for each loop, when it is asked for."""
    return cast(T, Part(make))


def table_of_transports(loop: object) -> Owners:
    """Return who owns which descriptor, for add_reader and sock_*, which must not meddle with a transport's.

    Libraries have learnt its name, `_transports`, from asyncio.
    """
    return Owners()


def table_of_parts(loop: Any) -> dict[str, Any]:
    """Return an empty table for a loop that is initialised, or what a subclass has set before it let us do so."""
    # In this order: to say that a slot is empty takes longer than any other step of making a loop.
    if not _any_early or hasattr(loop, "_threads") or not hasattr(loop, "_parts"):
        return {}
    parts: dict[str, Any] = loop._parts
    return parts


def close_parts(loop: Any) -> None:
    """Close those that have something to close and were made, while the loop is still open."""
    parts = loop._parts
    if parts.keys().isdisjoint(_CLOSED):
        return  # as a rule; to look for each takes longer than anything else here
    for name in _CLOSED:
        made = parts.get(name)
        if made is not None:
            made.close()


def let_go_of_parts(loop: Any) -> None:
    """Break the cycles between a closed loop and its parts."""
    parts = loop._parts
    for name in _TIES.intersection(parts):
        del parts[name]
    if "_executors" in parts and not loop.unfinished_jobs():  # which may be asked for as long as there are some
        del parts["_executors"]
