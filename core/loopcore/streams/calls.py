"""StreamCall: what `read`, `drain` and their relatives return; for asyncio and for `await` it is a coroutine.

A coroutine with everything that can be done with one: it begins when it is awaited, can be made a task of
(`asyncio.create_task(reader.readline())`), can be cancelled, and warns when nobody ever awaits it. Not of a function
with `async def`, because a call of that costs a frame, and compiled a generator with its scope, for each
level between the program and the future. This is one object, and the state machine that it is stays in C.

A subclass says in `_advance` what is done at the beginning and after each wait: return the result, raise, or wait by
`_wait_for`; and in `_abandon` what to undo when it ends while it waits.

Thread: the loop's own.
"""

import warnings
from collections.abc import Generator
from typing import Any

from loopcore.kernel.future import Future

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.native.stopping import stop_with

_PENDING = 0  # of futures
_NEW = 0
_WAITING = 1
_ENDED = 2


class StreamCall:
    """One call of a coroutine method of a stream."""

    __slots__ = ("_state", "_future")

    def __init__(self) -> None:
        self._state: int = _NEW
        self._future: Any = None
        """What is being waited for; None also while a tick is let pass."""

    def __getattr__(self, name: str) -> str:
        if name in ("__name__", "__qualname__"):  # which the representations of tasks show
            return self._describe()
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def _describe(self) -> str:
        """Return the method's name with its class."""
        return type(self).__name__

    def _advance(self, first: bool) -> Any:
        """Do what can be done; return the result, or what `_wait_for` returns. `first` says that nothing was done."""
        return None

    def _abandon(self) -> None:
        """Take back the wait for `_future`, which may be done or not."""

    def _retire(self) -> None:
        """Let go of everything, having returned a result. Compiled, the call may be begun again, as another one."""

    def _wait_for(self, future: Any) -> None:
        """Have `_advance` called again when `future` is done; None lets the loop run once."""
        self._state = _WAITING
        self._future = future

    def _collect(self) -> None:
        """Take note that the wait is over; raise what it has failed with, if whoever runs this does not throw."""
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
        """Return what a task takes as the wish to wait."""
        future = self._future
        if isinstance(future, Future):
            own = future
            own._asyncio_future_blocking = True
        elif future is not None:
            future._asyncio_future_blocking = True
        return future

    def __await__(self) -> Generator[Any, None, Any]:
        return self  # type: ignore[return-value]

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
        if cython.compiled:
            stop_with(result)
            raise StopIteration
        raise StopIteration(result)

    def send(self, value: Any) -> Any:
        """Run to the next wait, or to the end, which raises StopIteration with the result."""
        if value is not None and self._state == _NEW:
            raise TypeError("can't send non-None value to a just-started coroutine")
        return self.__next__()

    def throw(self, typ: Any, val: Any = None, tb: Any = None) -> Any:
        """End with an exception: what was being waited for has failed, or the task was cancelled."""
        self.close()
        if val is None:
            val = typ() if isinstance(typ, type) else typ
        elif not isinstance(val, BaseException):
            val = typ(val)
        try:
            raise val if tb is None else val.with_traceback(tb)
        finally:
            del typ, val, tb  # this frame is part of the traceback, and would make a cycle

    def close(self) -> None:
        """End without a result. Nothing happens if it has ended."""
        if self._future is not None:
            self._abandon()
            self._future = None
        self._state = _ENDED

    def __del__(self) -> None:
        if self._state == _NEW:
            text = f"coroutine '{self._describe()}' was never awaited"
            warnings.warn(text, RuntimeWarning, stacklevel=1 if cython.compiled else 2, source=self)
        elif self._state == _WAITING:
            self.close()
