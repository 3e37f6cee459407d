"""SocketFuture: a pending operation on a plain socket.

It is an awaitable, and nothing more: it is awaited once, by the coroutine that requested it. It is three things in one
object, because each request of a socket program waits at most once: the runnable in the readiness table, which tries
again whenever the descriptor is ready; the future that the task waits for; and the iterator between them.

The watch ends with the operation, at the latest when the waiting coroutine is abandoned (cancelled, closed). A read
that has succeeded leaves its registration for a moment to the next one on the same socket; `loopcore.kernel.readiness`
explains why that is safe.

Thread: the loop's own.
"""

import socket
from collections.abc import Generator
from typing import Any

from loopcore.kernel.exceptions import exception_to_throw
from loopcore.kernel.future import Future
from loopcore.kernel.runnable import Runnable
from loopcore.kernel.scheduler import Scheduler

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.interpreter import stop_with
else:
    from loopcore._native.interpreter import stop_with

_PENDING = 0

READING = 0
WRITING = 1

CALL = 0
"""The kinds of a SocketFuture: call the argument, which makes the attempt; ..."""
RECV = 1
"""... `recv(argument)`; ..."""
RECV_INTO = 2
"""... `recv_into(argument)`; ..."""
ACCEPT = 3
"""... or accept a connection."""
_CALL, _RECV, _RECV_INTO, _ACCEPT = CALL, RECV, RECV_INTO, ACCEPT
_READING, _WRITING = READING, WRITING


class Sweeper(Runnable):
    """Ends the registrations that are not resumed. Runs at the end of each tick in which there are any."""

    __slots__ = ("_scheduler",)

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler: Scheduler = scheduler

    def _run(self) -> None:
        if self._scheduler._readiness.sweep():
            self._scheduler._flush_soon(self)


class SocketFuture(Future):
    """An operation that is tried again whenever its descriptor is ready; made by `begin`."""

    __slots__ = ("_kind", "_sock", "_argument", "_fd", "_direction", "_watching", "_asked", "_sweeper")

    def _prepare(self, sweeper: Sweeper, fd: int, direction: int, kind: int, sock: Any, argument: Any) -> None:
        self._kind: int = kind
        self._sock: Any = sock
        self._argument: Any = argument
        self._fd: int = fd
        self._direction: int = direction
        self._watching: bool = True
        self._asked: bool = False
        self._sweeper: Sweeper = sweeper

    def _run(self) -> None:
        if self._status != _PENDING:
            return
        try:
            if self._kind == _RECV:
                result = self._sock.recv(self._argument)
            elif self._kind == _RECV_INTO:
                result = self._sock.recv_into(self._argument)
            elif self._kind == _ACCEPT:
                result = accept_from(self._sock)
            else:
                result = self._argument()
        except (BlockingIOError, InterruptedError):
            return
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self._leave()
            self._set_exception(exc)
            del self  # the error's traceback refers to this frame
        else:
            self._set_result(result)
            self._leave_with(result)

    def _leave_with(self, result: Any) -> None:
        """Leave the table; if a similar operation will follow, keep the registration for it."""
        if not self._watching or self._kind == _CALL or (self._kind != _ACCEPT and not result):
            self._leave()  # no similar one will follow, least of all at the end of the stream
            return
        drained = False
        try:
            if self._kind == _RECV:
                drained = len(result) < self._argument
            elif self._kind == _RECV_INTO:
                with memoryview(self._argument) as view:
                    drained = result < view.nbytes
            is_first = self._scheduler._readiness.keep_reader(self._fd, self._sock, drained)
        except MemoryError:
            self._leave()
            return
        self._watching = False
        if is_first:
            self._scheduler._flush_soon(self._sweeper)
        self._sock = self._argument = None  # the woken task keeps this future until it waits again

    def displaced(self) -> None:
        """Note that another runnable has replaced this one in the table. Its waiter waits for ever, as in asyncio."""
        self._watching = False

    def _leave(self) -> None:
        """Leave the table, if still in it."""
        self._sock = self._argument = None
        if self._watching:
            self._watching = False
            # A transport that replaces this one in the table does not notify it.
            entry = self._scheduler._readiness.lookup(self._fd)
            if entry is None:
                return
            if self._direction == _READING:
                if entry.reader is self:
                    self._scheduler._readiness.clear_reader(self._fd)
            elif entry.writer is self:
                self._scheduler._readiness.clear_writer(self._fd)

    def _cancel(self, msg: Any) -> bool:
        cancelled = Future._cancel(self, msg)
        self._leave()
        return cancelled

    # As an iterator

    def __await__(self) -> Generator[Any, None, Any]:
        return self

    def __next__(self) -> Any:
        if self._status == _PENDING:
            if self._asked:
                raise RuntimeError("await wasn't used with future")
            self._asked = True
            self._asyncio_future_blocking = True
            return self
        result = self._outcome()
        stop_with(result)
        raise StopIteration

    def send(self, value: object) -> Any:
        """Continue; the value sent is ignored, as in a future."""
        return self.__next__()

    def throw(self, typ: Any, val: Any = None, tb: Any = None) -> Any:
        """Raise an exception at the `await`: this future's own, a cancellation, or any other."""
        error = exception_to_throw(typ, val, tb)
        self._leave()
        self._exception = self._exception_traceback = None  # it refers to the frames that refer to this future
        try:
            raise error
        finally:
            del error, typ, val

    def close(self) -> None:
        """End the watch: the waiter is gone."""
        self._leave()


def begin(
    sweeper: Sweeper, fd: int, direction: int, kind: int, sock: socket.socket | None, argument: Any
) -> SocketFuture:
    """Return a future that is not in the table yet. Only a read of `sock` may keep its registration for the next."""
    future = SocketFuture.__new__(SocketFuture)
    scheduler = sweeper._scheduler
    Future.__init__(future, loop=scheduler)
    future._prepare(sweeper, fd, direction, kind, sock, argument)
    return future


def accept_from(sock: socket.socket) -> tuple[socket.socket, Any]:
    """Accept a connection; its socket is non-blocking."""
    connection, address = sock.accept()
    connection.setblocking(False)
    return connection, address
