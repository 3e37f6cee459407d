"""Making tasks and futures in the pure build; `interpreted_steps` describes them. Thread: the loop's own."""

import asyncio
from contextvars import Context
from typing import Any

from loopcore.kernel import registry
from loopcore.kernel.future import Future as InterpretedFuture
from loopcore.kernel.handle import check_context
from loopcore.kernel.interpreted_steps import IS_COMPILED, CountedTask, TaskNumbers
from loopcore.kernel.interpreted_steps import Task as ChosenTask
from loopcore.kernel.task import Task as InterpretedTask
from loopcore.kernel.visible import IN_USE
from loopcore.kernel.visible import Task as VisibleTask

_MADE_HERE = (CountedTask, InterpretedTask, VisibleTask)
_OWN: Any = VisibleTask if IN_USE else InterpretedTask


class _Known(type):
    """Makes isinstance accept every future or task that a loop makes, of whichever class."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        if cls is Task:
            return isinstance(instance, _MADE_HERE)
        if cls is Future:
            return type(instance) is asyncio.Future or isinstance(instance, (InterpretedFuture, CountedTask))
        return False


class Future(InterpretedFuture, metaclass=_Known):
    """The class that programs know as `loopcore.Future`."""

    __slots__ = ()


class Task(_OWN, metaclass=_Known):  # type: ignore[misc]
    """The class that programs know as `loopcore.Task`."""

    __slots__ = ()


def make_future(loop: Any) -> Any:
    """Return a new pending future of `loop`."""
    return asyncio.Future(loop=loop) if IS_COMPILED else InterpretedFuture(loop=loop)


def make_task(loop: Any, coro: Any, name: Any, context: Context | None) -> Any:
    """Return a new task of `loop` that runs `coro`. Raises TypeError if `coro` is not a coroutine."""
    if not IS_COMPILED or loop._order is not None:
        return _OWN(coro, loop=loop, name=name, context=context)
    if context is not None:
        check_context(context)
    task = ChosenTask(coro, loop=loop, name=name, context=context)
    loop.stats.tasks_created += 1
    return task


def create_task(self: Any, coro: Any, *, name: Any = None, context: Context | None = None, **kwargs: Any) -> Any:
    """Return a new task that runs `coro`: `Scheduler.create_task`, with its calls inlined."""
    if (
        self._slow_path_flags
        or kwargs
        or self._task_factory is not None
        or not self._own_tasks
        or self._order is not None
    ):
        return self._create_by_rule(coro, name, context, kwargs)
    if name is None and context is None:
        task = ChosenTask(coro, loop=self)
    else:
        if context is not None:
            check_context(context)
        task = ChosenTask(coro, loop=self, name=name, context=context)
    self.stats.tasks_created += 1
    return task


if IS_COMPILED:
    registry._numbers = TaskNumbers()  # type: ignore[assignment]  # for the interpreted classes
