"""Parts of a loop that are made when they are first asked for.

Most loops never use most of their parts: a test makes a loop, runs a coroutine and closes it, without a connection, a
child or a signal. A part is also what ties a loop into reference cycles, since it is given the loop; a loop that lets
go of its parts when it closes is freed at once, and its memory is there for the next one (docs/adr/0025).
"""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

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


class Part(Generic[T]):
    """An attribute that `make(loop)` returns, once for each loop.

    Thread: any; of threads that ask at once, all get the same.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, loop: Any, owner: type) -> T:
        # Only until the part is made: then the loop's own dict has it, which goes before an attribute of the class
        # that cannot be set.
        made: T = loop.__dict__.setdefault(self._name, self._make(loop))
        return made


def table_of_transports(loop: object) -> Owners:
    """Return who owns which descriptor, for add_reader and sock_*, which must not meddle with a transport's.

    Libraries have learnt its name, `_transports`, from asyncio.
    """
    return Owners()


def close_parts(loop: Any) -> None:
    """Close those that have something to close and were made, while the loop is still open."""
    for name in _CLOSED:
        part = loop.__dict__.get(name)
        if part is not None:
            part.close()


def let_go_of_parts(loop: Any) -> None:
    """Break the cycles between a closed loop and its parts."""
    for name in _TIES.intersection(loop.__dict__):
        del loop.__dict__[name]
    if "_executors" in loop.__dict__ and not loop.unfinished_jobs():  # which may be asked for as long as there are some
        del loop.__dict__["_executors"]
