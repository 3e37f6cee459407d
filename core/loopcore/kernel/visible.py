"""Task from Python 3.14 on: a real `asyncio.Task`, which the interpreter's tools see.

From 3.14 on the interpreter keeps the list of all tasks, and `python -m asyncio ps`, the call graph, and sampling
profilers read `asyncio.Task` objects. So what a program holds is one of those. It is made for a loop that never runs
it, and owns the `Task` of kernel/task.py, which runs the coroutine: the step. Awaiting the one waits for the other.

A step refers to its task until it is done; then only the task refers to the step. Thread: the loop's own.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import TYPE_CHECKING, Any

from loopcore.kernel.exceptions import default_of_uninitialized
from loopcore.kernel.faults import report_destroyed, report_unseen
from loopcore.kernel.formatting import describe_task
from loopcore.kernel.handle import check_context
from loopcore.kernel.task import Task as Step

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.asyncio_task import Task as AsyncioTask
    from cython.cimports.loopcore._native.interpreter import copy_context
    from cython.cimports.loopcore.kernel.task import make_step
    from cython.cimports.loopcore.kernel.visible import begin
else:
    from asyncio import Task as AsyncioTask

    from loopcore._native.interpreter import copy_context
    from loopcore.kernel.task import make_step

    def begin(
        task: "Task", coro: Coroutine[Any, Any, Any] | Generator[Any, Any, Any], name: Any, context: Context | None
    ) -> None:
        AsyncioTask.__init__(task, coro, loop=_NOWHERE, name=name, context=context)
        AsyncioTask._log_destroy_pending.__set__(task, False)


if TYPE_CHECKING:
    from traceback import StackSummary

    from loopcore.kernel.scheduler import Scheduler

IN_USE = sys.version_info >= (3, 14) and asyncio.Task is not asyncio.tasks._PyTask
"""Whether tasks are made of these classes; elsewhere (PyPy has no `asyncio.Task` in C) a step is all there is."""

_PENDING, _CANCELLED = 0, 1


class Nowhere:
    """The loop given to an `asyncio.Task` that asyncio must not run."""

    def get_debug(self) -> bool:
        """Return False: the step keeps where the task was created."""
        return False

    def call_soon(self, callback: object, context: object = None) -> None:
        """Ignore the first step, which asyncio schedules."""


_NOWHERE: Any = Nowhere()
_NAMED: dict[str, Any] = {"loop": _NOWHERE}
_get_context: Any = getattr(AsyncioTask, "get_context", None)  # Python 3.11 has none, and does not use this module


class Task(AsyncioTask):  # type: ignore[misc]
    """A future whose result comes from running a coroutine."""

    __slots__ = ("_step",)

    def __init__(
        self,
        coro: Coroutine[Any, Any, Any] | Generator[Any, Any, Any],
        *,
        loop: "asyncio.AbstractEventLoop | Scheduler | None" = None,
        name: object = None,
        context: Context | None = None,
        eager_start: bool = False,
    ) -> None:
        if context is not None:
            check_context(context)
        if name is not None:
            name = str(name)
        begin(self, coro, name, context)
        self._step: Step = Step.__new__(Step)
        self._step._public = self
        try:
            self._step.__init__(  # type: ignore[misc]
                coro, loop=loop, name=name, context=_get_context(self), eager_start=eager_start
            )
        finally:
            del self  # an eager task keeps its exception, whose traceback keeps this frame

    # What a future has

    def get_loop(self) -> "asyncio.AbstractEventLoop | Scheduler":
        """Return the loop that the task belongs to."""
        return self._step.get_loop()

    def done(self) -> bool:
        """Return whether the coroutine has ended."""
        step: Step | None = self._step
        # None: it is being made, and asyncio lists it already. `all_tasks`, in another thread, must omit it.
        return step is None or step._status != _PENDING

    def cancelled(self) -> bool:
        """Return whether the task was cancelled, and has not refused it."""
        return self._step._status == _CANCELLED

    def result(self) -> Any:
        """Return the result, or raise the exception.

        Raises CancelledError if the task was cancelled, InvalidStateError if it is not done.
        """
        return self._step._outcome()

    def exception(self) -> BaseException | None:
        """Return the exception, or None if there is a result. Raises as `result` does."""
        return self._step.exception()

    def add_done_callback(self, fn: Callable[[Any], object], *, context: Context | None = None) -> None:
        """Call `fn(self)` through the loop once the task is done; soon if it is done now."""
        if self._step._status != _PENDING:
            self._step._loop.call_soon(fn, self, context=context)
        else:
            self._step._add_callback(fn, copy_context() if context is None else context)

    def remove_done_callback(self, fn: Callable[[Any], object]) -> int:
        """Remove every registration of `fn`; return how many there were."""
        return self._step.remove_done_callback(fn)

    # What a task has

    def cancel(self, msg: Any = None) -> bool:
        """Ask the task to cancel itself: CancelledError is thrown into the coroutine at its next step.

        False if the task is done already. The coroutine may clean up, or refuse.
        """
        return self._step.cancel(msg)

    def cancelling(self) -> int:
        """Return how many requests to cancel have not been undone by `uncancel`."""
        return self._step.cancelling()

    def uncancel(self) -> int:
        """Undo one request to cancel; return how many are left (asyncio.timeout and TaskGroup do this)."""
        return self._step.uncancel()

    def get_coro(self) -> Coroutine[Any, Any, Any] | Generator[Any, Any, Any] | None:
        """Return the coroutine, or None if an eager task has finished it."""
        return self._step._coro

    # Attributes that asyncio's own code and its tests read by these names.

    @property
    def _coro(self) -> Coroutine[Any, Any, Any] | Generator[Any, Any, Any] | None:
        return self._step._coro

    @property
    def _loop(self) -> "asyncio.AbstractEventLoop | Scheduler":
        return self._step._loop

    @property
    def _state(self) -> str:
        return self._step._state

    @property
    def _result(self) -> Any:
        return self._step._result

    @property
    def _exception(self) -> BaseException | None:
        return None if self.cancelled() else self._step._exception

    @property
    def _callbacks(self) -> list[tuple[Any, Context | None]] | None:
        return self._step._callbacks

    @property
    def _fut_waiter(self) -> Any:
        waiter = self._step._fut_waiter
        return waiter._public if isinstance(waiter, Step) else waiter  # None if that task has just ended

    @property
    def _must_cancel(self) -> bool:
        return self._step._must_cancel

    @property
    def _num_cancels_requested(self) -> int:
        return self._step._num_cancels_requested

    @property
    def _source_traceback(self) -> "StackSummary | None":
        return self._step._source_traceback

    @property
    def _cancel_message(self) -> Any:
        return self._step._cancel_message

    @_cancel_message.setter
    def _cancel_message(self, message: Any) -> None:
        self._step._cancel_message = message

    @property
    def _asyncio_future_blocking(self) -> bool:
        return self._step._asyncio_future_blocking

    @_asyncio_future_blocking.setter
    def _asyncio_future_blocking(self, value: bool) -> None:
        self._step._asyncio_future_blocking = value

    @property
    def _log_traceback(self) -> bool:
        return self._step._log_traceback

    @_log_traceback.setter
    def _log_traceback(self, value: bool) -> None:
        self._step._log_traceback = value

    @property
    def _log_destroy_pending(self) -> bool:
        return self._step._log_destroy_pending

    @_log_destroy_pending.setter
    def _log_destroy_pending(self, value: bool) -> None:
        self._step._log_destroy_pending = value

    def _make_cancelled_error(self) -> BaseException:
        return self._step._make_cancelled_error()

    # Waiting for it, and its end

    def __iter__(self) -> Generator[Any, None, Any]:
        return iter(self._step) if type(self) is Task else wait_for(self)

    def __await__(self) -> Generator[Any, None, Any]:
        return iter(self._step) if type(self) is Task else wait_for(self)

    def __repr__(self) -> str:
        return describe_task(self)

    def __del__(self) -> None:
        step: Step | None = self._step
        if step is None:
            return  # `__init__` has not got that far
        if step._status == _PENDING:
            if step._log_destroy_pending:
                report_destroyed(self)
        elif type(self) is not Task and step._log_traceback_flag:
            report_unseen(self)
        elif step._log_traceback_flag:
            # A task that waits for this one has only the step, and may not have run yet: the step reports, at its end.
            step._name = self.get_name()
            step._has_public = False


def wait_for(task: Task) -> Generator[Any, None, Any]:
    """Wait for a task of a program's class, which may override what a waiter calls: `cancel`, `result`."""
    if not task.done():
        task._asyncio_future_blocking = True
        yield task
    if not task.done():
        raise RuntimeError("await wasn't used with future")
    return task.result()


def make_task(loop: "Scheduler", coro: Coroutine[Any, Any, Any], name: object, context: Context | None) -> Task:
    """Make a Task as its constructor does outside debug mode, without the cost of that call."""
    if context is not None:
        check_context(context)
    if name is not None:
        name = str(name)
    task: Task = Task.__new__(Task)
    begin(task, coro, name, context)
    task._step = make_step(loop, coro, _get_context(task), task, name)
    return task


if not cython.compiled:
    Task.__getattr__ = default_of_uninitialized(Task.__slots__)
