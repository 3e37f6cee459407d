"""Descriptor: an open file's number, which is closed once and never while something works on it.

Whoever works on the file holds the Descriptor: the File, and each call that is in flight, in the kernel or in a
thread. So a File that is dropped while a thread still reads does not give its number away to the next file that
is opened, and be read in its place: the number is closed when the last of them lets go.

Thread: the loop's own, but for `take`, `close_now` and the end, which may be that of a pool's thread.
"""

import os
import threading
from typing import Any

from loopcore.services.call import Call


class Descriptor:
    """The number of an open file, -1 once it is closed, and how many use it now."""

    __slots__ = ("_idle", "fd", "seeking", "uses")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.uses = 0
        self.seeking = threading.Lock()
        """Held from a seek to the read or write that it is for, where there is no pread(2)."""
        self._idle: Call | None = None

    def __del__(self, _close: Any = os.close) -> None:
        if self.fd >= 0:
            _close(self.fd)

    def enter(self) -> None:
        """Note one more use."""
        self.uses += 1

    def leave(self) -> None:
        """Note the end of a use; the last one ends the wait in `idle`."""
        self.uses -= 1
        if not self.uses and self._idle is not None:
            idle, self._idle = self._idle, None
            idle.end(None)

    async def idle(self, loop: Any) -> None:
        """Wait until nothing uses the file. A cancellation is raised when it has come to that."""
        if self.uses:
            self._idle = Call(loop)
            await self._idle

    def take(self) -> int:
        """Return the number, which is the caller's to close from now on."""
        fd, self.fd = self.fd, -1
        return fd

    def close_now(self) -> None:
        """Close the number, if it is open, in this thread."""
        if self.fd >= 0:
            os.close(self.take())
