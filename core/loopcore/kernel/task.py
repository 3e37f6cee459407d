# cython: always_allow_keywords=False
"""Task: drives a coroutine, one step each time the tick runs it.

A Task is itself an entry of the ready queue. A coroutine suspends by yielding a future. If that is loopcore's, the task
registers itself there as a waiter and is put back on the ready queue when the future is done. Other futures call
`_wakeup` through their loop, as for asyncio's tasks.

Semantics are asyncio.Task's: cancellation is thrown in at the next step, requests to cancel are counted, the context
is copied once, and `asyncio.current_task` and `asyncio.all_tasks` see the task. Thread: the loop's own.
"""

import asyncio
import sys
from asyncio import CancelledError
from collections.abc import Coroutine, Generator
from contextvars import Context
from types import CoroutineType, FrameType
from typing import TYPE_CHECKING, Any

from loopcore.hooks import observer
from loopcore.hooks.sources import TASK
from loopcore.kernel.exceptions import bad_yield_error, default_of_uninitialized
from loopcore.kernel.failure import OWN_CLASSES
from loopcore.kernel.faults import report_destroyed, report_unseen
from loopcore.kernel.flags import SlowPath
from loopcore.kernel.formatting import describe_task, drop_own_frames, print_task_stack, task_stack
from loopcore.kernel.future import Future
from loopcore.kernel.handle import check_context
from loopcore.kernel.registry import LISTS_BY_ITSELF, show_tasks
from loopcore.kernel.scheduler import Scheduler

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.interpreter import copy_context
    from cython.cimports.loopcore._native.tasks import next_number, tasks_listed
    from cython.cimports.loopcore.kernel.failure import failure_of, takes_waiters
    from cython.cimports.loopcore.kernel.future import as_public
    from cython.cimports.loopcore.kernel.registry import enter_task, leave_task, link, unlink
    from cython.cimports.loopcore.kernel.task import advance
else:
    from loopcore._native.interpreter import advance, copy_context
    from loopcore.kernel.failure import failure_of, takes_waiters
    from loopcore.kernel.future import as_public
    from loopcore.kernel.registry import delist, enlist, enter_task, leave_task, link, next_number, unlink

if TYPE_CHECKING:
    from weakref import ref

_PENDING = 0
_CANCELLED = 1
_FINISHED = 2
_RETURNED, _YIELDED = 0, 1  # PySendResult's; -1 is an exception
_LISTS = LISTS_BY_ITSELF
_TASK = TASK
_WATCHING_HANDLES = SlowPath.WATCHING_HANDLES.value
_ENDED_WELL, _ENDED_FAILED, _ENDED_CANCELLED = observer.RESULT, observer.EXCEPTION, observer.CANCELLED
_QUEUED, _BEGINS, _ENDS = observer.QUEUED, observer.BEGINS, observer.ENDS
_COROUTINE = CoroutineType

UNCANCEL_DROPS = sys.version_info >= (3, 13)


