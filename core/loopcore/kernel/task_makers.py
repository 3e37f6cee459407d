"""Task makers: the objects that make a loop's futures and tasks.

The loop has one, and asks it; so the loop does not depend on the classes. `OwnTasks` of `loopcore.kernel.own_tasks`
makes loopcore's, a ClassTasks those of any two classes, for example asyncio's.
"""

from collections.abc import Coroutine
from contextvars import Context
from typing import Any


class ClassTasks:
    """Makes futures and tasks by calling their classes. Thread: the loop's own."""

    __slots__ = ("future_class", "task_class")

    def __init__(self, future_class: Any, task_class: Any) -> None:
        self.future_class: Any = future_class
        self.task_class: Any = task_class

    def make_future(self, loop: Any) -> Any:
        """Return a new pending future of `loop`."""
        return self.future_class(loop=loop)

    def make_task(self, loop: Any, coro: Coroutine[Any, Any, Any], name: Any, context: Context | None) -> Any:
        """Return a new task of `loop` that runs `coro`."""
        return self.task_class(coro, loop=loop, name=name, context=context)
