"""The functions of `os` that take descriptors, for pipes and sockets; real numbers go to the real functions."""

import errno
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from loopcore.ports.interest import READ, WRITE
from loopcore_backends.sim.descriptors import error, is_simulated, retry, scatter
from loopcore_backends.sim.pipes import make_pipe
from loopcore_backends.sim.replacing import Replacement

if TYPE_CHECKING:
    from loopcore_backends.sim.world import World


def replacements(world: "World") -> list[Replacement]:
    """Return what stands in for the functions of `os`."""
    calls = _Calls(world)
    found: list[Replacement] = [(os, "pipe", calls.pipe)]
    if hasattr(os, "pipe2"):
        found.append((os, "pipe2", calls.pipe2))
    for name, simulated in calls.of_descriptors().items():
        real = getattr(os, name, None)
        if real is not None:
            found.append((os, name, _either(simulated, real)))
    return found


def _either(simulated: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
    def either(fd: Any, *args: Any, **kwargs: Any) -> Any:
        return (simulated if is_simulated(fd) else real)(fd, *args, **kwargs)

    return either


class _Calls:
    """The functions for simulated descriptors."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._table = world.descriptors

    def of_descriptors(self) -> dict[str, Callable[..., Any]]:
        """Return the functions whose first argument is a descriptor, by name."""
        table = self._table
        return {
            "read": self.read,
            "write": self.write,
            "readv": self.readv,
            "writev": lambda fd, buffers: self.write(fd, b"".join(bytes(buffer) for buffer in buffers)),
            "close": table.close,
            "dup": table.dup,
            "dup2": self.dup2,
            "set_blocking": self.set_blocking,
            "get_blocking": lambda fd: table.get(fd).blocking,
            "set_inheritable": self.set_inheritable,
            "get_inheritable": table.is_inheritable,
            "isatty": self.isatty,
        }

    def read(self, fd: int, size: int) -> bytes:
        if size < 0:
            raise error(errno.EINVAL)
        description = self._table.get(fd)
        return retry(self._world, description, lambda: description.read(size), READ)

    def write(self, fd: int, data: Any) -> int:
        description = self._table.get(fd)
        view = memoryview(data).cast("B")
        take = description.write if description.blocking else description.write_some
        size = retry(self._world, description, lambda: take(view), WRITE)
        while description.blocking and 0 < size < len(view):  # write(2) that blocks takes it all
            try:
                size += retry(self._world, description, partial(description.write, view[size:]), WRITE)
            except OSError:
                break  # the next call reports it
        return size

    def readv(self, fd: int, buffers: Any) -> int:
        views = [memoryview(buffer).cast("B") for buffer in buffers]
        data = self.read(fd, sum(map(len, views)))
        scatter(data, views)
        return len(data)

    def set_blocking(self, fd: int, blocking: bool) -> None:
        self._table.get(fd).blocking = bool(blocking)

    def set_inheritable(self, fd: int, inheritable: bool) -> None:
        self._table.get(fd)
        self._table.set_inheritable(fd, inheritable)

    def pipe(self) -> tuple[int, int]:
        reader, writer = make_pipe(self._world.host)
        return self._table.install(reader), self._table.install(writer)

    def pipe2(self, flags: int) -> tuple[int, int]:
        pair = self.pipe()
        for fd in pair:
            self._table.get(fd).blocking = not flags & os.O_NONBLOCK
            self._table.set_inheritable(fd, not flags & os.O_CLOEXEC)
        return pair

    def dup2(self, fd: int, other: int, inheritable: bool = True) -> int:
        self._table.dup2(fd, other)
        if fd != other:
            self._table.set_inheritable(other, inheritable)
        return other

    def isatty(self, fd: int) -> bool:
        try:
            self._table.get(fd)
        except OSError:
            pass  # isatty(3) says no
        return False
