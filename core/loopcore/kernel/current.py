"""Which task asyncio shows as the current one while a tick goes from task to task.

asyncio keeps it in a dict, by loop. To enter and to leave it in each step are three accesses, and a dict that entries
come to and go from is made anew every five of them. So, compiled, a task that suspends in the pending phase is left
where it is, and the next one is put in its place: one access, in a dict that stays. What is left is taken away before
anything runs that could look: a callback, an exception handler, the wait of the backend, whoever drives the tick
(docs/adr/0007).
"""

from collections.abc import Callable
from typing import Any

from loopcore.clock import Clock
from loopcore.kernel.probes import Probes
from loopcore.kernel.queues import Queues
from loopcore.kernel.registry import leave_task


class TaskQueues(Queues):
    """Queues that know which task in them was left as the current one. Thread: the loop's own."""

    __slots__ = ("_task_type", "_steps_task", "_leave_deferred", "_has_own_call_soon", "_left")

    def __init__(self, wake: Callable[[], None], clock: Clock, probes: Probes) -> None:
        Queues.__init__(self, wake, clock, probes)
        # Tasks of exactly this type may be left; None, interpreted, for none.
        self._task_type: Any = None
        # Up from before a task's step in the pending phase until that has entered it.
        self._steps_task: bool = False
        self._leave_deferred: bool = False
        # Whether no class overrides `call_soon`, which the callbacks of futures are owed then.
        self._has_own_call_soon: bool = type(self).call_soon is Queues.call_soon

    def _leave_current_task(self) -> None:
        self._leave_deferred = False
        # With the task may go what a program runs then: nothing that it begins is the step that is to come.
        steps_task, self._steps_task = self._steps_task, False
        leave_task(self, None)
        self._steps_task = steps_task
