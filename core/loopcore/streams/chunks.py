"""Chunks: the bytes that a stream has received and nobody has read yet.

What the transport hands over is kept as it is, a chunk each, so a message that came whole is read without a copy, and
one that came in pieces is joined in one. Two cases are different, and a bytearray that grows serves both: pieces
too small to be objects of their own (or else a peer that sends single bytes makes each cost fifty), and a search,
which needs the bytes side by side.

Sizes and positions are in bytes, positions counted from the first unread byte. Thread: the loop's own.
"""

from collections import deque
from typing import Any

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.native.chunks import cut, find
else:
    from loopcore.native.interpreted_chunks import cut, find

SMALL = 2048
"""Pieces up to this size are copied together."""


class Chunks:
    """A queue of bytes: appended in pieces, taken in any amounts."""

    __slots__ = ("size", "_head", "_start", "_rest")

    def __init__(self) -> None:
        self.size: int = 0
        """How many bytes are unread."""
        self._head: Any = b""
        self._start: int = 0
        """How much of `_head` was taken already."""
        self._rest: Any = None
        """The chunks behind `_head`, in a deque; None if there are none."""

    def append(self, data: bytes) -> None:
        """Add `data`, which is not empty."""
        if self.size == 0:
            self._head = data
            self._start = 0
        else:
            self._append_behind(data)
        self.size += len(data)

    def _append_behind(self, data: bytes) -> None:
        rest = self._rest
        tail = self._head if rest is None else rest[len(rest) - 1]
        if len(data) > SMALL:
            self._add_chunk(data)
        elif type(tail) is bytearray:
            if rest is None and self._start > len(tail) // 2:
                del tail[: self._start]  # or what was taken would pile up
                self._start = 0
            tail += data
        else:
            self._add_chunk(bytearray(data))

    def _add_chunk(self, chunk: Any) -> None:
        if self._rest is None:
            self._rest = deque()
        self._rest.append(chunk)

    def take(self, count: int) -> bytes:
        """Take out the first `count` bytes; there must be as many."""
        head = self._head
        start = self._start
        end = start + count
        length = len(head)
        if end > length:
            return self._take_several(count)
        self.size -= count
        if start == 0 and end == length and type(head) is bytes:
            taken: bytes = head
        else:
            taken = cut(head, start, end)
        if end == length:
            self._next_head()
        else:
            self._start = end
        return taken

    def _take_several(self, count: int) -> bytes:
        """Take out more than what is in the first chunk."""
        parts = []
        wanted = count
        while wanted:
            head = self._head
            available = len(head) - self._start
            if available <= wanted:
                parts.append(memoryview(head)[self._start :])
                wanted -= available
                self._next_head()
            else:
                parts.append(cut(head, self._start, self._start + wanted))
                self._start += wanted
                wanted = 0
        self.size -= count
        return b"".join(parts)

    def _next_head(self) -> None:
        self._start = 0
        if self._rest is None:
            self._head = b""
        else:
            self._head = self._rest.popleft()
            if not self._rest:
                self._rest = None

    def take_all(self) -> bytes:
        """Take out everything."""
        return self.take(self.size)

    def find(self, wanted: Any, offset: int) -> int:
        """Return where `wanted`, which is bytes-like, begins, not before `offset`; -1 if nowhere."""
        if self._rest is not None:
            self._gather()
        found: int = find(self._head, wanted, self._start + offset)
        return found if found < 0 else found - self._start

    def _gather(self) -> None:
        """Make one bytearray of all chunks, by appending to the first if it is one: each byte is moved once."""
        gathered = self._head
        if type(gathered) is bytearray:
            del gathered[: self._start]
        else:
            gathered = bytearray(memoryview(gathered)[self._start :])
        for chunk in self._rest:
            gathered += chunk
        self._head = gathered
        self._start = 0
        self._rest = None

    def peek(self) -> bytes:
        """Return everything, and leave it here."""
        if self._rest is not None:
            self._gather()
        everything: bytes = cut(self._head, self._start, len(self._head))
        return everything
