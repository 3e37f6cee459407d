"""Descriptors: numbers of open file descriptions, as every process has them."""

import errno
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from loopcore.ports.interest import ERROR, HANGUP

if TYPE_CHECKING:
    from loopcore_backends.sim.hosts import Host
    from loopcore_backends.sim.world import World

T = TypeVar("T")

FIRST: Final = 1_000_000
"""The lowest simulated number: a real system call that is given one fails with EBADF."""
_ALWAYS: Final = ERROR | HANGUP


class Description:
    """An open file description: what dup(2) shares. Blocking is the caller's: BlockingIOError says "not now"."""

    kind = "file"

    def __init__(self, host: "Host") -> None:
        self.host = host
        self.references = 0
        self.blocking = True
        self.changes = 0
        """How often `changed` was called."""
        self._listeners: dict[Any, None] = {}

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes, b"" at the end."""
        raise error(errno.EINVAL)

    def write(self, data: "bytes | memoryview") -> int:
        """Take bytes; return how many."""
        raise error(errno.EINVAL)

    def write_some(self, data: "bytes | memoryview") -> int:
        """Take bytes for a program that does not block: perhaps a part only, although there is room for more."""
        return self.write(data)

    def poll(self) -> int:
        """Return the readiness, in bits of loopcore.ports.interest."""
        return 0

    def close(self) -> None:
        """The last reference is gone."""

    def abandon(self) -> None:
        """The host has lost its power: this is gone, and its peers receive nothing."""

    def is_ready(self, interest: int) -> bool:
        """Return whether a call in the direction of `interest` would not block."""
        return bool(self.poll() & (interest | _ALWAYS))

    def listen_for_change(self, listener: Any) -> None:
        """Have `listener.changed(self)` called, once, at the next change."""
        self._listeners[listener] = None

    def stop_listening(self, listener: Any) -> None:
        """Take `listen_for_change` back. Idempotent."""
        self._listeners.pop(listener, None)

    def changed(self) -> None:
        """Notify the listeners: a call that would have blocked may succeed now."""
        self.changes += 1
        if self._listeners:
            listeners, self._listeners = self._listeners, {}
            for listener in listeners:
                listener.changed(self)


class Descriptors:
    """The table: the lowest free number is given out next, as POSIX says."""

    def __init__(self) -> None:
        self._table: dict[int, Description] = {}
        self._inheritable: set[int] = set()

    def install(self, description: Description, lowest: int = FIRST) -> int:
        """Return a new number for `description`."""
        fd = lowest
        while fd in self._table:
            fd += 1
        self._table[fd] = description
        description.references += 1
        return fd

    def find(self, fd: int) -> Description | None:
        """Return what `fd` stands for, None if it is closed."""
        return self._table.get(fd)

    def get(self, fd: int) -> Description:
        """Return what `fd` stands for. Raises OSError(EBADF)."""
        found = self._table.get(fd)
        if found is None:
            raise error(errno.EBADF)
        return found

    def is_inheritable(self, fd: int) -> bool:
        """Return whether a new process would get `fd`: a property of the number, not of the description."""
        self.get(fd)
        return fd in self._inheritable

    def set_inheritable(self, fd: int, inheritable: bool) -> None:
        """Set whether a new process gets `fd`."""
        (self._inheritable.add if inheritable else self._inheritable.discard)(fd)

    def dup(self, fd: int) -> int:
        """Return another number for the same description."""
        return self.install(self.get(fd))

    def dup2(self, fd: int, other: int) -> int:
        """Make `other`, which is closed first, stand for what `fd` stands for."""
        description = self.get(fd)
        if fd != other:
            if other in self._table:
                self.close(other)
            self._table[other] = description
            description.references += 1
        return other

    def close(self, fd: int) -> None:
        """Free the number; with the last one the description is closed."""
        description = self.get(fd)
        del self._table[fd]
        self._inheritable.discard(fd)
        self._release(description)

    def close_all_of(self, host: "Host") -> None:
        """Close what the processes of a host have open, as their end does."""
        for fd, description in [*self._table.items()]:
            if description.host is host and fd in self._table:
                self.close(fd)

    def forget_all_of(self, host: "Host") -> None:
        """Drop what a host without power had open; its peers receive nothing."""
        for fd, description in [*self._table.items()]:
            if description.host is host:
                del self._table[fd]
                description.abandon()

    @staticmethod
    def _release(description: Description) -> None:
        description.references -= 1
        if not description.references:
            description.close()
            description.changed()


def is_simulated(fd: object) -> bool:
    """Return whether this is a number of a simulated descriptor."""
    return isinstance(fd, int) and fd >= FIRST


def error(number: int) -> OSError:
    """Return the OSError of this errno, of the subclass that Python gives it."""
    return OSError(number, os.strerror(number))


def retry(world: "World", description: Description, call: Callable[[], T], interest: int) -> T:
    """Return the result of `call`, once it does not block. Raises BlockingIOError if the description does not block."""
    while True:
        try:
            return call()
        except BlockingIOError:
            if not description.blocking:
                raise
        world.block(lambda: description.is_ready(interest))


def scatter(data: bytes, views: "list[memoryview]") -> None:
    """Fill `views`, one after the other, with `data`."""
    rest = memoryview(data)
    for view in views:
        size = min(len(view), len(rest))
        view[:size], rest = rest[:size], rest[size:]
