"""Chunks: the bytes that a stream has received and that are still unread.

Each bytes object from the transport is kept unchanged as one chunk. So a message that came whole is read without a
copy, and a message that came in pieces is joined with one copy. There are two exceptions, both handled by a growing
bytearray: pieces too small to be separate objects (each byte from a peer that sends single bytes would cost fifty), and
searches, which need the bytes to be contiguous.

Sizes and positions are in bytes, positions counted from the first unread byte. Thread: the loop's own.
"""

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

SMALL = 2048
"""Pieces up to this size are copied into a common bytearray."""


class Chunks:
    """A queue of bytes: appended in pieces, taken in any amount."""

    __slots__ = ("size", "_head", "_start", "_rest")

    def __init__(self) -> None:
        self.size: int = 0
        """How many bytes are unread."""
        self._head: bytes | bytearray = b""
        self._start: int = 0
        """How many bytes of `_head` were taken already."""
        self._rest: deque[bytes | bytearray] | None = None
        """The chunks after `_head`, in a deque; None if there are none."""

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
                del tail[: self._start]  # otherwise bytes already taken would accumulate
                self._start = 0
            tail += data
        else:
            self._add_chunk(bytearray(data))

    def _add_chunk(self, chunk: bytes | bytearray) -> None:
        if self._rest is None:
            self._rest = deque()
        self._rest.append(chunk)

    def take(self, count: int) -> bytes:
        """Remove and return the first `count` bytes; there must be that many."""
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
        """Remove and return more bytes than the first chunk holds."""
        parts: list[bytes | memoryview] = []
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
        """Remove and return everything."""
        return self.take(self.size)

    def find(self, wanted: "ReadableBuffer", offset: int) -> int:
        """Return the first position of `wanted`, a bytes-like object, at or after `offset`; -1 if there is none."""
        if self._rest is not None:
            self._gather()
        found: int = self._head.find(wanted, self._start + offset)
        return found if found < 0 else found - self._start

    def _gather(self) -> None:
        """Join all chunks in one bytearray. If the first one is a bytearray, append to it: each byte is moved once."""
        gathered = self._head
        if type(gathered) is bytearray:
            del gathered[: self._start]
        else:
            gathered = bytearray(memoryview(gathered)[self._start :])
        for chunk in self._rest:  # type: ignore[union-attr]
            gathered += chunk
        self._head = gathered
        self._start = 0
        self._rest = None

    def peek(self) -> bytes:
        """Return everything without removing it."""
        if self._rest is not None:
            self._gather()
        return cut(self._head, self._start, len(self._head))


def cut(chunk: bytes | bytearray, start: int, end: int) -> bytes:
    """Return `chunk[start:end]` as bytes, copied at most once."""
    if type(chunk) is bytes:
        return chunk[start:end]
    with memoryview(chunk) as view:
        return bytes(view[start:end])
