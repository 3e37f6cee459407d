"""StreamCall: the result of calling `read`, `drain` and the like; for asyncio and for `await` it is a coroutine.

It behaves like a coroutine: it starts when it is awaited, can become a task (`asyncio.create_task(reader.readline())`),
can be cancelled, and warns if it is never awaited. It does not come from an `async def` function, because a call of one
costs a frame (compiled, a generator and its scope) for each level between the program and the future. This is a single
object, and its state machine stays in C.

A subclass implements `_advance`, which runs at the beginning and after each wait: it returns the result, raises, or
waits with `_wait_for`. It implements `_abandon` to undo the wait if the call ends while it waits.

Thread: the loop's own.
"""

import warnings
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final, NoReturn

from loopcore.kernel.exceptions import exception_to_throw
from loopcore.kernel.future import Future

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.interpreter import stop_with
else:
    from loopcore._native.interpreter import stop_with

if TYPE_CHECKING:
    import asyncio

_CALLER: Final = 1 if cython.compiled else 2
"""The stack level of the code that drops an object, seen from `__del__`: a compiled one has no frame."""
_PENDING = 0  # the state of a pending future
_NEW = 0
_WAITING = 1
_ENDED = 2


class StreamCall:
    """One call of a coroutine method of a stream."""

    __slots__ = ("_state", "_future")

    def __init__(self) -> None:
        self._state: int = _NEW
        self._future: Any = None
        """The future that is being waited for; None also while it waits for the next tick."""

    def __getattr__(self, name: str) -> str:
        if name in ("__name__", "__qualname__"):  # shown in the reprs of tasks
            return self._describe()
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def _describe(self) -> str:
        """Return the method's name with its class."""
        return type(self).__name__

    def _advance(self, first: bool) -> Any:
        """Do as much as possible; return the result, or the value of `_wait_for`. `first` is true in the first call."""
        return None

    def _abandon(self) -> None:
        """Undo the wait for `_future`, which may be done or not."""

    def _retire(self) -> None:
        """Drop all references after returning a result."""

    def _wait_for(self, future: "asyncio.Future[Any] | None") -> None:
        """Have `_advance` called again when `future` is done; None means in the next tick."""
        self._state = _WAITING
        self._future = future

    def _collect(self) -> None:
        """End the wait; raise the future's error, in case the caller resumes with `send` instead of `throw`."""
        future = self._future
        if isinstance(future, Future):
            own = future
            done = own._status != _PENDING
        else:
            done = future.done()
        if not done:
            raise RuntimeError("await wasn't used with future")
        self._abandon()
        self._future = None
        self._state = _ENDED
        if isinstance(future, Future):
            own = future
            own._outcome()
        else:
            future.result()

    def _suspension(self) -> Any:
        """Return the future, marked so that the task waits for it; None waits for one tick."""
        future = self._future
        if isinstance(future, Future):
            own = future
            own._asyncio_future_blocking = True
        elif future is not None:
            future._asyncio_future_blocking = True
        return future

    def __await__(self) -> Generator[Any, None, Any]:
        return self

    def __iter__(self) -> "StreamCall":  # for `yield from call.__await__()`
        return self

    def __next__(self) -> Any:
        future = self._future
        first = self._state == _NEW
        if self._state == _ENDED:
            raise RuntimeError("cannot reuse already awaited coroutine")
        if future is not None:
            self._collect()
        self._state = _ENDED
        result = self._advance(first)
        if self._state == _WAITING:
            return self._suspension()
        self._retire()
        stop_with(result)
        raise StopIteration

    def send(self, value: object) -> Any:
        """Run to the next wait, or to the end and raise StopIteration with the result."""
        if value is not None and self._state == _NEW:
            raise TypeError("can't send non-None value to a just-started coroutine")
        return self.__next__()

    def throw(self, typ: object, val: object = None, tb: object = None) -> NoReturn:
        """End with an exception: the awaited future has failed, or the task was cancelled."""
        error = exception_to_throw(typ, val, tb)
        self.close()
        try:
            raise error
        finally:
            del error, typ, val, tb  # this frame is part of the traceback: keeping them would make a cycle

    def close(self) -> None:
        """End without a result. Idempotent."""
        if self._future is not None:
            self._abandon()
            self._future = None
        self._state = _ENDED

    def __del__(self) -> None:
        if self._state == _NEW:
            text = f"coroutine '{self._describe()}' was never awaited"
            warnings.warn(text, RuntimeWarning, stacklevel=_CALLER, source=self)
        elif self._state == _WAITING:
            self.close()
