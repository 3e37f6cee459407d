"""Which task asyncio shows as the current one while a tick goes from task to task.

asyncio keeps the current task in a dict, by loop. Entering and leaving it in each step takes three accesses, and a dict
whose entry is inserted and deleted again is rebuilt every five times. So, compiled, a task that suspends in the pending
phase stays the current one, and the next task replaces it: one access, in a dict that is not rebuilt. The task left
over is removed before any code runs that could look: a callback, an exception handler, the wait of the backend, the
caller that drives the tick (docs/adr/0007).
"""

from collections.abc import Callable
from typing import Any

from loopcore.clock import Clock
from loopcore.kernel.probes import Probes
from loopcore.kernel.queues import Queues
from loopcore.kernel.registry import leave_task


class TaskQueues(Queues):
    """Queues that know which of their tasks was left as the current one. Thread: the loop's own."""

    __slots__ = ("_task_type", "_steps_task", "_leave_deferred", "_has_own_call_soon", "_left")

    def __init__(self, wake: Callable[[], None], clock: Clock, probes: Probes) -> None:
        Queues.__init__(self, wake, clock, probes)
        # Only tasks of exactly this type may be left as the current one. Interpreted, None: no task may.
        self._task_type: Any = None
        # Set before a task's step in the pending phase, until the step has entered the task.
        self._steps_task: bool = False
        self._leave_deferred: bool = False
        # Whether no class overrides `call_soon`. An override has to be called for the callbacks of futures.
        self._has_own_call_soon: bool = type(self).call_soon is Queues.call_soon

    def _leave_current_task(self) -> None:
        self._leave_deferred = False
        # Dropping the task may run code of the program, which may run a step: that is not the step announced here.
        steps_task, self._steps_task = self._steps_task, False
        leave_task(self, None)
        self._steps_task = steps_task
