"""Pipes: pipe(7).

As in Linux, a pipe is a ring of pages: a write goes to the end of the last page if its remainder fits there whole, and
else to new pages. So writes of up to PIPE_BUF bytes are atomic, and a pipe can be full with less than 64 KiB in it.
"""

import errno
from collections import deque
from typing import TYPE_CHECKING, Final

from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore_backends.sim.descriptors import Description, error

if TYPE_CHECKING:
    from loopcore_backends.sim.hosts import Host

PAGE: Final = 4_096
PAGES: Final = 16


class _Page:
    __slots__ = ("data", "begin")

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)
        self.begin = 0


class _Pipe:
    def __init__(self) -> None:
        self.pages: deque[_Page] = deque()
        self.reader: ReadEnd | None = None
        self.writer: WriteEnd | None = None


class ReadEnd(Description):
    """The end that is read from."""

    kind = "pipe"

    def __init__(self, host: "Host", pipe: _Pipe) -> None:
        super().__init__(host)
        self._pipe = pipe
        pipe.reader = self

    def read(self, size: int) -> bytes:
        pipe = self._pipe
        if not size:
            return b""
        if not pipe.pages:
            if pipe.writer is None:
                return b""
            raise error(errno.EAGAIN)
        pieces = []
        while pipe.pages and size:
            page = pipe.pages[0]
            piece = bytes(page.data[page.begin : page.begin + size])
            pieces.append(piece)
            size -= len(piece)
            page.begin += len(piece)
            if page.begin == len(page.data):
                pipe.pages.popleft()
        if pipe.writer is not None:
            pipe.writer.changed()
        return b"".join(pieces)

    def write(self, data: "bytes | memoryview") -> int:
        raise error(errno.EBADF)

    def poll(self) -> int:
        pipe = self._pipe
        return (READ if pipe.pages else 0) | (HANGUP if pipe.writer is None else 0)

    def close(self) -> None:
        self._pipe.reader = None
        if self._pipe.writer is not None:
            self._pipe.writer.changed()


class WriteEnd(Description):
    """The end that is written to."""

    kind = "pipe"

    def __init__(self, host: "Host", pipe: _Pipe) -> None:
        super().__init__(host)
        self._pipe = pipe
        pipe.writer = self

    def read(self, size: int) -> bytes:
        raise error(errno.EBADF)

    def write(self, data: "bytes | memoryview") -> int:
        pipe = self._pipe
        if not len(data):
            return 0
        if pipe.reader is None:
            raise error(errno.EPIPE)
        taken = 0
        remainder = len(data) % PAGE
        if remainder and pipe.pages and len(pipe.pages[-1].data) + remainder <= PAGE:
            pipe.pages[-1].data += data[:remainder]
            taken = remainder
        while taken < len(data) and len(pipe.pages) < PAGES:
            piece = bytes(data[taken : taken + PAGE])
            pipe.pages.append(_Page(piece))
            taken += len(piece)
        if not taken:
            raise error(errno.EAGAIN)
        pipe.reader.changed()
        return taken

    def poll(self) -> int:
        pipe = self._pipe
        return (WRITE if len(pipe.pages) < PAGES else 0) | (ERROR if pipe.reader is None else 0)

    def close(self) -> None:
        self._pipe.writer = None
        if self._pipe.reader is not None:
            self._pipe.reader.changed()


def make_pipe(host: "Host") -> tuple[ReadEnd, WriteEnd]:
    """Return both ends of a new pipe."""
    pipe = _Pipe()
    return ReadEnd(host, pipe), WriteEnd(host, pipe)
