"""`read`, `readexactly` and `drain` of the pure build, by `async def` (docs/adr/0002).

Compiled, they are the state machines of `calls`, `reading` and `writer`, which save a frame. Interpreted, a state
machine costs a method call per transition; a coroutine, which the interpreter runs in C, costs nothing in comparison.

Same names, same contracts, same order of errors. Thread: the loop's own.
"""

import asyncio
import sys
from asyncio import IncompleteReadError
from typing import TYPE_CHECKING

from loopcore.streams.control import WriteControl
from loopcore.streams.coroutines import drain_over

if TYPE_CHECKING:
    from loopcore.streams.reader import StreamReader
    from loopcore.streams.writer import StreamWriter


async def read(self: "StreamReader", n: int = -1) -> bytes:
    """Return the bytes received so far, up to `n`; wait if there are none. b"" only at the end.

    A negative `n` waits for the end and returns everything. The limit does not apply here.
    """
    if self._exception is not None:
        raise self._exception
    if n == 0:
        return b""
    chunks = self._chunks
    while not self._eof and (n < 0 or chunks.size == 0):
        waiter = self._wait("read", sys.maxsize if n < 0 else 1)
        try:
            await waiter
        finally:
            self._leave(waiter)
    size = chunks.size
    return self._take(n if 0 < n < size else size)


async def readexactly(self: "StreamReader", n: int) -> bytes:
    """Return `n` bytes, whatever the limit is.

    Raises asyncio.IncompleteReadError, which holds the bytes received, if the end comes first; ValueError if `n` is
    negative.
    """
    if n < 0:
        raise ValueError("readexactly size can not be less than zero")
    if self._exception is not None:
        raise self._exception
    if n == 0:
        return b""
    chunks = self._chunks
    while chunks.size < n:
        if self._eof:
            raise IncompleteReadError(chunks.take_all(), n)
        waiter = self._wait("readexactly", n)
        try:
            await waiter
        finally:
            self._leave(waiter)
    return self._take(n)


async def drain(self: "StreamWriter") -> None:
    """Wait until the transport accepts more data; return at once unless the peer is slow.

    Raises the error that the connection was lost by, or ConnectionResetError.
    """
    control = self._protocol
    if not isinstance(control, WriteControl):
        await drain_over(self)
        return
    exc = self._failure()
    if exc is not None:
        raise exc
    if self._closing():
        await asyncio.sleep(0)  # `connection_lost` comes in the next tick; see Drain
    if not control._paused and not control._connection_lost:
        return
    waiter = control._begin_waiting()
    if waiter is not None:
        try:
            await waiter
        finally:
            control._leave_waiting(waiter)


for _each, _owner in ((read, "StreamReader"), (readexactly, "StreamReader"), (drain, "StreamWriter")):
    _each.__qualname__ = f"{_owner}.{_each.__name__}"  # shown in reprs of tasks, and in warnings
