"""The port of `loopcore.files`: the system calls that a File needs, each made by an operation or in a thread.

When one of these returns or raises, nothing of it is in flight any more: not in the kernel, not in a thread. A call
that is cancelled ends early if it can; how far it came is told all the same. Errors are those of the system.
"""

import os
from typing import Protocol

from loopcore.files.descriptor import Descriptor
from loopcore.files.modes import Mode

APPEND = -1
"""The offset of a write that goes to the end of the file, by O_APPEND, and moves the kernel's position there."""


class Progress:
    """How far a write has come."""

    __slots__ = ("done", "end")

    def __init__(self) -> None:
        self.done = 0
        """Bytes that were taken."""
        self.end: int | None = None
        """Of an append: where in the file they end."""


class Port(Protocol):
    """What a File needs done. Thread: the loop's own."""

    async def open(self, path: str | bytes, mode: Mode) -> tuple[Descriptor, int]:
        """Open `path`; return its descriptor and the position that it begins with."""
        ...

    async def read(self, descriptor: Descriptor, limit: int, offset: int) -> bytes:
        """Read `limit` bytes from `offset`; fewer only at the end of the file."""
        ...

    async def write(self, descriptor: Descriptor, view: memoryview, offset: int, progress: Progress) -> None:
        """Write all of `view` to `offset`. `progress` says, also after an error, how much was written."""
        ...

    async def sync(self, descriptor: Descriptor, data_only: bool) -> None:
        """fsync(2), or fdatasync(2) if `data_only`."""
        ...

    async def stat(self, descriptor: Descriptor) -> os.stat_result:
        """fstat(2)."""
        ...

    async def stat_path(self, path: str | bytes, follow: bool) -> os.stat_result:
        """stat(2), or lstat(2)."""
        ...

    async def size(self, descriptor: Descriptor) -> int:
        """Where the file ends, also of a block device, whose stat(2) does not know."""
        ...

    async def truncate(self, descriptor: Descriptor, size: int) -> None:
        """ftruncate(2)."""
        ...

    async def close(self, descriptor: Descriptor) -> None:
        """close(2). The descriptor is gone when this ends, however it ends."""
        ...
