"""The reactor: the tick that empties the queues, and the wait in its middle.

**What a tick will run is fixed at the moment the wait returns**: the callbacks that are ready, the events,
the timers that are due. What these schedule belongs to the next tick. From that sentence follow asyncio's
order (ready callbacks, then I/O, then timers) and Node's (an immediate set in an I/O callback precedes a
zero-delay timer). docs/reference/tick.md lists the eight phases.

A tick is three public steps, so that another loop can host it: `poll_events` (idle, prepare, poll),
`process_events` (hands over what the wait returned), `process_ready` (pending, io, check, timers, close).

Skipping the poll: a wait costs a system call, and while callbacks are ready it could only look, not block.
So it is left out for at most `poll_skip_ticks` ticks in a row, or fewer when the clock, which is looked at
in the first, second, fourth and every eighth of them, shows that `poll_skip_time` seconds have passed. The
first tick of a run always polls, and so does one that begins after `stop_ticks`.
"""

import threading
import time
from collections.abc import Sequence
from typing import Any

from loopcore.backend import ReadinessBackend, ReadyEvent
from loopcore.clock import Clock, MonotonicClock
from loopcore.interest import ERROR, HANGUP, READ, WRITE
from loopcore.kernel import phases
from loopcore.kernel.handle import TimerHandle
from loopcore.kernel.limits import CLOCK_TICKS, LONGEST_WAIT, POLL_SKIP_TICKS, POLL_SKIP_TIME
from loopcore.kernel.probes import Probes
from loopcore.kernel.queues import Queues
from loopcore.kernel.readiness import Readiness
from loopcore.kernel.runnable import Runnable
from loopcore.kernel.watch import report_starvation, run_watched

_CLOSED = 1
_IDLE = 2
_DEBUG = 4
_WATCHING_HANDLES = 8
_WATCHING_TICKS = 16

_NEVER = float("inf")
_READABLE = READ | ERROR | HANGUP
_WRITABLE = WRITE | ERROR | HANGUP

_CLOCK_TICKS = CLOCK_TICKS
_AFTER_THE_WAIT = (phases.PENDING, phases.IO, phases.CHECK, phases.TIMERS, phases.CLOSE)
_NO_EVENTS: Sequence[ReadyEvent] = ()


