# cython: always_allow_keywords=False
"""Future: a result that is not there yet.

It has asyncio.Future's interface and messages, and is accepted wherever asyncio accepts its own (`asyncio.isfuture` and
C tasks check only `_asyncio_future_blocking`). Two things are different inside: the first waiter has a separate slot,
because nearly every future has one, and a waiting loopcore Task is put on the ready queue itself (docs/adr/0007).

Thread: the loop's own, as for asyncio's. A future may belong to a loop of another kind; it then uses that loop's
`call_soon`.
"""

import asyncio
import sys
import traceback
from asyncio import CancelledError, InvalidStateError, events
from collections.abc import Callable, Generator
from contextvars import Context
from types import GenericAlias, TracebackType
from typing import Any, NoReturn

from loopcore.kernel.exceptions import (
    default_of_uninitialized,
    exception_to_throw,
    stop_iteration_as_runtime_error,
    warn_of_old_throw,
)
from loopcore.kernel.faults import report_unseen
from loopcore.kernel.flags import SlowPath
from loopcore.kernel.formatting import describe_future, extract_stack
from loopcore.kernel.runnable import Runnable
from loopcore.kernel.scheduler import Scheduler

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.interpreter import copy_context, stop_with
    from cython.cimports.loopcore.kernel.future import set_class_up
    from cython.cimports.loopcore.kernel.registry import unlink
else:
    from loopcore._native.interpreter import copy_context, stop_with
    from loopcore.kernel.registry import unlink

_PENDING, _CANCELLED, _FINISHED = 0, 1, 2
_CLOSED, _WATCHING_HANDLES = SlowPath.CLOSED.value, SlowPath.WATCHING_HANDLES.value
STATE_NAMES = ("PENDING", "CANCELLED", "FINISHED")

INITIALIZED_ONCE = sys.version_info >= (3, 15)
"""Whether a second `__init__` is an error, as in asyncio from Python 3.15 on."""


