"""The scheduler: a reactor that makes futures and tasks. The top of the kernel, and the base class of the facade.

It is separate from the reactor because Future and Task depend on the reactor, as entries of its queue, and the
scheduler depends on them.
"""

import sys
from collections.abc import Coroutine
from contextvars import Context
from typing import Any

from loopcore.backend import ReadinessBackend
from loopcore.clock import Clock
from loopcore.completion import CompletionBackend
from loopcore.kernel.future import Future
from loopcore.kernel.probes import Probes
from loopcore.kernel.reactor import Reactor
from loopcore.kernel.task import Task
from loopcore.kernel.visible import IN_USE
from loopcore.kernel.visible import Task as VisibleTask

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.kernel.future import make_future
    from cython.cimports.loopcore.kernel.scheduler import make_task
else:
    from loopcore.kernel.future import make_future
    from loopcore.kernel.task import make_task

_VISIBLE = IN_USE
_TASK: Any = VisibleTask if IN_USE else Task

FACTORIES_NAME = sys.version_info >= (3, 14)
"""Whether a task factory receives the name, as asyncio's does: an eager task runs its first step with it."""

INTERPRETED = not cython.compiled
"""Whether this is the pure build."""


class Scheduler(Reactor):
    """A reactor with `create_future` and `create_task`. Thread: its own."""

    __slots__ = ("_future_class", "_task_class", "_task_factory", "_own_tasks")

    def __init__(
        self,
        backend: "ReadinessBackend | CompletionBackend",
        *,
        clock: Clock | None = None,
        probes: Probes | None = None,
    ) -> None:
        Reactor.__init__(self, backend, clock=clock, probes=probes)
        self._future_class: Any = Future
        self._task_class: Any = _TASK
        self._task_factory: Any = None
        self._own_tasks: bool = not INTERPRETED

    def use_classes(self, future_class: Any, task_class: Any) -> None:
        """Make futures and tasks of these classes; for example asyncio's, for a tool that insists on them.

        If both are None, nothing changes.
        """
        if task_class is None:
            return
        self._future_class = future_class
        self._task_class = task_class
        self._own_tasks = not INTERPRETED and task_class is _TASK and future_class is Future

    def __reduce__(self) -> Any:
        # `copy.deepcopy` of an object that refers to a future gets here, and would copy descriptors, which have one
        # owner.
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    def create_future(self) -> Any:
        """Return a new pending future of this loop."""
        if self._slow_path_flags or not self._own_tasks:
            return self._future_class(loop=self)
        return make_future(self)

    def create_task(
        self, coro: Coroutine[Any, Any, Any], *, name: Any = None, context: Context | None = None, **kwargs: Any
    ) -> Any:
        """Return a new task that runs `coro`, made by the task factory if there is one.

        `kwargs` go to the task or to the factory (`eager_start`). Raises RuntimeError if the loop is closed, TypeError
        if `coro` is not a coroutine.
        """
        if self._slow_path_flags or kwargs or self._task_factory is not None or not self._own_tasks:
            return self._create_by_rule(coro, name, context, kwargs)
        return make_task(self, coro, name, context)

    def _create_by_rule(self, coro: Any, name: Any, context: Context | None, options: dict[str, Any]) -> Any:
        self._check_closed()
        self._check_caller()
        self._empty_inbox_while_idle()
        if self._task_factory is None:
            return self._task_class(coro, loop=self, name=name, context=context, **options)
        if context is not None:
            options["context"] = context  # left out otherwise: factories need not accept it
        if name is None:
            return self._task_factory(self, coro, **options)
        if FACTORIES_NAME:
            return self._task_factory(self, coro, name=name, **options)
        task = self._task_factory(self, coro, **options)
        task.set_name(name)
        return task

    def set_task_factory(self, factory: Any) -> None:
        """Make `factory(loop, coro, **options)` create tasks; None restores loopcore's own tasks."""
        if factory is not None and not callable(factory):
            raise TypeError("task factory must be a callable or None")
        self._task_factory = factory

    def get_task_factory(self) -> Any:
        """Return the task factory, or None."""
        return self._task_factory
