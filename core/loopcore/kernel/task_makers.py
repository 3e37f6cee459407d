"""Task makers: the objects that make a loop's futures and tasks.

The loop has one, and asks it; so the loop does not depend on the classes. `OwnTasks` of `loopcore.kernel.own_tasks`
makes loopcore's, a ClassTasks those of any two classes, for example asyncio's.
"""

from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopcore.kernel.scheduler import Scheduler


class ClassTasks:
    """Makes futures and tasks by calling their classes. Thread: the loop's own."""

    __slots__ = ("future_class", "task_class")

    def __init__(self, future_class: Callable[..., Any], task_class: Callable[..., Any]) -> None:
        self.future_class: Callable[..., Any] = future_class
        self.task_class: Callable[..., Any] = task_class

    def make_future(self, loop: "Scheduler") -> Any:
        """Return a new pending future of `loop`."""
        return self.future_class(loop=loop)

    def make_task(
        self, loop: "Scheduler", coro: Coroutine[Any, Any, Any], name: object, context: Context | None
    ) -> Any:
        """Return a new task of `loop` that runs `coro`."""
        return self.task_class(coro, loop=loop, name=name, context=context)
