"""The port of `loopcore.files`: the system calls that a File needs, each made by an operation or in a thread.

When a call returns or raises, no part of it is in flight any more, neither in the kernel nor in a thread. A call
that is cancelled ends early if it can; its progress is reported all the same. Errors are the system's.
"""

import os
from typing import Protocol

from loopcore.files.descriptor import Descriptor
from loopcore.files.modes import Mode

APPEND = -1
"""The offset of a write that goes to the end of the file, by O_APPEND, and moves the kernel's position there."""


class Progress:
    """The progress of a write."""

    __slots__ = ("done", "end")

    def __init__(self) -> None:
        self.done = 0
        """How many bytes were written."""
        self.end: int | None = None
        """For an append: the offset in the file where they end."""


class Port(Protocol):
    """The system calls of a File. Thread: the loop's own."""

    async def open(self, path: str | bytes, mode: Mode) -> tuple[Descriptor, int]:
        """Open `path`; return its descriptor and the initial position."""
        ...

    async def read(self, descriptor: Descriptor, limit: int, offset: int) -> bytes:
        """Read `limit` bytes from `offset`; fewer only at the end of the file."""
        ...

    async def write(self, descriptor: Descriptor, view: memoryview, offset: int, progress: Progress) -> None:
        """Write all of `view` at `offset`. `progress` says how much was written, also after an error."""
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
        """Return where the file ends, also for block devices, for which stat(2) does not report it."""
        ...

    async def truncate(self, descriptor: Descriptor, size: int) -> None:
        """ftruncate(2)."""
        ...

    async def close(self, descriptor: Descriptor) -> None:
        """close(2). The descriptor is closed when this ends, even if it raises."""
        ...