class Reactor(Queues):
    """A complete small loop over a backend: queues, timers, readiness and the tick. Thread: its own."""

    __slots__ = (
        "backend",
        "readiness",
        "poll_skip_ticks",
        "poll_skip_time",
        "starvations",
        "_events",
        "_due",
        "_stopping",
        "_skipped",
        "_skipping_since",
        "_clock_resolution",
        "_current_handle",
    )

    def __init__(self, backend: ReadinessBackend, *, clock: Clock | None = None, probes: Probes | None = None) -> None:
        clock = MonotonicClock() if clock is None else clock
        Queues.__init__(self, backend.wake, clock, Probes() if probes is None else probes)
        self.backend: ReadinessBackend = backend
        self.readiness: Readiness = Readiness(backend)
        self.poll_skip_ticks: int = POLL_SKIP_TICKS
        self.poll_skip_time: float = POLL_SKIP_TIME
        self.starvations: int = 0
        """How often the next-tick and microtask queues used up their budget."""
        self._events: Sequence[ReadyEvent] = _NO_EVENTS
        self._due: list[TimerHandle] = []
        self._stopping: bool = False
        self._skipped: int = 0
        self._skipping_since: float = 0.0
        self._clock_resolution: float = clock.resolution
        self._current_handle: Runnable | None = None
        """What runs now, while somebody looks; for the reports of debug mode, which say where it comes from."""

    # Life

    def run_ticks(self) -> None:
        """Tick until `stop_ticks` is called. Raises what a callback raised if that was SystemExit or KeyboardInterrupt.

        Nothing is lost then: callbacks that had not run yet stay in the queue.
        """
        self._thread_id = threading.get_ident()
        self._set_attention(_IDLE, False)
        self._skipped = self.poll_skip_ticks
        try:
            self.probes.cold("loopcore_run_started", loop=self)
            while True:
                self._events = self._begin_tick()
                self._finish_tick()
                if self._stopping:
                    break
        finally:
            self._stopping = False
            self._thread_id = None
            self._set_attention(_IDLE, True)
            self.probes.cold("loopcore_run_stopped", loop=self)

    def stop_ticks(self) -> None:
        """Make the current tick, or else the next one, the last of this run."""
        self._stopping = True

    def flush(self) -> None:
        """Send what was written in this tick now, not at its end."""
        self._run_flushes()

    def close_scheduler(self) -> None:
        """Drop what is queued, close what was given up, release the backend. Idempotent."""
        if self._attention & _CLOSED:
            return
        try:
            self._run_flushes()  # what was written goes out: asyncio would have sent it at once
        finally:
            self._set_attention(_CLOSED, True)
            try:
                self._run_closing()
            finally:
                self._drop_all()

    def _drop_all(self) -> None:
        self.ready.clear()
        self.inbox.take()
        self.timers.clear()
        self.urgent.clear()
        self.phase_callbacks.clear()
        self._immediates.clear()
        self._flushes.clear()
        self._due.clear()
        self.readiness.clear()
        self.backend.close()
        self.probes.cold("loopcore_loop_closed", loop=self)

    # The tick

    def tick(self) -> None:
        """Go once through the eight phases."""
        self._events = self._begin_tick()
        self._finish_tick()

    def poll_events(self) -> Sequence[ReadyEvent]:
        """Run the phases idle, prepare and poll; return the events of the wait."""
        return self._begin_tick()

    def process_events(self, events: Sequence[ReadyEvent]) -> None:
        """Take the events that `poll_events` returned; with this the work of the tick is fixed."""
        self._events = events

    def process_ready(self) -> None:
        """Run the phases pending, io, check, timers and close."""
        self._finish_tick()

    def _begin_tick(self) -> Sequence[ReadyEvent]:
        if self._has_phase_callbacks or self._attention & _WATCHING_TICKS:
            if self._attention & _WATCHING_TICKS:
                self.probes.fire("loopcore_tick_begin", self)
            self._run_phase_callbacks(phases.IDLE)
            self._run_phase_callbacks(phases.PREPARE)
        if not self._has_work():
            return self._poll(self._time_to_deadline())
        self._skipped += 1
        if self._stopping or self._skipped > self.poll_skip_ticks or self._has_skipped_too_long():
            return self._poll(0.0)
        # A timer set with no delay is due by the time that was read when it was set: no need to read it again.
        self._collect_due(self._time_read)
        return _NO_EVENTS

    def _finish_tick(self) -> None:
        try:
            if self._attention & _WATCHING_TICKS:
                self._process_watched()
                return
            self._run_pending()
            if self._events:
                self._run_io()
            if self._immediates or self._has_phase_callbacks:
                self._run_check()
            if self._due:
                self._run_timers()
            if self._flushes or self._closing:
                self._run_close()
        except (SystemExit, KeyboardInterrupt):
            self._put_off_timers()
            raise
        except BaseException as exc:
            # No Runnable may raise; asyncio, too, reports the RuntimeError of a context that is entered already.
            self._put_off_timers()
            self.call_exception_handler({"message": "Exception in a tick of the loop", "exception": exc})

    def _put_off_timers(self) -> None:
        # The tick ends early. Its timers are not due again by themselves; its events are.
        for timer in self._due:
            self.ready.push(timer)
        self._due = []

    def _process_watched(self) -> None:
        try:
            for phase in _AFTER_THE_WAIT:
                self.probes.fire("loopcore_phase_begin", self, phase)
                self.probes.fire("loopcore_phase_end", self, phase, self._run_phase(phase))
        finally:
            self.probes.fire("loopcore_tick_end", self)

    def _run_phase(self, phase: str) -> int:
        if phase == phases.PENDING:
            return self._run_pending()
        if phase == phases.IO:
            return self._run_io()
        if phase == phases.CHECK:
            return self._run_check()
        if phase == phases.TIMERS:
            return self._run_timers()
        return self._run_close()

    # Idle, prepare, poll

    def _has_work(self) -> bool:
        if len(self.ready) or self._urgent_pending or self._immediates or self._flushes or self._closing:
            return True
        return len(self.inbox) > 0 or (self._has_phase_callbacks and bool(self.phase_callbacks.live(phases.IDLE)))

    def _has_skipped_too_long(self) -> bool:
        # Reading the clock can cost as much as a callback (140 ns where the kernel has no user-space clock), so it
        # is read in the ticks 1, 2 and 4 without a poll and then in every eighth: long ticks show at once.
        if self._skipped % _CLOCK_TICKS and self._skipped & (self._skipped - 1):
            return False
        now = self._now()
        if self._skipped == 1:
            self._skipping_since = now
            return False
        return now - self._skipping_since >= self.poll_skip_time

    def _time_to_deadline(self) -> float:
        """Return how long the wait may take, in seconds; below zero for without limit."""
        if self._stopping:
            return 0.0
        deadline = self.timers.next_deadline()
        if deadline == _NEVER:
            return -1.0
        return min(max(deadline - self._now(), 0.0), LONGEST_WAIT)

    def _poll(self, timeout: float) -> Sequence[ReadyEvent]:
        wait_for = None if timeout < 0.0 else timeout
        self._waiting = True  # for other threads; an interruption leaves it up until the next wait, which is soon
        if self._attention & _WATCHING_TICKS:
            events = self._poll_watched(wait_for)
        else:
            events = self.backend.wait(wait_for)
        self._waiting = False
        self._skipped = 0
        self.readiness.tick += 1
        if self.timers.earliest != _NEVER:
            self._collect_due(self._now())
        return events

    def _poll_watched(self, timeout: float | None) -> Sequence[ReadyEvent]:
        self.probes.fire("loopcore_phase_begin", self, phases.POLL)
        self.probes.fire("loopcore_poll_begin", self, timeout)
        before = time.perf_counter_ns()
        events = self.backend.wait(timeout)
        waited_ns = time.perf_counter_ns() - before
        self.probes.fire("loopcore_poll_end", self, len(events), waited_ns)
        self.probes.fire("loopcore_phase_end", self, phases.POLL, len(events))
        return events

    def _collect_due(self, now: float) -> None:
        # What is due within one step of the clock is due now: waiting for it would be a wait of zero.
        if self.timers.earliest < now + self._clock_resolution:
            due = self.timers.pop_due(now + self._clock_resolution)
            # Added to, not replaced: a host may have left out `process_ready`, a callback may tick by itself.
            self._due = self._due + due if self._due else due

    def _run_phase_callbacks(self, phase: str) -> int:
        watched = self._attention & _WATCHING_TICKS and phase != phases.CHECK
        if watched:
            self.probes.fire("loopcore_phase_begin", self, phase)
        handles = self.phase_callbacks.live(phase)
        self._has_phase_callbacks = bool(self.phase_callbacks)
        for handle in handles:
            self._run_one(handle)
        if watched:
            self.probes.fire("loopcore_phase_end", self, phase, len(handles))
        return len(handles)

    # Pending, io, check, timers, close: each returns how many callbacks it ran

    def _run_pending(self) -> int:
        # Also when only the flag is up: its owner lost the race for the handle, which the last tick has taken.
        if len(self.inbox) or self.inbox._woken:
            self._empty_inbox()
        if self._urgent_pending:
            self._run_urgent()
        count = len(self.ready)
        for _ in range(count):
            runnable = self.ready.pop()
            if runnable is None:
                break  # a callback ran the loop itself, or closed it
            # `_run_one`, written out: this is where a loop spends its time.
            if self._attention & (_DEBUG | _WATCHING_HANDLES):
                run_watched(self, runnable)
            else:
                runnable._run()
            if self._urgent_pending:
                self._run_urgent()
        runnable = None  # interpreted, an error that lives on keeps this frame, and it a task that has ended
        return count

    def _run_io(self) -> int:
        events = self._events
        self._events = _NO_EVENTS
        tick = self.readiness.tick
        count = 0
        for fd, bits in events:
            entry = self.readiness.lookup(fd)
            if entry is None:
                continue
            if bits & _READABLE and entry.reader is not None and entry.reader_tick != tick:
                self._run_one(entry.reader)
                count += 1
            if bits & _WRITABLE and entry.writer is not None and entry.writer_tick != tick:
                self._run_one(entry.writer)
                count += 1
        return count

    def _run_check(self) -> int:
        immediates = self._immediates
        self._immediates = []
        return self._run_batch(immediates) + self._run_phase_callbacks(phases.CHECK)

    def _run_timers(self) -> int:
        due = self._due
        self._due = []
        return self._run_batch(due)

    def _run_close(self) -> int:
        self._run_flushes()
        return self._run_closing()

    def _run_flushes(self) -> None:
        flushes = self._flushes
        self._flushes = []
        try:
            self._run_batch(flushes)
        except BaseException:
            self._flushes = flushes + self._flushes  # to run one again that has run does nothing
            raise

    def _run_closing(self) -> int:
        closing = self._closing
        self._closing = []
        count = 0
        for resource in closing:
            count += 1
            try:
                resource.close()
            except (SystemExit, KeyboardInterrupt):
                self._closing = closing[count:] + self._closing
                raise
            except BaseException as exc:
                self.call_exception_handler({"message": f"Closing {resource!r} failed", "exception": exc})
        return count

    def _run_batch(self, batch: list[Any]) -> int:
        position = 0
        try:
            for runnable in batch:
                position += 1
                self._run_one(runnable)
        except BaseException:
            for runnable in batch[position:]:
                self.ready.push(runnable)
            raise
        return position

    def _run_one(self, runnable: Runnable) -> None:
        if self._attention & (_DEBUG | _WATCHING_HANDLES):
            run_watched(self, runnable)
        else:
            runnable._run()
        if self._urgent_pending:
            self._run_urgent()

    def _run_urgent(self) -> None:
        left = self.urgent.budget
        while left > 0:
            handle = self.urgent.pop()
            if handle is None:
                self._urgent_pending = False
                return
            left -= 1
            if self._attention & (_DEBUG | _WATCHING_HANDLES):
                run_watched(self, handle)
            else:
                handle._run()
        if len(self.urgent) == 0:
            self._urgent_pending = False
            return
        self.starvations += 1
        report_starvation(self)
