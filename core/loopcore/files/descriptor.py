"""Descriptor: the number of an open file, closed exactly once and never while it is in use.

The File holds the Descriptor, and so does each call in flight, in the kernel or in a thread. So if a File is dropped
while a thread still reads, its number cannot be reused by the next file that is opened, which the thread would then
read: the number is closed when the last holder drops it.

Thread: the loop's own, except `take`, `close_now` and the finalizer, which may run in a thread of the pool.
"""

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from loopcore.services.call import Call

if TYPE_CHECKING:
    import asyncio


class Descriptor:
    """The number of an open file, -1 once it is closed, and how many calls use it now."""

    __slots__ = ("_idle", "fd", "seeking", "uses")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.uses = 0
        self.seeking = threading.Lock()
        """Held from a seek to the read or write that it is for, on platforms without pread(2)."""
        self._idle: Call | None = None

    def __del__(self, _close: Callable[[int], object] = os.close) -> None:
        if self.fd >= 0:
            _close(self.fd)

    def enter(self) -> None:
        """Count one more use."""
        self.uses += 1

    def leave(self) -> None:
        """End a use; the last one ends the wait in `idle`."""
        self.uses -= 1
        if not self.uses and self._idle is not None:
            idle, self._idle = self._idle, None
            idle.end(None)

    async def idle(self, loop: "asyncio.AbstractEventLoop") -> None:
        """Wait until nothing uses the file. A cancellation is raised only then."""
        if self.uses:
            self._idle = Call(loop)
            await self._idle

    def take(self) -> int:
        """Return the number; the caller has to close it."""
        fd, self.fd = self.fd, -1
        return fd

    def close_now(self) -> None:
        """Close the number, if it is open, in this thread."""
        if self.fd >= 0:
            os.close(self.take())