class Task(Future):
    """A future whose result comes from running a coroutine."""

    __slots__ = (
        "_coro",
        "_context",
        "_name",
        "_number",
        "_fut_waiter",
        "_thrown",
        "_registration",
        "_how",
        "_must_cancel",
        "_has_public",
        "_log_destroy_pending",
        "_num_cancels_requested",
        "_label",
    )

    def __init__(
        self,
        coro: Coroutine[Any, Any, Any] | Generator[Any, Any, Any],
        *,
        loop: asyncio.AbstractEventLoop | Scheduler | None = None,
        name: object = None,
        context: Context | None = None,
        eager_start: bool = False,
    ) -> None:
        Future.__init__(self, loop=loop)
        self._log_destroy_pending: bool = False
        self._has_public: bool = self._public is not None  # if so, the task that programs see reports its end
        self._registration: int | ref[Task] = self._registration or 0  # from an earlier `__init__`
        if not asyncio.iscoroutine(coro):
            raise TypeError(f"a coroutine was expected, got {coro!r}")
        if context is not None:
            check_context(context)
        self._log_destroy_pending = True
        self._coro: Coroutine[Any, Any, Any] | Generator[Any, Any, Any] | None = coro
        self._context: Context = copy_context() if context is None else context
        self._name: str | None = None if name is None else str(name)
        self._number: int = next_number() if name is None and self._public is None else 0
        self._fut_waiter: Any = None
        self._thrown: BaseException | None = None
        self._how: int = _YIELDED  # how the last `advance` ended: _YIELDED, _RETURNED, or -1 for an exception
        self._must_cancel: bool = False
        self._num_cancels_requested: int = 0
        self._label: int = 0  # what a recorder calls the coroutine, if it has asked
        enlist(self)
        if self._scheduler is not None:
            self._scheduler._stats.tasks_created += 1
        try:
            self._announce("loopcore_task_spawned")
        except BaseException:  # SystemExit, of a hook or a signal handler: the task begins when the loop runs again
            self._schedule_step()
            raise
        try:
            if eager_start and self._loop.is_running():  # type: ignore[union-attr]
                self._start_eagerly()
            else:
                self._schedule_step()
        finally:
            del self  # interpreted, a traceback keeps this frame; so below

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return asyncio.Task

    # Public attributes

    def get_coro(self) -> Coroutine[Any, Any, Any] | Generator[Any, Any, Any] | None:
        """Return the coroutine, or None if an eager task has finished it."""
        return self._coro

    def get_context(self) -> Context:
        """Return the context that the coroutine runs in."""
        return self._context

    def get_name(self) -> str:
        """Return the name given, or `Task-<number>`."""
        if self._name is None:
            self._name = f"Task-{self._number}"
        return self._name

    def set_name(self, value: object) -> None:
        """Set the name; any object is converted to a string."""
        self._name = str(value)

    def get_stack(self, *, limit: int | None = None) -> list[FrameType]:
        """Return the frames where the coroutine is suspended, or of the traceback it ended with; oldest first."""
        return task_stack(self, limit)

    def print_stack(self, *, limit: int | None = None, file: Any = None) -> None:
        """Print what `get_stack` returns, to stderr or `file`."""
        print_task_stack(self, limit, file)

    def set_result(self, result: object) -> None:
        """Not for tasks: their coroutine sets the result. Raises RuntimeError."""
        raise RuntimeError("Task does not support set_result operation")

    def set_exception(self, exception: object) -> None:
        """Not for tasks: their coroutine sets the exception. Raises RuntimeError."""
        raise RuntimeError("Task does not support set_exception operation")

    # Cancellation

    def cancel(self, msg: Any = None) -> bool:
        """Ask the task to cancel itself: CancelledError is thrown into the coroutine at its next step.

        False if the task is done already. The coroutine may clean up, or refuse.
        """
        self._log_traceback_flag = False
        if self._status != _PENDING:
            return False
        self._num_cancels_requested += 1
        if self._fut_waiter is not None and self._fut_waiter.cancel(msg):
            # The future will wake the task, with the cancellation.
            return True
        self._must_cancel = True
        self._cancel_message = msg
        return True

    def cancelling(self) -> int:
        """Return how many requests to cancel have not been undone by `uncancel`."""
        return self._num_cancels_requested

    def uncancel(self) -> int:
        """Undo one request to cancel; return how many are left (asyncio.timeout and TaskGroup do this).

        From Python 3.13 on undoing the last one also drops a cancellation that was not thrown in yet.
        """
        if self._num_cancels_requested > 0:
            self._num_cancels_requested -= 1
            if self._num_cancels_requested == 0 and UNCANCEL_DROPS:
                self._must_cancel = False
        return self._num_cancels_requested

    # Running

    def _run(self) -> None:
        self._step(self._context)
        del self

    def _as_public(self) -> object:
        return as_public(self)

    def _source(self) -> int:
        return _TASK

    # For observers

    def _work(self) -> object:
        return self._coro

    def _get_label(self) -> int:
        return self._label

    def _set_label(self, label: int) -> None:
        self._label = label

    def _ending(self) -> int:
        if self._status == _PENDING:
            return 0
        if self._status == _CANCELLED:
            return _ENDED_CANCELLED
        return _ENDED_FAILED if self._exception is not None else _ENDED_WELL

    def _is_new(self) -> bool:
        return self._fut_waiter is None

    def _given_name(self) -> str | None:
        return self._name

    def _discard(self) -> None:
        self._public = None

    def _schedule_step(self) -> None:
        if self._scheduler is not None:
            self._scheduler._ready.push(self)
            if self._scheduler._slow_path_flags & _WATCHING_HANDLES:
                self._announce_woken(None)
        else:
            self._loop.call_soon(self._wakeup, None, context=self._context)

    def _wakeup(self, future: "Future | asyncio.Future[Any] | None") -> None:
        # For callers that enter the context themselves: `call_soon` of any loop, futures that are not loopcore's.
        try:
            self._announce("loopcore_task_step_begin")
            self._tell(_QUEUED)
            self._tell(_BEGINS)
        except BaseException:  # SystemExit, of a hook or a signal handler: the step is made in the next tick
            self._schedule_step()
            raise
        if future is not None and self._public is not None and not isinstance(future, Future):
            unlink(future, self._public)
        try:
            self._step(None)
        finally:
            self._announce("loopcore_task_step_end")
            self._tell(_ENDS)
            del self, future

    def _step(self, context: Context | None) -> None:
        """Run the coroutine until it suspends or ends, in `context` or, if that is None, in the current one."""
        if self._status != _PENDING:
            raise asyncio.InvalidStateError(f"step(): already done: {self!r}")
        thrown = self._take_thrown()
        if self._scheduler is not None:
            self._scheduler._stats.task_steps = self._scheduler._stats.task_steps + 1  # `+=` would take a reference
        previous = enter_task(self._loop, as_public(self))
        try:
            self._advance(thrown, context)
        finally:
            leave_task(self._loop, previous)
            del self, thrown

    def _take_thrown(self) -> BaseException | None:
        thrown: BaseException | None = self._thrown
        self._thrown = None
        if self._fut_waiter is not None:
            waiter, self._fut_waiter = self._fut_waiter, None
            thrown = failure_of(waiter)
        if self._must_cancel:
            if not isinstance(thrown, CancelledError):
                thrown = self._cancelled_error()
            self._must_cancel = False
        return thrown

    def _advance(self, thrown: BaseException | None, context: Context | None) -> None:
        outcome = advance(self, thrown, context)
        try:
            if self._how == _YIELDED:
                if outcome is None:
                    self._schedule_step()
                else:
                    self._wait_for(outcome)
            elif self._how == _RETURNED:
                self._finish(outcome)
            elif isinstance(outcome, CancelledError):
                self._finish_cancelled(outcome)
            else:
                self._finish_failed(outcome)
                if isinstance(outcome, (KeyboardInterrupt, SystemExit)):
                    raise outcome
        finally:
            del self, thrown, outcome

    def _wait_for(self, yielded: object) -> int:
        if isinstance(yielded, Future) and self._scheduler is not None and takes_waiters(yielded):
            future = yielded
            if future._asyncio_future_blocking and future._loop is self._loop and future is not self:
                future._asyncio_future_blocking = False
                future._add_callback(self, None)
                self._suspend_on(future)
                return 0
        self._wait_for_other(yielded)
        return 0

    def _suspend_on(self, future: "Future | asyncio.Future[Any]") -> None:
        self._fut_waiter = future
        if self._public is not None:
            self._link(future)
        if self._must_cancel and future.cancel(self._cancel_message):
            self._must_cancel = False

    def _link(self, future: "Future | asyncio.Future[Any]") -> None:
        # For the call graph, which has tasks and asyncio's futures.
        if not isinstance(future, Future):
            link(future, self._public)
        else:
            awaited = future
            if awaited._public is not None:
                link(awaited._public, self._public)

    def _wait_for_other(self, yielded: Any) -> None:
        error = bad_yield_error(
            as_public(self), self._loop, as_public(yielded) if isinstance(yielded, Future) else yielded
        )
        if error is None:
            yielded._asyncio_future_blocking = False
            yielded.add_done_callback(self._wakeup, context=self._context)
            self._suspend_on(yielded)
        else:
            self._thrown = error
            self._schedule_step()

    # Ending

    def _finish(self, result: Any) -> None:
        if self._must_cancel:
            # Cancelled during its last step: the request came too late to be thrown in, but it counts.
            self._must_cancel = False
            self._finish_cancelled(None)
        else:
            self._set_result(result)

    def _finish_cancelled(self, exc: BaseException | None) -> None:
        if exc is not None:
            drop_own_frames(exc)
        self._exception = exc
        self._cancel(self._cancel_message if exc is None else None)  # the message is in `exc`, which is raised once

    def _finish_failed(self, exc: BaseException) -> None:
        drop_own_frames(exc)
        self._set_exception(exc)

    def _schedule_callbacks(self) -> None:
        # The task is done, with a result or not, and its end has not been reported yet.
        if self._registration:
            delist(self)
        if self._scheduler is not None:
            if self._status == _CANCELLED:
                self._scheduler._stats.tasks_cancelled += 1
            elif self._exception is not None:
                self._scheduler._stats.tasks_failed += 1
            else:
                self._scheduler._stats.tasks_finished += 1
        try:
            self._announce("loopcore_task_done")
        finally:  # also if a hook exits
            Future._schedule_callbacks(self)
            self._public = None

    def _announce(self, hook: str) -> None:
        if self._scheduler is not None and self._scheduler._slow_path_flags & _WATCHING_HANDLES:
            self._scheduler.probes.fire(hook, self._loop, as_public(self))

    def _tell(self, event: int) -> None:
        # `_wakeup` is a callback like any other; this reports the step within it.
        if self._scheduler is not None and self._scheduler._observers.wants & event:
            self._scheduler._observers.report(event, self, _TASK)

    def _announce_woken(self, future: "Future | asyncio.Future[Any] | None") -> None:
        woken_by = as_public(future) if isinstance(future, Future) else future
        self._scheduler.probes.fire("loopcore_task_woken", self._loop, as_public(self), woken_by)

    def _start_eagerly(self) -> None:
        try:
            self._context.run(self._wakeup, None)
        finally:
            if self._status != _PENDING:
                self._coro = None
            del self

    def __repr__(self) -> str:
        return describe_task(self) if self._public is None else repr(self._public)

    def __del__(self) -> None:
        if self._registration:
            delist(self)
            if self._status == _PENDING and self._scheduler is not None:
                self._scheduler._stats.tasks_destroyed += 1
        if self._has_public:
            return
        if self._status == _PENDING and self._log_destroy_pending:
            report_destroyed(self)
        if self._log_traceback_flag:
            report_unseen(self)

    def __dealloc__(self) -> None:
        if _LISTS:  # a method of compiled classes; Python never calls it
            delist(self)  # the list holds no reference


