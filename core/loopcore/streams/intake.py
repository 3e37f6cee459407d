"""Intake: the receiving half of a StreamReader, between the protocol that feeds it and the call that reads.

Received data is kept in `Chunks`. One call at a time may wait for more; it says how much it needs and is woken when
that much is there, or at the end of the stream. Backpressure is asyncio's: the transport is paused when more than twice
the limit is unread, and resumed when no more than the limit is left. It is not paused while a call waits for more.

Thread: the loop's own. Sizes are in bytes.
"""

import asyncio
import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn

from loopcore.kernel.formatting import extract_stack
from loopcore.kernel.future import Future
from loopcore.streams.chunks import Chunks

if TYPE_CHECKING:
    from collections.abc import Callable
    from traceback import StackSummary

DEFAULT_LIMIT: Final = 2**16
"""The default limit of a reader: the longest line, and half of the unread bytes at which the transport is paused."""

LARGEST_LIMIT: Final = sys.maxsize // 4


class Intake:
    """The received bytes that are not read yet, and the call that waits for more."""

    __slots__ = (
        "_loop",
        "_limit",
        "_chunks",
        "_needed",
        "_eof",
        "_paused",
        "_waiter",
        "_exception",
        "_transport",
        "_make_future",
        "_source_traceback",
    )

    def __init__(self, limit: int = DEFAULT_LIMIT, loop: asyncio.AbstractEventLoop | None = None) -> None:
        if limit <= 0:
            raise ValueError("Limit cannot be <= 0")
        if loop is None:
            loop = asyncio.get_event_loop()
        self._loop: asyncio.AbstractEventLoop = loop
        self._limit: int = int(min(limit, LARGEST_LIMIT))
        self._chunks: Chunks = Chunks()
        self._needed: int = 0
        """How many unread bytes `_waiter` waits for."""
        self._eof: bool = False
        self._paused: bool = False
        self._waiter: Any = None
        self._exception: BaseException | None = None
        self._transport: Any = None
        self._make_future: Callable[[], asyncio.Future[None]] = loop.create_future  # bound once; every wait calls it
        self._source_traceback: StackSummary | None = extract_stack() if loop.get_debug() else None

    @property
    def _buffer(self) -> "Unread":
        return Unread(self)

    def _feed(self, data: bytes) -> None:
        """Add `data`, which is not empty, and wake the waiting call if it has enough."""
        assert not self._eof, "feed_data after feed_eof"
        chunks = self._chunks
        chunks.append(data)
        if self._waiter is not None:
            if chunks.size < self._needed:
                return
            self._wake()
        if chunks.size > 2 * self._limit and not self._paused and self._transport is not None:
            self._pause()

    def _pause(self) -> None:
        try:
            self._transport.pause_reading()
        except NotImplementedError:
            self._transport = None  # it cannot be paused: everything has to be buffered
        else:
            self._paused = True

    def _resume(self) -> None:
        """Resume the transport if it is paused and there is room."""
        if self._paused and self._chunks.size <= self._limit:
            self._paused = False
            self._transport.resume_reading()

    def _wake(self) -> None:
        waiter = self._waiter
        self._waiter = None
        if isinstance(waiter, Future):
            future = waiter
            if not future.done():
                future._set_result(None)
        elif not waiter.done():
            waiter.set_result(None)

    def _enter(self, name: str) -> None:
        """Raise the exception of the stream, or RuntimeError if another call waits for all that will come.

        `name` is the name of the call that begins.
        """
        if self._exception is not None:
            raise self._exception
        if self._waiter is not None and self._needed == sys.maxsize:
            self._refuse(name)

    def _refuse(self, name: str) -> NoReturn:
        raise RuntimeError(f"{name}() called while another coroutine is already waiting for incoming data")

    def _wait(self, name: str, needed: int) -> "asyncio.Future[None]":
        """Return a future that is done when `needed` bytes are unread, or nothing more will come.

        `needed` is sys.maxsize for all that will come. Raises RuntimeError if another call waits already.
        """
        if self._waiter is not None:
            self._refuse(name)
        if self._paused:  # otherwise nothing would ever come
            self._paused = False
            self._transport.resume_reading()
        self._needed = needed
        future = self._make_future()
        self._waiter = future
        return future

    def _leave(self, future: "asyncio.Future[None]") -> None:
        """Stop waiting with `future`, which `_wait` returned."""
        if self._waiter is future:
            self._waiter = None

    def _take(self, count: int) -> bytes:
        """Remove and return the first `count` bytes; there must be that many."""
        taken = self._chunks.take(count)
        if self._paused:
            self._resume()
        return taken


class Unread(bytearray):
    """A reader's `_buffer`, as asyncio's start_tls expects it: a copy of the unread bytes, and `clear`."""

    def __init__(self, intake: Intake) -> None:
        super().__init__(intake._chunks.peek())
        self._intake = intake

    def clear(self) -> None:
        """Drop the unread bytes, here and in the reader."""
        super().clear()
        self._intake._chunks.take_all()
