"""loopcore's own futures and tasks, for a loop to make (docs/adr/0007).

From Python 3.14 on the tasks are asyncio.Task objects, which the interpreter's tools can see (loopcore.kernel.visible).
"""

from collections.abc import Coroutine
from contextvars import Context
from typing import Any

from loopcore.kernel import visible
from loopcore.kernel.future import Future
from loopcore.kernel.scheduler import Scheduler
from loopcore.kernel.task import Task as Step
from loopcore.kernel.task_makers import ClassTasks

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.kernel.future import make_future
    from cython.cimports.loopcore.kernel.task import make_task
    from cython.cimports.loopcore.kernel.visible import make_task as make_visible_task
else:
    from loopcore.kernel.future import make_future
    from loopcore.kernel.task import make_task
    from loopcore.kernel.visible import make_task as make_visible_task

_VISIBLE = visible.IN_USE

Task: Any = visible.Task if _VISIBLE else Step
"""What programs know as `loopcore.Task`."""


class OwnTasks(ClassTasks):
    """Makes loopcore's futures and tasks, without the cost of a constructor call while the loop runs."""

    __slots__ = ()

    def __init__(self) -> None:
        ClassTasks.__init__(self, Future, Task)

    def make_future(self, loop: Scheduler) -> Any:
        scheduler: Scheduler = loop
        if scheduler._slow_path_flags:
            return Future(loop=loop)
        return make_future(scheduler)

    def make_task(self, loop: Scheduler, coro: Coroutine[Any, Any, Any], name: object, context: Context | None) -> Any:
        if _VISIBLE:
            return make_visible_task(loop, coro, name, context)
        return make_task(loop, coro, name, context)