class Future(Runnable):
    """A placeholder for a result: pending, then either finished or cancelled, for good."""

    __slots__ = (
        "_loop",
        "_scheduler",
        "_status",
        "_log_traceback_flag",
        "_asyncio_future_blocking",
        "_result",
        "_exception",
        "_exception_traceback",
        "_waiter",
        "_waiter_context",
        "_callback_list",
        "_cancel_message",
        "_source_traceback",
        "_public",
        "__weakref__",
        "__dict__",
    )

    def __init__(self, *, loop: asyncio.AbstractEventLoop | Scheduler | None = None) -> None:
        if INITIALIZED_ONCE and self._loop is not None:
            raise RuntimeError(f"{type(self).__name__} object is already initialized")
        if loop is None:
            loop = events.get_event_loop()
        self._loop: asyncio.AbstractEventLoop | Scheduler = loop
        # None if the loop is of another kind.
        self._scheduler: Scheduler = loop if isinstance(loop, Scheduler) else None  # type: ignore[assignment]
        self._status: int = _PENDING
        self._asyncio_future_blocking: bool = False
        self._log_traceback_flag: bool = False
        self._result: Any = None
        self._exception: BaseException | None = None
        self._exception_traceback: TracebackType | None = None
        self._waiter: Any = None
        self._waiter_context: Context | None = None
        self._callback_list: list[tuple[Any, Context | None]] | None = None
        self._cancel_message: Any = None
        self._source_traceback: traceback.StackSummary | None = None
        # The task of visible.py that programs see, until it is done; None for everything else.
        self._public: asyncio.Task[Any] | None = self._public
        if loop.get_debug():
            self._source_traceback = extract_stack()

    @classmethod
    def __class_getitem__(cls, item: object) -> GenericAlias:
        return GenericAlias(cls, item)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return asyncio.Future

    # Attributes that asyncio's own code and its tests read by these names.
    @property
    def _state(self) -> str:
        return STATE_NAMES[self._status]

    @property
    def _log_traceback(self) -> bool:
        return bool(self._log_traceback_flag)

    @_log_traceback.setter
    def _log_traceback(self, value: bool) -> None:
        if value:
            raise ValueError("_log_traceback can only be set to False")
        self._log_traceback_flag = False

    @property
    def _callbacks(self) -> list[tuple[Any, Context | None]] | None:
        entries: list[tuple[Any, Context | None]] = []
        if self._waiter is not None:
            entries.append((self._waiter, self._waiter_context))
        entries += self._callback_list or []
        return [(callback._wakeup if context is None else callback, context) for callback, context in entries] or None

    @property
    def _asyncio_awaited_by(self) -> frozenset[Any] | None:
        """The tasks of this loop that wait for the future, for asyncio's call graph."""
        entries = [(self._waiter, self._waiter_context), *(self._callback_list or ())]
        waiting = [as_public(task) for task, context in entries if task is not None and context is None]
        return frozenset(waiting) or None

    def get_loop(self) -> asyncio.AbstractEventLoop | Scheduler:
        """Return the loop that the future belongs to. Raises RuntimeError if a subclass left out `__init__`."""
        self._check_initialized()
        return self._loop

    def _check_change(self) -> None:
        self._check_initialized()
        # Before any change: the future stays pending, where asyncio's would be done without waking its waiters.
        if self._scheduler is not None and self._scheduler._slow_path_flags:
            self._scheduler._check_thread()

    def _check_initialized(self) -> None:
        if self._loop is None:
            raise RuntimeError("Future object is not initialized.")

    def done(self) -> bool:
        """Return whether there is a result, an exception, or a cancellation."""
        return self._status != _PENDING

    def cancelled(self) -> bool:
        """Return whether the future was cancelled."""
        return self._status == _CANCELLED

    def cancel(self, msg: Any = None) -> bool:
        """Cancel the future and schedule its callbacks; False if it was done already."""
        return self._cancel(msg)

    def _cancel(self, msg: Any) -> bool:
        self._log_traceback_flag = False
        if self._status != _PENDING:
            return False
        self._check_change()
        self._status = _CANCELLED
        self._cancel_message = msg
        self._schedule_callbacks()
        return True

    def _make_cancelled_error(self) -> BaseException:
        return self._cancelled_error()  # the method that asyncio.gather calls on its children

    def _cancelled_error(self) -> BaseException:
        # The error that a cancelled task ended with is kept, for one retrieval, so that its traceback leads to the
        # cause. asyncio.gather also calls this for children that failed with another exception, which is left alone.
        if self._status == _CANCELLED and self._exception is not None:
            error: BaseException = self._exception
            self._exception = None
            return error
        return CancelledError() if self._cancel_message is None else CancelledError(self._cancel_message)

    def result(self) -> Any:
        """Return the result, or raise the exception.

        Raises CancelledError if the future was cancelled, InvalidStateError if it is not done.
        """
        return self._outcome()

    def _outcome(self) -> Any:
        if self._status == _PENDING:
            raise InvalidStateError("Result is not set.")
        if self._status == _CANCELLED:
            raise self._cancelled_error()
        self._log_traceback_flag = False
        if self._exception is not None:
            # With its original traceback: otherwise each retrieval would add frames to it.
            raise self._exception.with_traceback(self._exception_traceback)
        return self._result

    def exception(self) -> BaseException | None:
        """Return the exception, or None if there is a result. Raises as `result` does."""
        if self._status == _PENDING:
            raise InvalidStateError("Exception is not set.")
        if self._status == _CANCELLED:
            raise self._cancelled_error()
        self._log_traceback_flag = False
        return self._exception

    def set_result(self, result: Any) -> None:
        """Finish with `result`. Raises InvalidStateError if the future is done."""
        self._set_result(result)

    def _set_result(self, result: Any) -> None:
        if self._status != _PENDING:
            raise InvalidStateError(f"{self._state}: {self!r}")
        self._check_change()
        self._result = result
        self._status = _FINISHED
        self._schedule_callbacks()

    def set_exception(self, exception: BaseException | type[BaseException]) -> None:
        """Finish with `exception`, an instance or a class. Raises InvalidStateError if the future is done.

        The exception is reported to the loop's exception handler if it is never retrieved.
        """
        self._set_exception(exception)

    def _set_exception(self, exception: BaseException | type[BaseException]) -> None:
        if self._status != _PENDING:
            raise InvalidStateError(f"{self._state}: {self!r}")
        self._check_change()
        if isinstance(exception, type):
            exception = exception()
            if self._status != _PENDING:  # its constructor has finished this future
                raise InvalidStateError(f"{self._state}: {self!r}")
        if isinstance(exception, StopIteration):
            exception = stop_iteration_as_runtime_error(exception)
        if not isinstance(exception, BaseException):
            raise TypeError(f"an exception is needed, not {exception!r}")
        self._exception = exception
        self._exception_traceback = exception.__traceback__
        self._status = _FINISHED
        self._log_traceback_flag = True
        self._schedule_callbacks()

    def add_done_callback(self, fn: Callable[[Any], object], *, context: Context | None = None) -> None:
        """Call `fn(self)` through the loop once the future is done; soon if it is done now."""
        self._check_initialized()
        if self._status != _PENDING:
            self._loop.call_soon(fn, as_public(self), context=context)
        else:
            self._add_callback(fn, copy_context() if context is None else context)

    def remove_done_callback(self, fn: Callable[[Any], object], /) -> int:
        """Remove every registration of `fn`; return how many there were."""
        self._check_initialized()
        # A comparison may run code of the program, and an allocation may start a collection: both may finish the
        # future.
        kept: list[tuple[Any, Context | None]] = []
        if self._status != _PENDING:
            return 0
        removed = 0
        first = self._waiter
        if self._waiter_context is not None and first == fn and self._waiter is first and self._status == _PENDING:
            self._waiter = self._waiter_context = None
            removed = 1
        for entry in self._callback_list or ():
            if entry[0] == fn:
                removed += 1
            else:
                kept.append(entry)
        if removed and self._callback_list is not None:
            self._callback_list = kept or None
        return removed

    def _add_callback(self, callback: Any, context: Context | None) -> None:
        """Register the callback. A task of the same loop, without a context, is put on the ready queue itself."""
        added = None if self._waiter is None and self._callback_list is None else [(callback, context)]
        if self._status != _PENDING:  # maybe finished just now by a finalizer, when `fn` or its context was created
            self._notify(callback, context)
            if context is None and self._scheduler._slow_path_flags & _WATCHING_HANDLES:
                self._announce_wakeups([(callback, context)])
        elif added is None:
            self._waiter = callback
            self._waiter_context = context
        elif self._callback_list is not None:
            self._callback_list.extend(added)
        else:
            self._callback_list = added

    def _notify(self, callback: Any, context: Context | None) -> int:
        if context is not None:
            self._loop.call_soon(callback, as_public(self), context=context)
            return 0
        if self._scheduler._slow_path_flags & _CLOSED:
            self._scheduler._check_closed()  # raises, because the waiting task would never be woken
        self._scheduler._ready.push(callback)  # a task: this is how one task hands over to another
        if self._public is not None:
            unlink(self._public, as_public(callback))
        return 0

    def _schedule_callbacks(self) -> None:
        first, context = self._waiter, self._waiter_context
        if first is not None:
            self._waiter = self._waiter_context = None  # first: an allocation may run code
            self._notify(first, context)
        callbacks = self._callback_list
        if callbacks is not None:
            self._callback_list = None
            for callback, waiting_context in callbacks:
                self._notify(callback, waiting_context)
        if self._scheduler is not None and self._scheduler._slow_path_flags & _WATCHING_HANDLES:
            self._announce_wakeups([(first, context), *(callbacks or ())])

    def _announce_wakeups(self, waiters: list[tuple[Any, Context | None]]) -> int:
        # After all of them have been scheduled: a hook may exit. Tasks are those without a context.
        for callback, context in waiters:
            if callback is not None and context is None:
                self._scheduler.probes.fire("loopcore_task_woken", self._loop, as_public(callback), as_public(self))
        return 0

    def __iter__(self) -> "FutureIterator":
        return _iterate(self)

    def __await__(self) -> Generator[Any, None, Any]:
        return _iterate(self)

    def __repr__(self) -> str:
        return describe_future(self)

    def __del__(self) -> None:
        if self._log_traceback_flag:
            report_unseen(self)


