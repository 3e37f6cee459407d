"""The tick of a loop that is observed: by debug mode, an observer, a plugin with hooks of ticks or callbacks, a policy.

Separate from the tick itself, so that a loop without observers runs the same code as if this module did not exist.
"""

import asyncio
import time
from typing import TYPE_CHECKING, Any

from loopcore.hooks import observer, sources
from loopcore.kernel import phases
from loopcore.kernel.flags import SlowPath
from loopcore.kernel.handle import Handle
from loopcore.kernel.observers import Observers
from loopcore.kernel.probes import as_timeout
from loopcore.kernel.runnable import Runnable
from loopcore.kernel.running import CallbackRunner
from loopcore.log import logger

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.kernel.tick import (
        has_work,
        run_check,
        run_closing,
        run_flushes,
        run_io,
        run_pending,
        run_phase_callbacks,
        run_timers,
        time_to_deadline,
    )
else:
    from loopcore.kernel.tick import (
        has_work,
        run_check,
        run_closing,
        run_flushes,
        run_io,
        run_pending,
        run_phase_callbacks,
        run_timers,
        time_to_deadline,
    )

if TYPE_CHECKING:
    from loopcore.kernel.scheduler import Scheduler

_DEBUG = SlowPath.DEBUG.value
_WATCHING_HANDLES, _WATCHING_TICKS = SlowPath.WATCHING_HANDLES.value, SlowPath.WATCHING_TICKS.value
_NEXT_TICK, _MICROTASK, _READY = sources.NEXT_TICK, sources.MICROTASK, sources.READY
_BEGINS, _ENDS, _TICK_BEGINS, _TICK_ENDS = observer.BEGINS, observer.ENDS, observer.TICK_BEGINS, observer.TICK_ENDS
_WAIT_BEGINS, _WAIT_ENDS = observer.WAIT_BEGINS, observer.WAIT_ENDS
_IDLE, _PREPARE, _PENDING, _IO = phases.IDLE, phases.PREPARE, phases.PENDING, phases.IO
_NO_EVENTS = phases.NO_EVENTS
_CHECK, _TIMERS, _CLOSE = phases.CHECK, phases.TIMERS, phases.CLOSE
_SOURCE_OF_IO, _IMMEDIATE, _TIMER, _FLUSH = sources.IO, sources.IMMEDIATE, sources.TIMER, sources.FLUSH


class ObservedRunner(CallbackRunner):
    """Reports each callback to the observers, and runs it between its hooks."""

    __slots__ = ("_loop", "_observers")

    def __init__(self, loop: "Scheduler") -> None:
        CallbackRunner.__init__(self, loop)
        self._loop: Scheduler = loop
        self._observers: Observers = loop._observers

    def _call(self, runnable: Runnable) -> None:
        self._call_observed(runnable, self._loop._source)

    def _call_microtask(self, handle: Handle) -> None:
        self._call_observed(handle, _MICROTASK if self._microtasks.at_microtasks else _NEXT_TICK)

    def _call_observed(self, runnable: Runnable, source: int) -> None:
        if source == _READY:
            source = runnable._source()
        if self._observers.wants & _BEGINS:
            try:
                self._observers.report(_BEGINS, runnable, source)
            except BaseException:  # of a signal handler, while an observer ran Python: the callback's turn has come
                runnable._run()
                raise
        if self._loop._slow_path_flags & (_DEBUG | _WATCHING_HANDLES):
            run_watched(self._loop, runnable)
        else:
            runnable._run()
        if self._observers.wants & _ENDS:
            self._observers.report(_ENDS, runnable, source)
        runnable = None  # type: ignore[assignment]  # a live traceback would pin it


def run_watched(loop: "Scheduler", runnable: Runnable) -> None:
    """Run `runnable` between its hooks; in debug mode, report it if it took long."""
    if isinstance(runnable, Handle) and runnable.cancelled():
        return  # skipped silently
    announced = bool(loop._slow_path_flags & _WATCHING_HANDLES)
    what = "task_step" if hasattr(runnable, "get_coro") else "handle"
    shown = runnable._as_public()
    if announced:
        try:
            loop.probes.fire(f"loopcore_{what}_begin", loop, shown)
        except BaseException:  # the hook exits, or a signal handler does in it: the callback's turn has come
            runnable._run()
            raise
    before, loop._current_handle = loop._current_handle, shown
    begin = loop.time()
    try:
        runnable._run()
    finally:
        loop._current_handle = before
        if announced:
            loop.probes.fire(f"loopcore_{what}_end", loop, shown)
    seconds = loop.time() - begin
    if loop.get_debug() and seconds >= loop.slow_callback_duration:
        logger.warning("Executing %s took %.3f seconds", _describe(shown), seconds)
        loop.probes.cold("loopcore_slow_callback", loop=loop, runnable=shown, seconds=seconds)
    del runnable, shown  # a live traceback would pin this frame, and through it the callback


def _describe(shown: object) -> str:
    """Return the name of a callback for asyncio's warning: its handle, or the task whose step it is."""
    try:
        owner = getattr(getattr(shown, "_callback", None), "__self__", None)
        is_step = isinstance(owner, asyncio.Task)
    except Exception:  # a proxy that raises on every attribute access
        is_step = False
    return repr(owner if is_step else shown)


