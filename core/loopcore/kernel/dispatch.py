"""Dispatch: the half of a tick in which callbacks run, from the pending to the close phase.

The reactor has the other half, which computes the timeout and waits. Five phases are here: pending, io, check, timers,
close (docs/reference/tick.md). Two flags make sure that a loop pays for observers only while it has some: `_observed`,
tested before each callback, and `_tick_observed`, tested once a tick.
"""

from collections.abc import Sequence
from typing import Any

from loopcore.backend import ReadinessBackend
from loopcore.clock import Clock
from loopcore.completion import CompletionBackend, is_completion_backend
from loopcore.interest import ERROR, HANGUP, READ, WRITE
from loopcore.kernel import flags, phases, sources
from loopcore.kernel.completions import Completions
from loopcore.kernel.current import TaskQueues
from loopcore.kernel.handle import TimerHandle
from loopcore.kernel.limits import FLUSH_LIMIT, RECEIVE_BUDGET, RECEIVE_LIMIT
from loopcore.kernel.probes import Probes
from loopcore.kernel.readiness import Readiness
from loopcore.kernel.runnable import Runnable
from loopcore.kernel.watch import report_starvation, run_watched
from loopcore.operations import Operation

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.direct import listed
    from cython.cimports.loopcore.kernel.current import goes_with_the_next
    from cython.cimports.loopcore.kernel.dispatch import (
        defer_events,
        is_pending,
        run_event,
        try_phases,
    )
    from cython.cimports.loopcore.native.cpython import raise_pending
    from cython.cimports.loopcore.native.ring import empty

_RECEIVE_BUDGET, _NO_BUDGET = RECEIVE_BUDGET, 1 << 62
_DEBUG, _WATCHING_HANDLES, _WATCHING_TICKS = flags.DEBUG, flags.WATCHING_HANDLES, flags.WATCHING_TICKS
_READ, _READABLE, _WRITABLE = READ, READ | ERROR | HANGUP, WRITE | ERROR | HANGUP
_NEXT_TICK, _MICROTASK, _PHASE = sources.NEXT_TICK, sources.MICROTASK, sources.PHASE
_READY, _FLUSH = sources.READY, sources.FLUSH
_SOURCES = (_READY, sources.IO, sources.IMMEDIATE, sources.TIMER, _FLUSH)  # of the phases from pending to close

_NAMES = phases.PHASES  # a phase is identified by its index here, without comparing strings
_PENDING_PHASE, _IO_PHASE, _CHECK_PHASE, _TIMERS_PHASE, _CLOSE_PHASE = 3, 4, 5, 6, 7
_NO_EVENTS: Sequence[Any] = ()


