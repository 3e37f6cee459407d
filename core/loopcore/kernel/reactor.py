"""The reactor: the tick that empties the queues, and the wait in its middle.

**The work of a tick is fixed at the moment the wait returns**: the callbacks that are ready, the events, the timers
that are due. Callbacks that these schedule belong to the next tick. From that sentence follow asyncio's order (ready
callbacks, then I/O, then timers) and Node's (an immediate set in an I/O callback precedes a zero-delay timer).
docs/reference/tick.md lists the eight phases.

A tick is three public steps, so that another loop can host it: `poll_events` (idle, prepare, poll), `process_events`
(takes over the events of the wait), `process_ready` (pending, io, check, timers, close). During the first and the last
step this loop is the running loop of the thread.

Skipping the poll: a wait costs a system call, and while callbacks are ready it could only look, not block.

- While no descriptor is watched a poll cannot find an event. It is skipped for at most `poll_skip_ticks` ticks in a
  row, or fewer when the clock, read in the first, second, fourth and every eighth of them, shows that `poll_skip_time`
  seconds have passed.
- While descriptors are watched, programs count ticks: asyncio polls in each, and a byte that is in a socket reaches its
  protocol two `sleep(0)` later. So only one tick skips the poll, the one after a wait that began with nothing to do:
  the callbacks that run in it are those that the wait's events and timers have scheduled. Even that tick polls if a
  registration has changed since the wait.

The first tick of a run always polls, and so does one that begins after `stop_ticks`.
docs/adr/0003-order-of-a-tick-polls-and-clock.md
"""

import threading
import time
from collections.abc import Sequence
from typing import Any

from loopcore.backend import ReadinessBackend
from loopcore.clock import Clock, MonotonicClock
from loopcore.completion import CompletionBackend, is_completion_backend
from loopcore.kernel import flags, phases
from loopcore.kernel.handle import Handle
from loopcore.kernel.limits import CLOCK_TICKS, LONGEST_WAIT, POLL_SKIP_TICKS, POLL_SKIP_TIME
from loopcore.kernel.loop_stats import LoopStatsSnapshot, take_loop_stats
from loopcore.kernel.meter import CallbackSampler, Meter
from loopcore.kernel.policies import PolicyDispatcher
from loopcore.kernel.probes import Probes, as_timeout
from loopcore.kernel.registry import as_running_loop

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.interpreter import get_ident
    from cython.cimports.loopcore.direct import how_many, wait_in
    from cython.cimports.loopcore.kernel.reactor import is_at_rest
else:
    from threading import get_ident

_CLOSED, _IDLE, _WATCHING_TICKS = flags.CLOSED, flags.IDLE, flags.WATCHING_TICKS

_NEVER = float("inf")
_CLOCK_TICKS = CLOCK_TICKS
_IDLE_PHASE, _PREPARE_PHASE = 0, 1
_NO_EVENTS: Sequence[Any] = ()


