"""StreamReader: the receiving end of a stream, with asyncio's interface.

docs/reference/streams.md lists the differences from asyncio. isinstance(reader, asyncio.StreamReader) holds through
`__class__` (docs/adr/0007).

Thread: the loop's own. Sizes are in bytes.
"""

import asyncio
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from loopcore.streams.coroutines import read_until_incomplete
from loopcore.streams.intake import DEFAULT_LIMIT, Intake
from loopcore.streams.reading import NEWLINE, NextLine, ReadLine, ReadUntil

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.streams.reader import give_instance_dicts
    from cython.cimports.loopcore.streams.reading import new_read, new_readexactly
else:
    from loopcore.streams.reading import new_read, new_readexactly

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class StreamReader(Intake):
    """Reads bytes, lines and messages from the data that a protocol feeds it. `limit` bounds lines and the buffer.

    Raises ValueError if `limit` is not positive.
    """

    __slots__ = ("__weakref__", "__dict__")

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return asyncio.StreamReader

    def __repr__(self) -> str:
        facts: list[str] = [type(self).__name__]
        size = self._chunks.size
        if size:
            facts.append(f"{size} bytes")
        if self._eof:
            facts.append("eof")
        if self._limit != DEFAULT_LIMIT:
            facts.append(f"limit={self._limit}")
        if self._waiter is not None:
            facts.append(f"waiter={self._waiter!r}")
        if self._exception is not None:
            facts.append(f"exception={self._exception!r}")
        if self._transport is not None:
            facts.append(f"transport={self._transport!r}")
        if self._paused:
            facts.append("paused")
        return f"<{' '.join(facts)}>"

    # Reading

    def read(self, n: int = -1) -> Coroutine[Any, Any, bytes]:
        """Return the bytes received so far, up to `n`; wait if there are none. b"" only at the end.

        A negative `n` waits for the end and returns everything. The limit does not apply here.
        """
        call: Coroutine[Any, Any, bytes]
        try:
            call = new_read(self, n)
        except OverflowError:  # compiled: more than fits in any memory
            call = new_read(self, sys.maxsize if n > 0 else -1)
        return call

    def readexactly(self, n: int) -> Coroutine[Any, Any, bytes]:
        """Return `n` bytes, whatever the limit is.

        Raises asyncio.IncompleteReadError, which holds the bytes received, if the end comes first; ValueError if `n` is
        negative.
        """
        call: Coroutine[Any, Any, bytes]
        try:
            call = new_readexactly(self, n)
        except OverflowError:  # as in `read`
            call = read_until_incomplete(self, n) if n > 0 else new_readexactly(self, -1)
        return call

    def readuntil(
        self, separator: "ReadableBuffer | tuple[ReadableBuffer, ...]" = NEWLINE
    ) -> Coroutine[Any, Any, bytes]:
        """Return the bytes up to and including `separator`. Of a tuple of separators, the one that ends first counts.

        Raises asyncio.IncompleteReadError, which holds the bytes received, if the end comes first;
        asyncio.LimitOverrunError, leaving everything unread, if more than the limit comes before the separator;
        ValueError if the separator is empty.
        """
        return ReadUntil(self, separator)

    def readline(self) -> Coroutine[Any, Any, bytes]:
        """Return the next line with its newline, or without if the end comes first; b"" at the end.

        Raises ValueError if the line is longer than the limit; the part received so far is dropped.
        """
        return ReadLine(self, NEWLINE)

    def __aiter__(self) -> "StreamReader":
        return self

    def __anext__(self) -> Coroutine[Any, Any, bytes]:
        return NextLine(self, NEWLINE)

    def at_eof(self) -> bool:
        """Return whether everything has been read and nothing more will come."""
        return self._eof and self._chunks.size == 0

    def exception(self) -> BaseException | None:
        """Return the exception passed to `set_exception`, or None."""
        return self._exception

    # Feeding

    def feed_data(self, data: "ReadableBuffer") -> None:
        """Add bytes to the buffer. Raises AssertionError after `feed_eof`."""
        assert not self._eof, "feed_data after feed_eof"
        if not data:
            return
        if type(data) is not bytes:
            with memoryview(data) as view:
                data = view.tobytes()
        self._feed(data)

    def feed_eof(self) -> None:
        """Note that nothing more will come."""
        self._eof = True
        if self._waiter is not None:
            self._wake()

    def set_exception(self, exc: BaseException) -> None:
        """Make the waiting call, and all later calls, raise `exc`."""
        self._exception = exc
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_exception(exc)

    def set_transport(self, transport: asyncio.BaseTransport) -> None:
        """Pause and resume this transport according to the amount of unread data. May be called only once."""
        assert self._transport is None, "Transport already set"
        self._transport = transport


if cython.compiled:
    give_instance_dicts()
