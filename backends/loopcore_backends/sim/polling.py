"""select(2) and poll(2) over simulated descriptors: some clients ask with them whether an idle connection was closed.

The bits of poll(2) and those of loopcore.ports.interest are the same. epoll and kqueue are refused (refusals.py): a
program that has a selector has its own loop.
"""

import errno
import selectors
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore_backends.sim.descriptors import error, is_simulated
from loopcore_backends.sim.refusals import not_simulated
from loopcore_backends.sim.replacing import Replacement

if TYPE_CHECKING:
    from loopcore_backends.sim.world import World

_REAL: Final = "it is given a real descriptor; use sockets and pipes that the simulated program has opened"
_INVALID: Final = 32
"""POLLNVAL of Linux."""


class Poll:
    """What select.poll() returns."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._interests: dict[int, int] = {}

    def register(self, fd: Any, eventmask: int = READ | 2 | WRITE, /) -> None:
        self._interests[_number_of(fd, "poll")] = eventmask

    def modify(self, fd: Any, eventmask: int, /) -> None:
        number = _number_of(fd, "poll")
        if number not in self._interests:
            raise error(errno.ENOENT)
        self._interests[number] = eventmask

    def unregister(self, fd: Any, /) -> None:
        del self._interests[_number_of(fd, "poll")]

    def poll(self, timeout: float | None = None, /) -> list[tuple[int, int]]:
        """`timeout` is in milliseconds; None and negative numbers wait without limit."""
        seconds = None if timeout is None or timeout < 0 else timeout / 1000
        _wait(self._world, lambda: bool(self._ready()), seconds)
        return self._ready()

    def _ready(self) -> list[tuple[int, int]]:
        found = []
        for fd, interest in self._interests.items():
            description = self._world.descriptors.find(fd)
            bits = _INVALID if description is None else description.poll() & (interest | ERROR | HANGUP)
            if bits:
                found.append((fd, bits))
        return found


def select(
    world: "World", read: Iterable[Any], write: Iterable[Any], urgent: Iterable[Any], timeout: float | None = None, /
) -> tuple[list[Any], list[Any], list[Any]]:
    """select.select(): `timeout` is in seconds."""
    if timeout is not None and timeout < 0:
        raise ValueError("timeout must be non-negative")
    asked = [(list(group), interest) for group, interest in ((read, READ), (write, WRITE), (urgent, 0))]

    def ready() -> list[list[Any]]:
        return [[each for each in group if interest and _is_ready(world, each, interest)] for group, interest in asked]

    for group, _ in asked:
        for each in group:
            world.descriptors.get(_number_of(each, "select"))  # OSError(EBADF)
    _wait(world, lambda: any(ready()), timeout)
    readable, writable, exceptional = ready()
    return readable, writable, exceptional


def replacements(world: "World") -> list[Replacement]:
    """select.select, select.poll and selectors.PollSelector of `world`."""
    import select as module

    new_poll = partial(Poll, world)
    places = [
        (module, "select", partial(select, world)),
        (module, "poll", new_poll),
        (getattr(selectors, "PollSelector", None), "_selector_cls", new_poll),  # the class keeps a copy
    ]
    return [place for place in places if hasattr(place[0], place[1])]


def _wait(world: "World", is_ready: Callable[[], bool], seconds: float | None) -> None:
    if seconds != 0:
        world.block(is_ready, None if seconds is None else world.deadline_after(seconds))


def _number_of(fd: Any, caller: str) -> int:
    number = fd if isinstance(fd, int) else fd.fileno()
    if number < 0:
        raise ValueError(f"file descriptor cannot be a negative integer ({number})")
    if not is_simulated(number):
        raise not_simulated(f"select.{caller}()", _REAL)
    return int(number)


def _is_ready(world: "World", fd: Any, interest: int) -> bool:
    description = world.descriptors.find(_number_of(fd, "select"))
    return description is not None and description.is_ready(interest)
