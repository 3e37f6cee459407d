"""Keep: tasks live until they are done.

asyncio and loopcore refer to a task that waits only from what it waits for (python/cpython#91887). Where nothing else
holds the two, the garbage collector may take them both, and the task ends in the middle, without an exception.
"""

import asyncio
from typing import Any

import loopcore


class Keep:
    """Holds a reference to each task of a loop from when it is made until it is done, or the loop is closed.

    A task that waits for what never comes stays as long as the loop: that is the price. `loopcore ps` shows it.
    """

    def __init__(self) -> None:
        self._tasks: set[Any] = set()

    def __len__(self) -> int:
        """Return how many tasks are held. Thread: any."""
        return len(self._tasks)

    @loopcore.hookimpl
    def loopcore_plugin_registered(self, loop: Any) -> None:
        """Take hold of the tasks that are there already."""
        self._tasks |= asyncio.all_tasks(loop)

    @loopcore.hookimpl
    def loopcore_task_spawned(self, task: Any) -> None:
        """Take hold of a new task."""
        self._tasks.add(task)

    @loopcore.hookimpl
    def loopcore_task_done(self, task: Any) -> None:
        """Let go of a task."""
        self._tasks.discard(task)

    @loopcore.hookimpl
    def loopcore_plugin_unregistered(self) -> None:
        """Let go of all."""
        self._tasks.clear()

    @loopcore.hookimpl
    def loopcore_loop_closed(self) -> None:
        """Let go of all: nothing runs them any more."""
        self._tasks.clear()
