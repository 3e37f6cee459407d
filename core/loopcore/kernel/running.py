"""The runner: how a callback runs, and what runs right after it.

After every callback the next-tick and microtask queues run, until both are empty or their budget is spent. A loop that
is observed has another runner, `loopcore.kernel.observed.ObservedRunner`. It is chosen when observers come or go, so
the runner here does not test for them.

The traceback of an exception refers to frames, and a frame to its callers with their locals, even after they have
returned. So functions between the tick and a task's step drop what they run before they return (`del runnable`):
otherwise, interpreted, an exception that the program keeps would keep a finished task alive.
"""

from typing import TYPE_CHECKING

from loopcore.kernel.handle import Handle
from loopcore.kernel.loop_stats import LoopStats
from loopcore.kernel.microtasks import MicrotaskQueues
from loopcore.kernel.probes import Probes
from loopcore.kernel.runnable import Runnable
from loopcore.log import own_logger

if TYPE_CHECKING:
    from loopcore.kernel.scheduler import Scheduler


class CallbackRunner:
    """Runs the callbacks of one loop. Thread: the loop's own."""

    __slots__ = ("_stats", "_microtasks", "_probes")

    def __init__(self, loop: "Scheduler") -> None:
        self._stats: LoopStats = loop._stats
        self._microtasks: MicrotaskQueues = loop._microtasks
        self._probes: Probes = loop.probes

    def run(self, runnable: Runnable) -> None:
        """Run `runnable`, then the next-ticks and microtasks that wait."""
        self.run_alone(runnable)
        if self._microtasks.pending:
            self.run_microtasks()

    def run_alone(self, runnable: Runnable) -> None:
        """Run `runnable`; the caller drops it, which may run a finalizer, and then runs the microtasks."""
        self._stats.callbacks += 1
        self._call(runnable)
        del runnable  # a live traceback would keep this frame, and through it a task that has ended

    def run_microtasks(self) -> None:
        """Run next-ticks and microtasks until none is left, or until their budget is spent."""
        left = self._microtasks.budget
        while left > 0:
            handle = None  # before the queue counts as empty: a finalizer that this runs may schedule work
            handle = self._microtasks.pop()
            if handle is None:
                return
            left -= 1
            self._stats.callbacks += 1
            self._call_microtask(handle)
        if len(self._microtasks):
            self._report_starvation()

    def _call(self, runnable: Runnable) -> None:
        runnable._run()
        del runnable  # as above

    def _call_microtask(self, handle: Handle) -> None:
        handle._run()

    def _report_starvation(self) -> None:
        self._stats.starvations += 1
        if self._stats.starvations == 1:
            own_logger.warning(
                "next_tick or queue_microtask ran %d callbacks in a row and %d wait; others go first now. "
                "Further cases are counted in loop.counters().starvations.",
                self._microtasks.budget,
                len(self._microtasks),
            )
        self._probes.cold("loopcore_starvation", loop=self._probes.loop, left=len(self._microtasks))