class Reactor(PolicyDispatcher):
    """A complete small loop over a backend: queues, timers, readiness and the tick. Thread: its own."""

    __slots__ = (
        "backend", "_port", "poll_skip_ticks", "poll_skip_time", "_poll_observed", "_shortens_waits",
        "_stopping", "_rested", "_skipping_since", "_clock_resolution",
    )  # fmt: skip

    def __init__(
        self,
        backend: "ReadinessBackend | CompletionBackend",
        *,
        clock: Clock | None = None,
        probes: Probes | None = None,
    ) -> None:
        clock = MonotonicClock() if clock is None else clock
        PolicyDispatcher.__init__(self, backend, clock, Probes() if probes is None else probes)
        self.backend: Any = backend
        """The ReadinessBackend or CompletionBackend in which the loop waits."""
        self._port: Any = backend if self.completions is None else self.completions
        self.poll_skip_ticks: int = POLL_SKIP_TICKS
        self.poll_skip_time: float = POLL_SKIP_TIME
        self._poll_observed: bool = False
        self._shortens_waits: bool = False
        self._stopping: bool = False
        self._rested: bool = False  # the last wait began with nothing to do
        self._skipping_since: float = 0.0
        self._clock_resolution: float = clock.resolution
        if probes is not None and probes.plugins():
            self._note_plugins()

    # Life

    def run_ticks(self) -> None:
        """Tick until `stop_ticks` is called. Raises what a callback raised if that was SystemExit or KeyboardInterrupt.

        No callback is lost then: those that have not run yet stay in the queue.
        """
        try:
            self._thread_id = threading.get_ident()
            self._owner = get_ident()
            self._slow_path_flags &= ~_IDLE
            self._skipped = self.poll_skip_ticks
            if self._sampler is not None:
                self._sampler.resume()
            self.probes.cold("loopcore_run_started", loop=self)
            with as_running_loop(self):
                while True:
                    self._events = self._begin_tick()
                    self._finish_tick()
                    if self._stopping:
                        break
            if self.completions is not None:
                self.completions.begin()
        except BaseException:
            if self.completions is not None:
                self.completions.begin_at_once(self.call_exception_handler)
            raise
        finally:
            self._stopping = False
            self._deferred_events = None  # they are reported again
            try:
                if self._leave_deferred:
                    self._leave_current_task()
            finally:
                self._rest()
            if self._sampler is not None:
                self._sampler.pause()
            self.probes.cold("loopcore_run_stopped", loop=self)

    def stop_ticks(self) -> None:
        """Make the current tick the last of this run; between two ticks, the next one."""
        self._stopping = True

    def flush(self) -> None:
        """Send the data written in this tick now, not at its end."""
        if self._flushes:
            self._run_flushes()
        if self.completions is not None:
            self.completions.begin()

    def close_scheduler(self) -> None:
        """Drop the queued callbacks, close the resources of `close_soon`, release the backend. Idempotent."""
        if self._slow_path_flags & _CLOSED:
            return
        try:
            self.flush()  # written data is sent: asyncio would have sent it at once
        finally:
            self._set_slow_path_flag(_CLOSED, True)
            try:
                if self._closing:
                    self._run_closing()
            finally:
                self._drop_all()

    def _drop_all(self) -> None:
        self._order = None
        self.inbox.discard()
        if self.ready._count:
            for runnable in self.ready.take():
                if isinstance(runnable, Handle):
                    runnable.cancel()  # another thread may hold the handle, and can ask whether it will ever run
            self.ready.clear()
        self.timers.clear()
        self.microtasks.clear()
        if self._has_phase_callbacks:
            self.phase_callbacks.clear()
        self._immediates.clear()
        self._flushes.clear()
        self._due.clear()
        self.readiness.clear()
        if self._sampler is not None:
            self._stop_measuring()
        (self.backend if self.completions is None else self.completions).close()
        self.probes.cold("loopcore_loop_closed", loop=self)

    def use_backend(self, backend: "ReadinessBackend | CompletionBackend") -> None:
        """Wait in `backend`, which has the same kind of port as the previous one; that one is closed."""
        self.backend = backend
        if is_completion_backend(backend):
            self.completions.backend = backend
        else:
            self._port = backend
            self.readiness.use(backend)  # type: ignore[arg-type]  # mypy does not know that it is the other one
        self.inbox.use(backend.wake)

    # The tick

    def tick(self) -> None:
        """Run the eight phases once."""
        self._demand_init()
        with as_running_loop(self):
            self._events = self._begin_tick()
            self.process_ready()

    def poll_events(self) -> Sequence[Any]:
        """Run the phases idle, prepare and poll; return the events of the wait, which must go to `process_events`."""
        self._demand_init()
        with as_running_loop(self):
            events: Sequence[Any] = self._begin_tick()
        return events

    def process_events(self, events: Sequence[Any]) -> None:
        """Take the events that `poll_events` returned; after this the work of the tick is fixed."""
        self._events = events if isinstance(events, list) else (list(events) or _NO_EVENTS)

    def process_ready(self) -> None:
        """Run the phases pending, io, check, timers and close."""
        self._demand_init()
        with as_running_loop(self):
            self._finish_tick()
            if self._leave_deferred:
                self._leave_current_task()

    def _demand_init(self) -> None:
        if cython.compiled and self.probes is None:
            raise AttributeError(f"{type(self).__name__}.__init__() has not run")

    @cython.nonecheck(False)  # type: ignore[untyped-decorator]
    def _begin_tick(self) -> Any:
        if self._tick_observed or self._has_phase_callbacks:
            if self._slow_path_flags & _WATCHING_TICKS:
                self.probes.fire("loopcore_tick_begin", self)
            self._run_phase_observed(_IDLE_PHASE)
            self._run_phase_observed(_PREPARE_PHASE)
        if cython.compiled and is_at_rest(self):
            return self._poll(-1.0)
        if not self._has_work():
            if self._leave_deferred:
                self._leave_current_task()
            timeout = self._time_to_deadline()
            # Both may drop the last reference to an object, whose finalizer may schedule work.
            return self._poll(0.0 if self._has_work() else timeout)
        self._skipped += 1
        events, self._deferred_events = self._deferred_events, None
        if self._stopping or (events is None and self._polls_now()):
            return self._poll(0.0)
        self.stats.polls_skipped += 1
        if self.timers.earliest != _NEVER:  # a timer without delay is due by the time that was read when it was set
            self._collect_due(self._time_read)
        return _NO_EVENTS if events is None else events

    # Idle, prepare, poll

    @cython.nonecheck(False)  # type: ignore[untyped-decorator]
    def _has_work(self) -> bool:
        # First the calls that run Python code, in which a signal handler or a finalizer may schedule work.
        if self._has_phase_callbacks and self.phase_callbacks.has(phases.IDLE):
            return True
        if self.inbox._woken or self._deferred_events is not None or (self._order is not None and len(self._order)):
            return True
        return bool(self.ready._count or self._microtasks_pending or self._immediates or self._flushes or self._closing)

    @cython.nonecheck(False)  # type: ignore[untyped-decorator]
    def _polls_now(self) -> bool:
        if self._skipped > self.poll_skip_ticks or (self.completions is not None and self.completions.submitted):
            return True  # submitted operations begin with the wait
        if self.readiness._table if self.completions is None else self.completions.is_used:
            return self._skipped > 1 or not self._rested or self.readiness.changed
        # Reading the clock can cost as much as a callback (140 ns without a user-space clock), so it is read in the
        # ticks 1, 2 and 4 without a poll and then in every eighth: long ticks are noticed at once.
        if self._skipped % _CLOCK_TICKS and self._skipped & (self._skipped - 1):
            return False
        now = self._now()
        if self._skipped == 1:
            self._skipping_since = now
            return False
        return now - self._skipping_since >= self.poll_skip_time

    def _time_to_deadline(self) -> float:
        """Return how long the wait may take, in seconds; negative for no limit."""
        if self._stopping:
            return 0.0
        deadline = self.timers.next_deadline()
        if deadline == _NEVER:
            return -1.0
        return min(max(deadline - self._now(), 0.0), LONGEST_WAIT)

    def _poll(self, timeout: float) -> Any:
        if self._leave_deferred:
            self._leave_current_task()
        self._waiting = True  # for other threads; an interruption leaves it set until the next wait, which is soon
        self._rested = timeout != 0.0
        self.readiness.changed = False  # before the wait: a signal handler may register a descriptor in it
        if self._poll_observed:
            events = self._poll_as_observed(timeout)
        elif self._sampler is not None:
            events = self._poll_measured(timeout)
        else:
            events = self._wait(timeout)
        self._waiting = False
        self._skipped = 0
        self.readiness.tick += 1
        self.stats.events += how_many(events) if cython.compiled else len(events)
        if self.timers.earliest != _NEVER:
            # A meter has just read the clock.
            self._collect_due(self._now() if self._sampler is None or not self._native_clock else self._time_read)
        return events

    def _wait(self, timeout: float) -> Any:
        wait_for = None if timeout < 0.0 else timeout
        if self.completions is not None:
            return self.completions.wait(wait_for)
        return wait_in(self._port, wait_for) if cython.compiled else self._port.wait(wait_for)

    def _poll_as_observed(self, timeout: float) -> Any:
        if self._shortens_waits and timeout != 0.0:
            timeout = self._as_it_is_now(self._shorten(timeout))
        if not self._slow_path_flags & _WATCHING_TICKS:
            return self._poll_measured(timeout)
        self.probes.fire("loopcore_phase_begin", self, phases.POLL)
        self.probes.fire("loopcore_poll_begin", self, None if timeout < 0.0 else timeout)
        timeout = self._as_it_is_now(timeout)
        before = time.perf_counter_ns()
        events = self._poll_measured(timeout)
        waited_ns = time.perf_counter_ns() - before
        self.probes.fire("loopcore_poll_end", self, len(events), waited_ns)
        self.probes.fire("loopcore_phase_end", self, phases.POLL, len(events))
        return events

    def _shorten(self, timeout: float) -> float:
        proposed = None if timeout < 0.0 else timeout
        wanted = self.probes.ask("loopcore_poll_timeout", self, proposed, convert=as_timeout)
        return timeout if wanted is None or 0.0 <= timeout < wanted else wanted

    def _as_it_is_now(self, timeout: float) -> float:
        """Return `timeout`, or less: a hook has run, and may have scheduled work."""
        sooner = self._time_to_deadline()  # first: it may run a finalizer that schedules work, too
        timeout = 0.0 if self._has_work() else timeout
        return sooner if timeout < 0.0 or 0.0 <= sooner < timeout else timeout

    def _poll_measured(self, timeout: float) -> Any:
        sampler = self._sampler
        if sampler is None:
            return self._wait(timeout)
        # Checked twice: before the wait, so that posts of other threads during the wait are stamped; after it, because
        # the wait may have been longer than the pause between two windows, and its callbacks would never be measured.
        # With a timer set, the clock was read just now, to compute the timeout.
        was_read = timeout != 0.0 and self._native_clock and self.timers.earliest != _NEVER
        sampler.wait_begins(timeout != 0.0, self._time_read if was_read else 0.0)
        if sampler.is_due:
            self._open_window()
        events = self._wait(timeout)
        if self._sampler is not sampler:
            return events  # a signal handler has stopped the meter during the wait
        now = sampler.wait_ends()
        if self._native_clock:
            self._time_read = now
        if sampler.is_due:
            self._open_window()
        return events

    def _open_window(self) -> None:
        self._sampler.open()
        self._set_window(True)

    def _collect_due(self, now: float) -> None:
        # A timer that is due within one step of the clock is due now: waiting for it would be a wait of zero.
        if self.timers.earliest < now + self._clock_resolution:
            if self._leave_deferred:
                self._leave_current_task()  # dropping a cancelled timer may run a finalizer that looks
            due = self.timers.pop_due(now + self._clock_resolution)
            self.stats.timers_fired += len(due)
            if self._sampler is not None:
                for timer in due:
                    self._sampler.note_late(now - timer._when)
            # Added to, not replaced: a host may have left out `process_ready`, a callback may run a nested tick.
            self._due = self._due + due if self._due else due

    # Figures

    def counters(self) -> LoopStatsSnapshot:
        """Return the loop's counters so far. Thread: any; `loopcore.kernel.loop_stats` states the guarantees then."""
        return take_loop_stats(self)

    def meter(self, window: float = 0.001) -> Meter:
        """Measure the loop's time until `stop` of the returned meter is called, or the loop is closed.

        Every `window` seconds some callbacks are timed one by one; with 0 all are, at a higher cost. Raises UsageError
        if `window` is not such a number, RuntimeError if the loop is closed.
        """
        self._check_closed()
        self._check_caller()
        sampler = CallbackSampler() if self._sampler is None else self._sampler
        meter: Meter = sampler.lend(window, self._give_back)
        if self._sampler is None:
            self._sampler = sampler
            if self._thread_id is not None:
                sampler.resume()
                self._skipped = self.poll_skip_ticks  # the next tick polls, and opens the first window
            self._note_observers()
        return meter

    def _give_back(self, meter: Meter) -> None:
        if self._sampler is not None and self._sampler.take_back(meter):
            self._stop_measuring()

    def _stop_measuring(self) -> None:
        self._sampler.pause()
        self._set_timing(False)
        self._sampler.close()
        self._set_window(False)
        self._sampler = None
        self._note_observers()

    def _note_observers(self) -> None:
        PolicyDispatcher._note_observers(self)
        self._shortens_waits = self.probes.owner("loopcore_poll_timeout") is not None
        self._poll_observed = self._shortens_waits or bool(self._slow_path_flags & _WATCHING_TICKS)

    def _note_plugins(self) -> None:
        if self._thread_id is None or self._thread_id == threading.get_ident():
            PolicyDispatcher._note_plugins(self)
            self._note_policies()
        else:
            self.call_soon_threadsafe(self._note_plugins)  # a plugin has raised in a thread of a pool
