"""The functions of `os` that take descriptors, for pipes and sockets; real numbers go to the real functions."""

import errno
import os
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from loopcore.ports.interest import READ, WRITE
from loopcore_backends.sim.descriptors import Description, error, is_simulated, scatter
from loopcore_backends.sim.pipes import make_pipe

if TYPE_CHECKING:
    from loopcore_backends.sim.world import World


def replacements(world: "World") -> list[tuple[ModuleType, str, object]]:
    """Return what stands in for the functions of `os`."""
    table = world.descriptors
    found: list[tuple[ModuleType, str, object]] = []

    def replace(name: str, simulated: Callable[..., Any]) -> None:
        real = getattr(os, name, None)
        if real is None:
            return

        def either(fd: Any, *args: Any, **kwargs: Any) -> Any:
            return (simulated if is_simulated(fd) else real)(fd, *args, **kwargs)

        found.append((os, name, either))

    def retry(description: Description, call: Callable[[], Any], interest: int) -> Any:
        while True:
            try:
                return call()
            except BlockingIOError:
                if not description.blocking:
                    raise
            world.block(lambda: description.is_ready(interest))

    def read(fd: int, size: int) -> bytes:
        if size < 0:
            raise error(errno.EINVAL)
        description = table.get(fd)
        data: bytes = retry(description, lambda: description.read(size), READ)
        return data

    def write(fd: int, data: Any) -> int:
        description = table.get(fd)
        view = memoryview(data).cast("B")
        take = description.write if description.blocking else description.write_some
        size: int = retry(description, lambda: take(view), WRITE)
        while description.blocking and 0 < size < len(view):  # write(2) that blocks takes it all
            try:
                size += retry(description, partial(description.write, view[size:]), WRITE)
            except OSError:
                break  # the next call reports it
        return size

    def readv(fd: int, buffers: Any) -> int:
        views = [memoryview(buffer).cast("B") for buffer in buffers]
        data = read(fd, sum(map(len, views)))
        scatter(data, views)
        return len(data)

    def set_blocking(fd: int, blocking: bool) -> None:
        table.get(fd).blocking = bool(blocking)

    def set_inheritable(fd: int, inheritable: bool) -> None:
        table.get(fd)
        table.set_inheritable(fd, inheritable)

    def pipe() -> tuple[int, int]:
        reader, writer = make_pipe(world.host)
        return table.install(reader), table.install(writer)

    def pipe2(flags: int) -> tuple[int, int]:
        pair = pipe()
        for fd in pair:
            table.get(fd).blocking = not flags & os.O_NONBLOCK
            table.set_inheritable(fd, not flags & os.O_CLOEXEC)
        return pair

    def dup2(fd: int, other: int, inheritable: bool = True) -> int:
        table.dup2(fd, other)
        if fd != other:
            table.set_inheritable(other, inheritable)
        return other

    def isatty(fd: int) -> bool:
        try:
            table.get(fd)
        except OSError:
            pass  # isatty(3) says no
        return False

    replace("read", read)
    replace("write", write)
    replace("readv", readv)
    replace("writev", lambda fd, buffers: write(fd, b"".join(bytes(buffer) for buffer in buffers)))
    replace("close", table.close)
    replace("dup", table.dup)
    replace("dup2", dup2)
    replace("set_blocking", set_blocking)
    replace("get_blocking", lambda fd: table.get(fd).blocking)
    replace("set_inheritable", set_inheritable)
    replace("get_inheritable", table.is_inheritable)
    replace("isatty", isatty)
    found.append((os, "pipe", pipe))
    if hasattr(os, "pipe2"):
        found.append((os, "pipe2", pipe2))
    return found