def announce_handle(loop: "Scheduler", handle: Handle, source: str) -> None:
    """Report to plugins that `handle` was scheduled, and the task that it wakes, if any."""
    loop.probes.fire("loopcore_handle_scheduled", loop, handle, source)
    callback = handle._callback
    try:
        is_wakeup = getattr(callback, "__name__", "") == "_wakeup"
    except Exception:  # a proxy that raises on every attribute access; it may be callable all the same
        is_wakeup = False
    if is_wakeup:
        # A future that is not loopcore's (asyncio.gather's, for example) wakes a loopcore task.
        task = getattr(callback, "__self__", None)
        if hasattr(task, "_announce_woken"):
            task._announce_woken(*handle._args)  # type: ignore[union-attr, misc]


# The phases


def begin_tick_observed(loop: "Scheduler") -> None:
    """Run the phases before the wait."""
    if loop._slow_path_flags & _WATCHING_TICKS:
        loop.probes.fire("loopcore_tick_begin", loop)
    _run_phase(loop, _IDLE, loop._source, loop._has_phase_callbacks)
    _run_phase(loop, _PREPARE, loop._source, loop._has_phase_callbacks)


def run_phases_observed(loop: "Scheduler") -> None:
    """Run the phases after the wait."""
    outer_source = loop._source  # a callback may run a nested tick
    if loop._observers.wants & _TICK_BEGINS:
        loop._observers.report(_TICK_BEGINS, None, 0)
    try:
        _run_phase(loop, _PENDING, _READY, True)
        _run_phase(loop, _IO, _SOURCE_OF_IO, loop._events is not _NO_EVENTS)
        _run_phase(loop, _CHECK, _IMMEDIATE, bool(loop._immediates) or loop._has_phase_callbacks)
        _run_phase(loop, _TIMERS, _TIMER, bool(loop._due))
        _run_phase(loop, _CLOSE, _FLUSH, loop._flushes._count > 0 or bool(loop._closing))
    finally:
        loop._source = outer_source
        if loop._observers.wants & _TICK_ENDS:
            loop._observers.report(_TICK_ENDS, None, 0)
        if loop._slow_path_flags & _WATCHING_TICKS:
            loop.probes.fire("loopcore_tick_end", loop)


def _run_phase(loop: "Scheduler", phase: str, source: int, has_work: bool) -> None:
    """Run a phase if it has work, as `run_phases` does, with the source of its callbacks; all are run between hooks."""
    loop._source = source
    if loop._slow_path_flags & _WATCHING_TICKS:
        loop.probes.fire("loopcore_phase_begin", loop, phase)
        loop.probes.fire("loopcore_phase_end", loop, phase, _run_work_of(loop, phase))
    elif has_work:
        _run_work_of(loop, phase)


def _run_work_of(loop: "Scheduler", phase: str) -> int:
    count: int
    if phase is _PENDING:
        if loop._policy is not None and loop._policy.directs_pending():
            count = loop._policy.run_pending(loop)
        else:
            count = run_pending(loop)
    elif phase is _IO:
        count = run_io(loop)
    elif phase is _CHECK:
        count = run_check(loop)
    elif phase is _TIMERS:
        count = run_timers(loop)
    elif phase is _CLOSE:
        run_flushes(loop)
        count = run_closing(loop)
    else:
        count = run_phase_callbacks(loop, phase)
    return count


# The wait


def wait_observed(loop: "Scheduler", timeout: float) -> list[tuple[Any, ...]]:
    """Wait between the hooks of the poll phase, for less time if a policy asks for it."""
    if timeout != 0.0 and loop._policy is not None and loop.probes.owner("loopcore_poll_timeout") is not None:
        timeout = _recheck_timeout(loop, _ask_timeout(loop, timeout))
    if not loop._slow_path_flags & _WATCHING_TICKS:
        return _wait_measured(loop, timeout)
    loop.probes.fire("loopcore_phase_begin", loop, phases.POLL)
    loop.probes.fire("loopcore_poll_begin", loop, None if timeout < 0.0 else timeout)
    timeout = _recheck_timeout(loop, timeout)
    before = time.perf_counter_ns()
    events = _wait_measured(loop, timeout)
    waited_ns = time.perf_counter_ns() - before
    loop.probes.fire("loopcore_poll_end", loop, len(events), waited_ns)
    loop.probes.fire("loopcore_phase_end", loop, phases.POLL, len(events))
    return events


def _ask_timeout(loop: "Scheduler", timeout: float) -> float:
    proposed = None if timeout < 0.0 else timeout
    wanted = loop.probes.ask("loopcore_poll_timeout", loop, proposed, convert=as_timeout)
    return timeout if wanted is None or 0.0 <= timeout < wanted else float(wanted)


def _recheck_timeout(loop: "Scheduler", timeout: float) -> float:
    """Return `timeout`, or less: a hook has run, and may have scheduled work."""
    sooner = time_to_deadline(loop)  # first: it may run a finalizer that schedules work, too
    timeout = 0.0 if has_work(loop) else timeout
    return sooner if timeout < 0.0 or 0.0 <= sooner < timeout else timeout


def _wait_measured(loop: "Scheduler", timeout: float) -> list[tuple[Any, ...]]:
    if loop._observers.wants & _WAIT_BEGINS:
        loop._observers.report(_WAIT_BEGINS, None, timeout != 0.0)
    events = loop._poller.wait(timeout)
    if loop._observers.wants & _WAIT_ENDS:
        loop._observers.report(_WAIT_ENDS, None, len(events))
    return events
