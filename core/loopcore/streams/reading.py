"""The calls of a StreamReader: one class each, one state machine.

Each waits until the reader has enough data, and then takes it: a call that is cancelled has taken nothing.
Errors, their texts and the order in which they are checked are asyncio's (Python 3.13).

Thread: the loop's own. Counts and offsets are in bytes.
"""

import sys
from asyncio import IncompleteReadError, LimitOverrunError
from typing import TYPE_CHECKING, Any, Final, NoReturn

from loopcore.streams.calls import StreamCall
from loopcore.streams.intake import Intake

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

NEWLINE: Final = b"\n"
FOUND_BEYOND: Final = "Separator is found, but chunk is longer than limit"
NOT_FOUND: Final = "Separator is not found, and chunk exceed the limit"


class Reading(StreamCall):
    """A call that may have to wait for more data."""

    __slots__ = ("_intake",)

    def __init__(self, intake: Intake) -> None:
        StreamCall.__init__(self)
        self._intake: Intake = intake

    def _wait_for_more(self, name: str, needed: int) -> None:
        self._wait_for(self._intake._wait(name, needed))

    def _abandon(self) -> None:
        self._intake._leave(self._future)

    def _retire(self) -> None:
        self._intake = None  # type: ignore[assignment]


class Read(Reading):
    """`read(count)`: the bytes received, up to `count`; empty only at the end. Everything if `count` is negative."""

    __slots__ = ("_count",)

    def __init__(self, intake: Intake, count: int) -> None:
        Reading.__init__(self, intake)
        self._count: int = count

    def _describe(self) -> str:
        return "StreamReader.read"

    def _advance(self, first: bool) -> Any:
        intake = self._intake
        count = self._count
        if first:
            if count == 0 and intake._exception is None:
                return b""
            intake._enter("read")
        size = intake._chunks.size
        if count < 0:
            if intake._exception is not None:  # set after the end, which has woken this call
                raise intake._exception
            if not intake._eof:
                return self._wait_for_more("read", sys.maxsize)
            count = size
        elif size == 0 and not intake._eof:
            return self._wait_for_more("read", 1)
        return intake._take(count if count < size else size)


class ReadExactly(Reading):
    """`readexactly(count)`: `count` bytes, or IncompleteReadError at the end."""

    __slots__ = ("_count",)

    def __init__(self, intake: Intake, count: int) -> None:
        Reading.__init__(self, intake)
        self._count: int = count

    def _describe(self) -> str:
        return "StreamReader.readexactly"

    def _advance(self, first: bool) -> Any:
        intake = self._intake
        count = self._count
        if first:
            if count < 0:
                raise ValueError("readexactly size can not be less than zero")
            if count == 0 and intake._exception is None:
                return b""
            intake._enter("readexactly")
        if intake._chunks.size >= count:
            return intake._take(count)
        if intake._eof:
            raise IncompleteReadError(intake._chunks.take_all(), count)
        return self._wait_for_more("readexactly", count)


class ReadUntil(Reading):
    """`readuntil(separator)`: the bytes up to and including the first separator."""

    __slots__ = ("_separators", "_shortest", "_longest", "_offset")

    def __init__(self, intake: Intake, separators: "ReadableBuffer | tuple[ReadableBuffer, ...]") -> None:
        Reading.__init__(self, intake)
        self._separators: Any = separators
        self._shortest: int = 0
        self._longest: int = 0
        self._offset: int = 0
        """Where the search continues. When a separator was found: its position; `_shortest` is then its length."""

    def _describe(self) -> str:
        return "StreamReader.readuntil"

    def _advance(self, first: bool) -> Any:
        intake = self._intake
        if first:
            self._begin()
            intake._enter("readuntil")
        chunks = intake._chunks
        size = chunks.size
        if size - self._offset >= self._shortest:
            if self._search():
                return self._taken()
            # Not found, but a separator may begin in the last bytes.
            offset = size + 1 - self._longest
            self._offset = offset if offset > 0 else 0
            if self._offset > intake._limit:
                return self._overrun(NOT_FOUND, self._offset)
        if intake._eof:
            return self._ended(chunks.take_all())
        needed = self._offset + self._shortest
        return self._wait_for_more("readuntil", needed if needed > size else size + 1)

    def _begin(self) -> None:
        """Check the separators, and sort them by length: of those that end at the same place the shortest matches."""
        separators = self._separators
        if not isinstance(separators, tuple):
            separators = (separators,)
        elif len(separators) != 1:
            separators = tuple(sorted(separators, key=len))
        if not separators:
            raise ValueError("Separator should contain at least one element")
        self._shortest = len(separators[0])
        self._longest = len(separators[len(separators) - 1])
        if self._shortest == 0:
            raise ValueError("Separator should be at least one-byte string")
        self._separators = separators

    def _search(self) -> bool:
        """Find the separator that ends first; return whether there is one."""
        chunks = self._intake._chunks
        best = -1
        length = 0
        for separator in self._separators:
            at = chunks.find(separator, self._offset)
            if at >= 0 and (best < 0 or at + len(separator) < best + length):
                best = at
                length = len(separator)
        if best < 0:
            return False
        self._offset = best
        self._shortest = length
        return True

    def _taken(self) -> bytes:
        if self._offset > self._intake._limit:
            return self._overrun(FOUND_BEYOND, self._offset)
        return self._intake._take(self._offset + self._shortest)

    def _overrun(self, message: str, consumed: int) -> NoReturn:
        raise LimitOverrunError(message, consumed)

    def _ended(self, rest: bytes) -> bytes:
        raise IncompleteReadError(rest, None)


class ReadLine(ReadUntil):
    """`readline()`: up to the next newline, or to the end."""

    __slots__ = ()

    def _describe(self) -> str:
        return "StreamReader.readline"

    def _overrun(self, message: str, consumed: int) -> NoReturn:
        intake = self._intake
        chunks = intake._chunks
        # Drop the line; all of it if its end has been received.
        chunks.take(consumed + 1 if chunks.find(NEWLINE, consumed) == consumed else chunks.size)
        intake._resume()
        raise ValueError(message)

    def _ended(self, rest: bytes) -> bytes:
        return rest


class NextLine(ReadLine):
    """A step of `async for line in reader`."""

    __slots__ = ()

    def _describe(self) -> str:
        return "StreamReader.__anext__"

    def _ended(self, rest: bytes) -> bytes:
        if not rest:
            raise StopAsyncIteration
        return rest


def new_read(intake: Intake, count: int) -> Read:
    """Return `Read(intake, count)`. Compiled, raises OverflowError for a large count before it makes an object."""
    return Read(intake, count)


def new_readexactly(intake: Intake, count: int) -> ReadExactly:
    """Return `ReadExactly(intake, count)`, as `new_read`."""
    return ReadExactly(intake, count)