class Dispatcher(TaskQueues):
    """The phases that a tick runs after its wait. Thread: the loop's own."""

    __slots__ = (
        "readiness", "completions", "starvations", "flush_limit", "receive_limit", "_tick_observed", "_source",
        "_events", "_deferred_events", "_due", "_spare", "_current_handle",
    )  # fmt: skip

    def __init__(self, backend: "ReadinessBackend | CompletionBackend", clock: Clock, probes: Probes) -> None:
        TaskQueues.__init__(self, backend.wake, clock, probes)
        self.completions: Any = None
        """The Completions of a completion port; None over a readiness port."""
        if is_completion_backend(backend):
            self.completions = Completions(backend)
            self.readiness: Readiness = Readiness(self.completions.polls)
        else:
            self.readiness = Readiness(backend)  # type: ignore[arg-type]  # mypy does not know that it is the other one
        self.starvations: int = 0
        """How often the next-tick and microtask queues used up their budget."""
        self.flush_limit: int = FLUSH_LIMIT
        """Bytes that may be held back until the end of the tick, over all transports."""
        self.receive_limit: int = RECEIVE_LIMIT
        """Bytes that one receive of a stream over a readiness port takes at most; RECEIVE_LIMIT if out of range."""
        self._tick_observed: bool = False
        self._source: int = _READY
        self._events: Sequence[Any] = _NO_EVENTS  # (fd, bits) of each, or (operation, result, more)
        self._deferred_events: list[Any] | None = None  # events for the next tick, which then does not poll
        self._due: list[TimerHandle] = []
        self._spare: list[Runnable] | None = None  # compiled: it alternates with `_flushes`, and keeps its capacity
        self._current_handle: Runnable | None = None
        """The callback that runs now, while it is observed. Debug mode's reports say where it was created."""

    def _finish_tick(self) -> int:
        if cython.compiled and not try_phases(self):
            return 0
        try:
            raise_pending() if cython.compiled else run_phases(self)
        except BaseException as exc:
            self._steps_task = False
            self._defer_timers()
            if isinstance(exc, (SystemExit, KeyboardInterrupt)):
                raise
            if self._leave_deferred:
                self._leave_current_task()
            # A Runnable must not raise. asyncio, too, reports the RuntimeError of a context that is already entered.
            self.call_exception_handler({"message": "Exception in a tick of the loop", "exception": exc})
        return 0

    def _defer_timers(self) -> None:
        # The tick ends early. Its timers would not become due again; its events are reported again.
        for timer in self._due:
            self.ready.push(timer)
        self._due = []

    def _process_observed(self) -> None:
        outer, outer_timing = self._source, self._timing  # a callback may run a nested tick
        if self._window_is_open:
            self._set_timing(self._sampler.tick_begins())
        try:
            for phase in range(_PENDING_PHASE, _CLOSE_PHASE + 1):
                self._run_phase_observed(phase)
        finally:
            self._source = outer
            if self._window_is_open and self._sampler.tick_ends():
                self._sampler.close()
                self._set_window(False)
            self._set_timing(outer_timing and self._window_is_open)
            if self._slow_path_flags & _WATCHING_TICKS:
                self.probes.fire("loopcore_tick_end", self)

    def _run_phase_observed(self, phase: int) -> None:
        if self._slow_path_flags & _WATCHING_TICKS:
            self.probes.fire("loopcore_phase_begin", self, _NAMES[phase])
            self.probes.fire("loopcore_phase_end", self, _NAMES[phase], self._run_phase(phase))
        else:
            self._run_phase(phase)

    def _run_phase(self, phase: int) -> int:
        if phase < _PENDING_PHASE:
            return self._run_phase_callbacks(phase)
        self._source = _SOURCES[phase - _PENDING_PHASE]
        if phase == _PENDING_PHASE:
            return self._run_pending()  # type: ignore[no-any-return]
        if phase == _IO_PHASE:
            return self._run_io()
        if phase == _CHECK_PHASE:
            return self._run_check()
        if phase == _TIMERS_PHASE:
            return self._run_timers()
        self._run_flushes()
        return self._run_closing()

    def _run_phase_callbacks(self, phase: int) -> int:
        if not self._has_phase_callbacks:
            return 0
        handles = self.phase_callbacks.live(_NAMES[phase])
        self._has_phase_callbacks = bool(self.phase_callbacks)
        outer, self._source = self._source, _PHASE
        for handle in handles:
            self._run_one(handle)
        self._source = outer
        return len(handles)

    # Pending, io, check, timers, close: each returns how many callbacks it ran

    @cython.nonecheck(False)  # type: ignore[untyped-decorator]
    def _run_pending(self) -> int:
        # May be spurious: the previous tick may have drained this post before the poster set the flag.
        if self.inbox._woken:
            self._empty_inbox()
        if self._microtasks_pending:
            self._run_microtasks()
        count = self.ready._count
        for _ in range(count):
            runnable = self.ready.pop()
            if runnable is None:
                break  # a callback has run the loop itself, or closed it
            # `_run_one`, inlined: this is where a loop spends its time.
            self.stats.callbacks = self.stats.callbacks + 1
            self._steps_task = type(runnable) is self._task_type and not self._observed
            if self._leave_deferred and (not self._steps_task or goes_with_the_next(self)):
                self._leave_current_task()
            if self._observed:
                self._run_observed(runnable, self._source)
            else:
                runnable._run()
            runnable = None  # what goes with it may schedule
            if self._microtasks_pending:
                self._run_microtasks()
            if self.unflushed > self.flush_limit:
                self._flush_early()
        return count

    def _run_io(self) -> int:
        events, self._events = self._events, _NO_EVENTS
        if self.completions is not None:
            return self._run_completions(events)
        tick = self.readiness.tick
        count = 0
        told = listed(events) if cython.compiled else events
        # while callbacks are ready, no event is deferred
        enough = _NO_BUDGET if self.ready._count else self.bytes_received + _RECEIVE_BUDGET
        for position, event in enumerate(told, 1):
            count += run_event(self, event, tick) if cython.compiled else self._run_ready(*event, tick)  # type: ignore[call-arg]
            if self.unflushed > self.flush_limit:
                self._flush_early()
            if cython.compiled and self.bytes_received >= enough and self.ready._count:
                count += defer_events(self, told, position, tick)
                break
        return count

    def _run_ready(self, fd: int, bits: int, tick: int) -> int:
        entry = self.readiness.lookup(fd)
        if entry is None:
            return 0
        count = 0
        # Not readers and writers that were registered in this tick, or in a nested tick of one of its callbacks.
        if bits & _READABLE and entry.reader is not None and entry.reader_tick < tick:
            self._run_one(entry.reader)
            count += 1
        if bits & _WRITABLE and entry.writer is not None and entry.writer_tick < tick:
            self._run_one(entry.writer)
            count += 1
        return count

    def _run_completions(self, events: Sequence[Any]) -> int:
        tick = self.readiness.tick
        count = position = 0
        told = listed(events) if cython.compiled else events
        if told:  # else this tick did not wait, and the last wait's completions are still due
            self.completions.handed = None
        try:
            for operation, result, more in told:
                position += 1
                count += self._run_completion(operation, result, more, tick)
                if self.unflushed > self.flush_limit:
                    self._flush_early()
        except BaseException:
            # Unlike readiness, a completion is reported only once.
            self.completions.late.extend(told[position:])
            raise
        return count

    def _run_completion(self, operation: Operation, result: Any, more: bool, tick: int) -> int:
        operation.result, operation.pending = result, more
        if operation.target is not None:
            self._run_one(operation.target)
            return 1
        return self._run_ready(operation.fd, self.completions.polls.take(operation), tick)

    def _run_check(self) -> int:
        immediates, self._immediates = self._immediates, []
        position = 0
        try:
            for runnable in immediates:
                position += 1
                self._run_one(runnable)
        except BaseException:
            for runnable in immediates[position:]:
                self.ready.push(runnable)
            raise
        return position + self._run_phase_callbacks(_CHECK_PHASE)

    def _run_timers(self) -> int:
        due: list[Any] = self._due
        self._due = []
        try:
            for position in range(len(due)):
                runnable = due[position]
                due[position] = None  # freed as soon as it has run, not after thousands of others
                self._run_one(runnable)
        except BaseException:
            for runnable in due:
                if runnable is not None:
                    self.ready.push(runnable)
            raise
        runnable = None  # or a traceback keeps what ran
        return len(due)

    def _flush_early(self) -> None:
        """Flush between two callbacks the writes held back for the end of the tick: they have become too large."""
        outer, self._source = self._source, _FLUSH
        self._run_flushes()
        self._source = outer

    def _run_flushes(self) -> None:
        self.unflushed = 0
        flushes = self._flushes
        self._flushes = [] if self._spare is None else self._spare
        self._spare = None  # not reused until the flushes have run: a callback may flush, too
        try:
            for runnable in flushes:
                self._run_one(runnable)
        except BaseException:
            self._flushes = flushes + self._flushes  # running one of them a second time does nothing
            raise
        if cython.compiled:
            empty(flushes)
            self._spare = flushes

    def _run_closing(self) -> int:
        closing, self._closing = self._closing, []
        if self._leave_deferred:
            self._leave_current_task()
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

    def _run_one(self, runnable: Runnable) -> None:
        self.stats.callbacks = self.stats.callbacks + 1  # compiled, `+=` takes a reference first
        if cython.compiled and self._leave_deferred:
            self._leave_current_task()
        if self._observed:
            self._run_observed(runnable, self._source)
        else:
            runnable._run()
        if self._microtasks_pending:
            self._run_microtasks()

    def _run_microtasks(self) -> None:
        if cython.compiled and self._leave_deferred:
            self._leave_current_task()
        left = self.microtasks.budget
        while left > 0:
            handle = None  # before the queue counts as empty: a finalizer that this runs may schedule work
            handle = self.microtasks.pop()
            if handle is None:
                self._microtasks_pending = False
                return
            left -= 1
            self.stats.callbacks += 1
            if self._observed:
                self._run_observed(handle, _MICROTASK if self.microtasks._at_microtasks else _NEXT_TICK)
            else:
                handle._run()
        self._microtasks_pending = len(self.microtasks) > 0
        if self._microtasks_pending:
            self.starvations += 1
            report_starvation(self)

    # While the loop is observed

    def _run_observed(self, runnable: Runnable, source: int) -> None:
        if self._timing:
            sampler = self._sampler
            began_at = sampler.begin(runnable, source)
            source = sampler.source
            self._run_watched(runnable)
            if began_at:
                seconds = sampler.end(began_at, source) / 1e9
                if seconds >= self.slow_callback_duration and not self._slow_path_flags & _DEBUG:
                    self.probes.cold("loopcore_slow_callback", loop=self, runnable=runnable, seconds=seconds)
            if sampler.is_spent():
                self._set_timing(False)
        else:
            self._run_watched(runnable)
        runnable = None  # type: ignore[assignment]  # or a traceback keeps what ran

    def _run_watched(self, runnable: Runnable) -> None:
        if self._slow_path_flags & (_DEBUG | _WATCHING_HANDLES):
            run_watched(self, runnable)
        else:
            runnable._run()
        runnable = None  # type: ignore[assignment]  # or a traceback keeps what ran

    def _set_window(self, is_open: bool) -> None:
        self._window_is_open = is_open
        self.ready.report_to(self._sampler if is_open else None)
        self._note_observers()

    def _note_observers(self) -> None:
        TaskQueues._note_observers(self)
        self._tick_observed = self._window_is_open or bool(self._slow_path_flags & _WATCHING_TICKS)


@cython.nonecheck(False)  # type: ignore[untyped-decorator]
def run_phases(dispatcher: Dispatcher) -> int:
    """Run the phases from pending to close."""
    if dispatcher._tick_observed:
        dispatcher._process_observed()
        return 0
    if not cython.compiled or is_pending(dispatcher):
        dispatcher._run_pending()
    if dispatcher._events is not _NO_EVENTS:
        dispatcher._run_io()
    if dispatcher._immediates or dispatcher._has_phase_callbacks:
        dispatcher._run_check()
    if dispatcher._due:
        dispatcher._run_timers()
    if dispatcher._flushes:
        dispatcher._run_flushes()
    if dispatcher._closing:
        dispatcher._run_closing()
    return 0