def as_public(future: Future) -> "Future | asyncio.Task[Any]":
    """Return the object that programs know as this future."""
    return future if future._public is None else future._public


class FutureIterator:
    """The iterator of `await future`: it yields the future to the task once, then returns the result."""

    __slots__ = ("_future", "_asked")

    def __init__(self) -> None:
        self._future: Future | None = None
        self._asked: bool = False

    def __iter__(self) -> "FutureIterator":
        return self

    def __next__(self) -> Future:
        future = self._future
        if future is None:
            raise StopIteration
        if future._status == _PENDING:
            if self._asked:
                raise RuntimeError("await wasn't used with future")
            self._asked = True
            future._asyncio_future_blocking = True
            return future
        self._future = None
        result = future._outcome()
        stop_with(result)
        raise StopIteration

    def send(self, value: object) -> Future:
        """Continue; the value sent is ignored, as in asyncio."""
        return self.__next__()

    def throw(self, typ: object, val: object = None, tb: object = None) -> NoReturn:
        """Raise an exception at the `await`; takes the deprecated three arguments, or a single one."""
        if val is not None or tb is not None:
            warn_of_old_throw()
        error = exception_to_throw(typ, val, tb)
        self._future = None
        try:
            raise error
        finally:
            # This frame is part of the traceback; a reference to the exception would make a cycle.
            del error, typ, val

    def close(self) -> None:
        """Release the future."""
        self._future = None


def _iterate(future: Future) -> "FutureIterator":
    iterator = FutureIterator.__new__(FutureIterator)
    iterator._future = future
    iterator._asked = False
    return iterator


def make_future(loop: Scheduler) -> Future:
    """Create a Future as its constructor does outside debug mode, without the cost of that call."""
    future: Future = Future.__new__(Future)
    future._loop = future._scheduler = loop  # the other attributes are already zero or None
    return future


if cython.compiled:
    set_class_up()
else:
    Future.__getattr__ = default_of_uninitialized(Future.__slots__)  # type: ignore[attr-defined]
