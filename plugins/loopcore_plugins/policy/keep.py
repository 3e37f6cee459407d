"""Keep: tasks live until they are done.

In asyncio and loopcore a waiting task is referenced only by the future it waits for (python/cpython#91887). Where
nothing else refers to the two, the garbage collector may free them both: the task ends midway, without an exception.
"""

import asyncio
from typing import Any

import loopcore


class Keep:
    """Holds a reference to each of loopcore's own tasks from its creation until it is done, or the loop is closed.

    The price: a task that waits for an event that never comes lives as long as the loop. `loopcore ps` shows it.
    """

    def __init__(self) -> None:
        self._tasks: set[Any] = set()

    def __len__(self) -> int:
        """Return how many tasks are held. Thread: any."""
        return len(self._tasks)

    @loopcore.hookimpl
    def loopcore_plugin_registered(self, loop: Any) -> None:
        """Hold loopcore's own tasks that exist already: the end of others is not reported."""
        self._tasks.update(task for task in asyncio.all_tasks(loop) if isinstance(task, loopcore.Task))

    @loopcore.hookimpl
    def loopcore_task_spawned(self, task: Any) -> None:
        """Hold a new task."""
        self._tasks.add(task)

    @loopcore.hookimpl
    def loopcore_task_done(self, task: Any) -> None:
        """Release a task."""
        self._tasks.discard(task)

    @loopcore.hookimpl
    def loopcore_plugin_unregistered(self) -> None:
        """Release all tasks."""
        self._tasks.clear()

    @loopcore.hookimpl
    def loopcore_loop_closed(self) -> None:
        """Release all tasks: nothing runs them any more."""
        self._tasks.clear()
