"""Watch: the checks of one run of a loop, and the stalls they find.

A check can find two things. *Stuck*: the loop is not in its wait, and its count of ticks, which grows when a wait ends
or is skipped, is the same as at an earlier check, a threshold ago; the loop is still there, and its stack says where.
*Late*: the watchdog itself could not run for a threshold, so no thread in this process could, whatever the loop does
now; the measurements say why. A call in C that holds the GIL is of this kind, and its thread is still there when the
watchdog gets to run.

A check costs the loop nothing: it reads the loop's existing counters. Once a stall is found, a callback is posted to
the loop, to learn without delay and exactly when it continues.
"""

import asyncio
import threading
import time
from typing import Any, Protocol

from loopcore.build_info import has_gil
from loopcore_plugins._tasktree import awaiting, view_running, view_tasks
from loopcore_plugins.watchdog.clocks import Collections, Moment, own_clock
from loopcore_plugins.watchdog.stacks import Stack, callback_of, common, innermost_of_program, stack_of
from loopcore_plugins.watchdog.stall import Holder, Stall, StallSample
from loopcore_plugins.watchdog.watch_thread import Subject, watch_thread


class WatchHost(Protocol):
    """What a `Watch` reports to. Thread: the watch thread's."""

    def note_stall(self, event: str, loop: Any, stall: Stall) -> None:
        """Note that a stall begins or ends: `event` is "begin" or "end"."""

    def note_standstill(self) -> None:
        """Note that the whole process stood still while the loop was idle."""

    def read_request(self, task: Any) -> dict[str, str] | None:
        """Return the ids of the request that `task` serves, by name; None if there are none."""


class Where:
    """Where the callback of a loop is, as far as all samples agree."""

    def __init__(self) -> None:
        self.stack: Stack = ()
        self.task: int | None = None
        self._samples = 0

    def sample(self, loop: Any, thread_id: int) -> None:
        """Add a sample. If two are of different tasks, or have no calls in common, nothing is left."""
        task = asyncio.current_task(loop)
        task_id = None if task is None else id(task)
        stack = callback_of(stack_of(thread_id))
        self._samples += 1
        if self._samples == 1:
            self.stack, self.task = stack, task_id
        elif task_id != self.task:
            self.stack, self.task = (), None
        else:
            self.stack = common(self.stack, stack)

    def write_to(self, stall: Stall) -> None:
        """Write the findings to `stall`."""
        stall.samples = self._samples
        stall.stack = self.stack
        stall.place = innermost_of_program(self.stack)
        stall.call = self.stack[-1] if self.stack else None