def make_step(
    loop: Scheduler, coro: Coroutine[Any, Any, Any], context: Context, task: "asyncio.Task[Any]", name: object
) -> Task:
    """Make the Task that runs the coroutine of `task`, one of visible.py."""
    step: Task = Task.__new__(Task)
    step._loop = step._scheduler = loop  # the other attributes are already zero or None
    step._coro = coro
    step._context = context
    step._public = task
    if name is not None:
        step._name = str(name)  # for observers: the task that programs see has its own
    step._has_public = step._log_destroy_pending = True
    step._registration = 1
    loop._stats.tasks_created += 1
    loop._ready.push(step)
    return step


def make_task(loop: Scheduler, coro: Coroutine[Any, Any, Any], name: object, context: Context | None) -> Task:
    """Make a Task as its constructor does outside debug mode, without the cost of that call."""
    if type(coro) is not _COROUTINE and not asyncio.iscoroutine(coro):
        raise TypeError(f"a coroutine was expected, got {coro!r}")
    if context is not None:
        check_context(context)
    task: Task = Task.__new__(Task)
    task._loop = task._scheduler = loop  # the other attributes are already zero or None
    task._coro = coro
    task._context = copy_context() if context is None else context
    if name is None:
        task._number = next_number()
    else:
        task._name = str(name)
    task._log_destroy_pending = True
    enlist(task)
    loop._stats.tasks_created += 1
    loop._ready.push(task)
    return task


OWN_CLASSES.add(Task)

if not cython.compiled:
    Task.__getattr__ = default_of_uninitialized((*Future.__slots__, *Task.__slots__))  # type: ignore[attr-defined]
elif _LISTS:
    show_tasks(lambda: tasks_listed())  # noqa: PLW0108  # which is C's
