"""The functions of `os` that take descriptors, for pipes and sockets; real numbers go to the real functions."""

import errno
import os
import stat
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from loopcore.ports.interest import READ, WRITE
from loopcore_backends.sim.descriptors import Description, error, is_simulated
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
        description = table.get(fd)
        data: bytes = retry(description, lambda: description.read(size), READ)
        return data

    def write(fd: int, data: Any) -> int:
        description = table.get(fd)
        view = memoryview(data).cast("B")
        size: int = retry(description, lambda: description.write(view), WRITE)
        return size

    def readv(fd: int, buffers: Any) -> int:
        views = [memoryview(buffer).cast("B") for buffer in buffers]
        data = read(fd, sum(map(len, views)))
        rest = memoryview(data)
        for view in views:
            size = min(len(view), len(rest))
            view[:size], rest = rest[:size], rest[size:]
        return len(data)

    def set_blocking(fd: int, blocking: bool) -> None:
        table.get(fd).blocking = bool(blocking)

    def set_inheritable(fd: int, inheritable: bool) -> None:
        table.get(fd).inheritable = bool(inheritable)

    def fstat(fd: int) -> os.stat_result:
        kind = table.get(fd).kind
        mode = {"pipe": stat.S_IFIFO, "socket": stat.S_IFSOCK}.get(kind, stat.S_IFREG) | 0o600
        return os.stat_result((mode, fd, 0, 1, 1000, 1000, 0, 0, 0, 0))

    def lseek(fd: int, *_: Any) -> int:
        table.get(fd)
        raise error(errno.ESPIPE)

    def sendfile(fd: int, *_: Any) -> int:
        table.get(fd)
        raise error(errno.EINVAL)  # as for files that sendfile(2) cannot send: callers copy instead

    def pipe() -> tuple[int, int]:
        reader, writer = make_pipe(world.host)
        return table.install(reader), table.install(writer)

    def pipe2(flags: int) -> tuple[int, int]:
        pair = pipe()
        for fd in pair:
            table.get(fd).blocking = not flags & os.O_NONBLOCK
        return pair

    replace("read", read)
    replace("write", write)
    replace("readv", readv)
    replace("writev", lambda fd, buffers: write(fd, b"".join(bytes(buffer) for buffer in buffers)))
    replace("close", table.close)
    replace("dup", table.dup)
    replace("dup2", lambda fd, other, inheritable=True: table.dup2(fd, other))
    replace("set_blocking", set_blocking)
    replace("get_blocking", lambda fd: table.get(fd).blocking)
    replace("set_inheritable", set_inheritable)
    replace("get_inheritable", lambda fd: table.get(fd).inheritable)
    replace("fstat", fstat)
    replace("lseek", lseek)
    replace("sendfile", sendfile)
    replace("isatty", lambda fd: table.get(fd) is None)
    found.append((os, "pipe", pipe))
    if hasattr(os, "pipe2"):
        found.append((os, "pipe2", pipe2))
    return found
