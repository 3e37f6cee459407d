"""Tasks of the pure build: asyncio's, which are compiled wherever CPython is (docs/adr/0002).

`kernel.task` and `kernel.future` are faster than asyncio's when they are compiled, and slower when they are not. So
without a compiler `create_task` makes an `asyncio.Task` and `create_future` an `asyncio.Future`. What loopcore
promises of its tasks and asyncio's cannot do is done around them: each step comes through the loop's `call_soon`, which
sees whose it is. It is put on the ready queue as it is, with no handle around it, and counted when the tick runs it;
who looks on is shown a TaskStep in its place.

The interpreted classes are still taken where asyncio's would show less: for tasks that are made in debug mode, while
plugins watch tasks or order the ready queue, or to start eagerly; for all where asyncio's are interpreted, too (PyPy):
they are no faster there, and a step of theirs is a method like others.

Thread: the loop's own.
"""

import asyncio
import sys
from contextvars import Context
from types import BuiltinMethodType
from typing import Any

from loopcore.kernel.runnable import Runnable

IS_COMPILED = asyncio.Task is not asyncio.tasks._PyTask  # type: ignore[attr-defined]
"""Whether asyncio's tasks are worth taking: in C, as with CPython."""

KEEPS_CONTEXT = sys.version_info < (3, 12)
"""Whether asyncio's tasks do not tell their context by themselves."""


class CountedTask(asyncio.Task[Any]):
    """asyncio's task, made by this loop: a class of its own tells the loop's tasks, which are counted, from others."""

    __slots__ = ()

    def _note_destroyed(self) -> None:
        """Count the task, whose end is that it is garbage; called when that is reported."""
        self.get_loop().stats.tasks_destroyed += 1  # type: ignore[attr-defined]


class ContextKeepingTask(CountedTask):
    """The same for Pythons whose tasks do not tell their context: `call_soon` is given it with each step."""

    __slots__ = ("_kept_context",)

    _kept_context: Context

    def get_context(self) -> Context:
        """Return the context that the coroutine runs in."""
        return self._kept_context


CountedTask.__name__ = ContextKeepingTask.__name__ = "Task"  # in representations and reports

Task: Any = ContextKeepingTask if KEEPS_CONTEXT else CountedTask


class TaskStep(Runnable):
    """A step of a Task that is due, as a ready order is shown it; to whoever asks, it is the task."""

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
    """Run a step: `callback` is what asyncio's task gave to `call_soon`."""
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
        del task, callback  # this frame may live as long as a traceback does


def advance(callback: Any) -> None:
    """Call a step in the context of its task."""
    task = callback.__self__
    if type(callback) is STEP:
        task.get_context().run(callback)
    else:
        task.get_context().run(callback, task._fut_waiter)


def step_failed(callback: Any, exc: BaseException) -> None:
    """Deal with what is not of the coroutine, whose exceptions are the task's.

    asyncio's tasks step one at a time: if a task has ticked the loop by itself, it stands back while others step. All
    else is reported: the context, say, is entered already.
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
    """Count a task that has just ended, and tell who looks on."""
    stats = reactor.stats
    if task.cancelled():
        stats.tasks_cancelled += 1
    elif task._exception is not None:  # `exception()` would count as looked at
        stats.tasks_failed += 1
    else:
        stats.tasks_finished += 1
    if reactor.watching:
        reactor.probes.fire("loopcore_task_done", reactor, task)


class _NoLoop:
    """What a task is made in that nobody will run; notes of which type its first step is."""

    def __init__(self) -> None:
        self.kind_of_step: Any = None

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return False

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> None:
        self.kind_of_step = type(callback)  # not the step itself: it knows its task, and that this loop

    def call_exception_handler(self, context: Any) -> None:
        """Nobody is told that such a task has gone."""


async def _nothing() -> None:
    pass


def _kind_of_first_step() -> type:
    """Return the type of what asyncio's tasks schedule as their first step; a task that nobody runs says it."""
    loop: Any = _NoLoop()
    coro = _nothing()
    asyncio.Task(coro, loop=loop, name="")  # with a name it takes no number
    coro.close()
    kind: type = loop.kind_of_step
    return kind


class TaskNumbers:
    """The numbers by which tasks are called that nobody has named: asyncio's, which only its compiled code counts.

    So a task that nobody runs is made for each, and no two tasks of a program have the same name.
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
    """The type of nothing: there is no step to be found where no task is asyncio's."""


STEP: type = _kind_of_first_step() if IS_COMPILED else NoStep
WAKEUP: type = BuiltinMethodType if IS_COMPILED else NoStep
WAKEUP_NAME = "task_wakeup"
