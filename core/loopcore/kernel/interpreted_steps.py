"""Tasks of the pure build: asyncio's own, which CPython implements in C (docs/adr/0002).

`kernel.task` and `kernel.future` are faster than asyncio's when they are compiled, and slower when they are not. So
without a compiler `create_task` makes an `asyncio.Task` and `create_future` an `asyncio.Future`. The promises that
asyncio's tasks cannot keep are implemented around them: each step passes through the loop's `call_soon`, which
recognises its task. The step is put on the ready queue unchanged, without a handle around it, and is counted when the
tick runs it; observers are given a TaskStep instead.

The interpreted classes are still used where asyncio's would report less: for tasks that are made in debug mode, while
plugins watch tasks or order the ready queue, or with an eager start. They are used for all tasks where asyncio's are
interpreted, too (PyPy): asyncio's are not faster there, and one of their steps is a method like any other.

Thread: the loop's own.
"""

import asyncio
import sys
from contextvars import Context
from types import BuiltinMethodType
from typing import Any

from loopcore.kernel.runnable import Runnable

IS_COMPILED = asyncio.Task is not asyncio.tasks._PyTask  # type: ignore[attr-defined]
"""Whether asyncio's tasks are worth using: they are implemented in C, as in CPython."""

KEEPS_CONTEXT = sys.version_info < (3, 12)
"""Whether asyncio's tasks lack `get_context`."""


class CountedTask(asyncio.Task[Any]):
    """asyncio's task, made by this loop: the class tells the loop's own tasks, which are counted, from others."""

    __slots__ = ()

    def _note_destroyed(self) -> None:
        """Count a task that is destroyed while it is pending; called when that is reported."""
        self.get_loop().stats.tasks_destroyed += 1  # type: ignore[attr-defined]


class ContextKeepingTask(CountedTask):
    """A CountedTask for Pythons whose tasks lack `get_context`: `call_soon` receives the context with each step."""

    __slots__ = ("_kept_context",)

    _kept_context: Context

    def get_context(self) -> Context:
        """Return the context that the coroutine runs in."""
        return self._kept_context


CountedTask.__name__ = ContextKeepingTask.__name__ = "Task"  # in representations and reports

Task: Any = ContextKeepingTask if KEEPS_CONTEXT else CountedTask


class TaskStep(Runnable):
    """A due step of a Task, as a ready order gets it; it behaves like the task."""

    __slots__ = ("of_task", "_callback")

    def __init__(self, callback: Any) -> None:
        self.of_task: Any = callback.__self__
        self._callback = callback

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return asyncio.Task

    def __getattr__(self, name: str) -> Any:
        return getattr(self.of_task, name)

    def __hash__(self) -> int:
        return hash(self.of_task)

    def __eq__(self, other: object) -> bool:
        return self.of_task is getattr(other, "of_task", other)

    def __repr__(self) -> str:
        return repr(self.of_task)

    def _run(self) -> None:
        run_step(self._callback)


def run_step(callback: Any) -> None:
    """Run a step: `callback` is the callable that asyncio's task passed to `call_soon`."""
    task = callback.__self__
    reactor = task.get_loop()
    reactor.stats.task_steps += 1
    try:
        advance(callback)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as exc:
        step_failed(callback, exc)
    finally:
        if task.done():
            note_end(task, reactor)
        del task, callback  # a live traceback keeps this frame


def advance(callback: Any) -> None:
    """Call a step in the context of its task."""
    task = callback.__self__
    if type(callback) is STEP:
        task.get_context().run(callback)
    else:
        task.get_context().run(callback, task._fut_waiter)


def step_failed(callback: Any, exc: BaseException) -> None:
    """Handle an exception that is not the coroutine's; the coroutine's exceptions go to the task.

    asyncio enters one task at a time: if a task runs a tick itself, it is left while the steps of other tasks run.
    Every other exception is reported, for example that the context is already entered.
    """
    task = callback.__self__
    loop = task.get_loop()
    outer = asyncio.current_task(loop)
    if isinstance(exc, RuntimeError) and outer is not None and outer is not task:
        asyncio.tasks._leave_task(loop, outer)
        try:
            advance(callback)
        finally:
            asyncio.tasks._enter_task(loop, outer)
        return
    context: dict[str, Any] = {"message": "Exception in a step of a task", "exception": exc, "future": task}
    loop.call_exception_handler(context)


def note_end(task: Any, reactor: Any) -> None:
    """Count a task that has just ended, and report it to observers."""
    stats = reactor.stats
    if task.cancelled():
        stats.tasks_cancelled += 1
    elif task._exception is not None:  # `exception()` would mark it as retrieved
        stats.tasks_failed += 1
    else:
        stats.tasks_finished += 1
    if reactor.watching:
        reactor.probes.fire("loopcore_task_done", reactor, task)


class _NoLoop:
    """The loop of a task that never runs; records the type of its first step."""

    def __init__(self) -> None:
        self.kind_of_step: Any = None

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return False

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> None:
        self.kind_of_step = type(callback)  # not the step itself: it refers to its task, which refers to this loop

    def call_exception_handler(self, context: Any) -> None:
        """Ignore that such a task was destroyed."""


async def _nothing() -> None:
    pass


def _kind_of_first_step() -> type:
    """Return the type of the first step that an asyncio task schedules, from a task that never runs."""
    loop: Any = _NoLoop()
    coro = _nothing()
    asyncio.Task(coro, loop=loop, name="")  # with a name it uses up no number
    coro.close()
    kind: type = loop.kind_of_step
    return kind


class TaskNumbers:
    """The numbers in the names of unnamed tasks: asyncio's, which only its compiled code counts.

    So each number takes a task that never runs, and no two tasks of a program have the same name.
    """

    def __iter__(self) -> "TaskNumbers":
        return self

    def __next__(self) -> int:
        loop: Any = _NoLoop()
        coro = _nothing()
        task = asyncio.Task(coro, loop=loop)
        coro.close()
        return int(task.get_name().rpartition("-")[2])


class NoStep:
    """A type without instances, for where asyncio's tasks are not used."""


STEP: type = _kind_of_first_step() if IS_COMPILED else NoStep
WAKEUP: type = BuiltinMethodType if IS_COMPILED else NoStep
WAKEUP_NAME = "task_wakeup"