class Watch(Subject):
    """One run of `loop`, in the thread that creates this, or in `thread_id`, whose CPU clock is `clock`.

    Thread: afterwards the watch thread, except `_note_end`.
    """

    def __init__(
        self,
        loop: Any,
        threshold: float,
        host: WatchHost,
        *,
        thread_id: int | None = None,
        clock: int | None = None,
    ) -> None:
        self.loop = loop
        self.threshold = threshold
        self.thread_id = threading.get_ident() if thread_id is None else thread_id
        self.clock = own_clock() if thread_id is None else clock
        self._host = host
        self._ticks: int = loop.counters().ticks
        self._moved = Moment.take({self.thread_id: self.clock})
        """The first check in the current tick."""
        self._previous = self._moved
        self._late = 0.0
        """The total lateness of the checks since then."""
        self._where = Where()
        self._stall: Stall | None = None
        self._ended: float | None = None

    @property
    def stall(self) -> Stall | None:
        """The stall under way, once it was found. Thread: any."""
        return self._stall

    def stuck_for(self, now: float) -> float:
        """Return for how many seconds the loop has been in one tick, outside its wait, at `now`. Thread: any."""
        ticks, moved = self._ticks, self._moved
        if self.gone or self.loop.is_waiting() or self.loop.counters().ticks != ticks:
            return 0.0
        return now - moved.now

    def look(self, moment: Moment, collections: Collections) -> None:
        """Check, and report a stall that begins, continues or ends."""
        waiting, ticks = self.loop.is_waiting(), self.loop.counters().ticks
        stuck = not waiting and ticks == self._ticks and not self.gone
        previous, self._previous = self._previous, moment
        if stuck:
            self._late += moment.late
            self._where.sample(self.loop, self.thread_id)
        if self._stall is not None:
            self._follow(self._stall, moment, collections, stuck)
        elif stuck and moment.now - self._moved.now >= self.threshold:
            self._begin(moment, collections)
        elif moment.late >= self.threshold and not self.gone:
            self._report_late(previous, moment, collections, waiting)
        if not stuck:
            self._late, self._where = 0.0, Where()
            self._moved = moment  # before `_ticks`, for `stuck_for`
            self._ticks = ticks
        self.suspicious = not waiting

    def _begin(self, moment: Moment, collections: Collections) -> None:
        sample = self._sample(self._moved, moment, collections, in_callback=True)
        stall = self._make(sample, self._moved, moment, self._where)
        if stall is None or self.loop.is_waiting() or self.loop.counters().ticks != self._ticks:
            return  # it continued during this check
        self._stall, self._ended = stall, None
        try:
            self.loop.call_soon_threadsafe(self._note_end, stall)
        except RuntimeError:  # closed
            pass
        self._host.note_stall("begin", self.loop, stall)

    def _note_end(self, stall: Stall) -> None:
        """Note the time. Thread: the loop's, in the first callback after the stall."""
        if stall is self._stall:
            self._ended = time.monotonic()
            watch_thread().hurry()

    def _follow(self, stall: Stall, moment: Moment, collections: Collections, stuck: bool) -> None:
        ended = self._ended
        if stuck and ended is None:
            sample = self._sample(self._moved, moment, collections, in_callback=True)
            stall.seconds, stall.cpu_seconds = sample.seconds, sample.cpu
            stall.cause = sample.cause() or stall.cause
            if self._where.stack:
                self._where.write_to(stall)
            return
        stall.seconds = max(stall.seconds, (ended or moment.now) - self._moved.now)
        stall.over = True
        self._stall = None
        self._host.note_stall("end", self.loop, stall)

    def _report_late(self, previous: Moment, moment: Moment, collections: Collections, waiting: bool) -> None:
        sample = self._sample(previous, moment, collections, in_callback=not waiting)
        sample.seconds = sample.late = moment.late
        where = Where()
        if not waiting:
            where.sample(self.loop, self.thread_id)
        stall = self._make(sample, previous, moment, where)
        if stall is None:
            self._host.note_standstill()
            return
        stall.over = True
        self._host.note_stall("begin", self.loop, stall)
        self._host.note_stall("end", self.loop, stall)

    def _sample(self, begin: Moment, end: Moment, collections: Collections, *, in_callback: bool) -> StallSample:
        process = end.process_since(begin)
        cpu = end.cpu_since(begin, self.thread_id)
        if cpu is None:  # then the owner of the process's CPU time is only a guess
            cpu = process if in_callback else 0.0
        return StallSample(
            seconds=end.now - begin.now,
            late=self._late,
            gc=collections.seconds_between(begin.now, end.now),
            cpu=cpu,
            other_cpu=process - cpu,
            in_callback=in_callback,
        )

    def _make(self, sample: StallSample, begin: Moment, end: Moment, where: Where) -> Stall | None:
        cause = sample.cause()
        if cause is None:
            return None
        stall = Stall(cause, sample.seconds, sample.cpu)
        where.write_to(stall)
        if where.task is not None:
            # Without the GIL the loop may go on, and change its tasks, while this looks at them.
            views = view_tasks(self.loop) if has_gil() else view_running(self.loop)
            stall.task = views.get(where.task)
            stall.awaited_by = tuple(awaiting(views, where.task))
            task = asyncio.current_task(self.loop)
            if id(task) == where.task:
                stall.request = self._host.read_request(task)
        if cause == "gil":
            stall.holder = self._holder(begin, end)
        return stall

    def _holder(self, begin: Moment, end: Moment) -> Holder | None:
        ident, seconds = end.busiest_since(begin, {self.thread_id, threading.get_ident()})
        name = next((thread.name for thread in threading.enumerate() if thread.ident == ident), "")
        return Holder(name, innermost_of_program(stack_of(ident)), seconds) if ident else None
