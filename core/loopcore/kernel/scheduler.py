"""The scheduler: a loop without the operating system's services, put together from the mechanisms of this folder.

It has the queues (ready callbacks, timers, the inbox, next-ticks and microtasks, phase callbacks), the poller, the
runner of callbacks, the probes of plugins and the counters. It implements the scheduling methods, the life of a run,
and the public steps of a tick, by which another loop can host it: `poll_events` (idle, prepare, poll), `process_events`
(takes over the events of the wait) and `process_ready` (pending, io, check, timers, close). During the first and the
last step this loop is the running loop of the thread. `loopcore.kernel.tick` has the phases.

The scheduling methods share one test, of `_slow_path_flags`. It is zero in the ordinary case: the loop runs, debug mode
is off, and no plugin watches handles, tasks or ticks.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, TypeVarTuple, Unpack

from loopcore.errors import BackendError, LoopcoreError
from loopcore.hooks import observer
from loopcore.hooks.sources import READY, SOURCES, THREADSAFE
from loopcore.kernel import phases
from loopcore.kernel.completions import Completions
from loopcore.kernel.flags import SlowPath
from loopcore.kernel.handle import Handle, PostedHandle, TimerHandle, check_callback
from loopcore.kernel.inbox import Inbox
from loopcore.kernel.limits import FLUSH_LIMIT, MICROTASK_BUDGET, RECEIVE_LIMIT
from loopcore.kernel.loop_clock import LoopClock
from loopcore.kernel.loop_stats import LoopStats, LoopStatsSnapshot, take_loop_stats
from loopcore.kernel.meter import CallbackSampler, Meter
from loopcore.kernel.microtasks import MicrotaskQueues
from loopcore.kernel.observed import ObservedRunner, announce_handle
from loopcore.kernel.observers import Observers
from loopcore.kernel.phases import Closeable, PhaseCallbacks
from loopcore.kernel.policies import PendingPolicy
from loopcore.kernel.poller import Poller
from loopcore.kernel.probes import Probes
from loopcore.kernel.readiness import Readiness
from loopcore.kernel.ready import ReadyQueue
from loopcore.kernel.registry import as_running_loop
from loopcore.kernel.runnable import Runnable
from loopcore.kernel.running import CallbackRunner
from loopcore.kernel.task_makers import ClassTasks
from loopcore.kernel.timers import TimerHeap
from loopcore.log import logger
from loopcore.ports.clock import Clock, clock_of
from loopcore.ports.completion import Backend

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.interpreter import get_ident
    from cython.cimports.loopcore.kernel.handle import make_handle, make_posted, make_timer
    from cython.cimports.loopcore.kernel.observed import begin_tick_observed, run_phases_observed, wait_observed
    from cython.cimports.loopcore.kernel.tick import (
        begin_tick,
        defer_timers,
        flush_after_error,
        run_closing,
        run_flushes,
        run_phase_callbacks,
        run_phases,
    )
else:
    from loopcore._native.interpreter import get_ident
    from loopcore.kernel.handle import make_handle, make_posted, make_timer
    from loopcore.kernel.observed import begin_tick_observed, run_phases_observed, wait_observed
    from loopcore.kernel.tick import (
        begin_tick,
        defer_timers,
        flush_after_error,
        run_closing,
        run_flushes,
        run_phase_callbacks,
        run_phases,
    )

if TYPE_CHECKING:
    from asyncio.events import _TaskFactory

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_CLOSED, _NOT_RUNNING, _DEBUG = SlowPath.CLOSED.value, SlowPath.NOT_RUNNING.value, SlowPath.DEBUG.value
_WATCHING_HANDLES, _WATCHING_TICKS = SlowPath.WATCHING_HANDLES.value, SlowPath.WATCHING_TICKS.value
_THREADSAFE, _READY = THREADSAFE, READY
_QUEUED, _POSTED, _CALLBACKS = observer.QUEUED, observer.POSTED, observer.BEGINS | observer.ENDS
_TICKS, _WAITS = observer.TICK_BEGINS | observer.TICK_ENDS, observer.WAIT_BEGINS | observer.WAIT_ENDS
_NO_EVENTS = phases.NO_EVENTS

FACTORIES_NAME = sys.version_info >= (3, 14)
"""Whether a task factory receives the name, as asyncio's does: an eager task runs its first step with it."""


class Scheduler:
    """Schedules callbacks, futures and tasks over a backend. Thread: its own, except where a method says otherwise."""

    __slots__ = (
        "_ready", "_timers", "_inbox", "_microtasks", "_phase_callbacks", "probes", "_stats", "_poller", "_readiness",
        "_completions", "_tasks", "slow_callback_duration", "flush_limit", "receive_limit", "_bytes_received",
        "_bytes_sent", "_unflushed", "_watching_transports", "_slow_path_flags",
        "_tick_observed", "_has_phase_callbacks", "_stopping", "_waiting", "_owner",
        "_clock", "_runner", "_plain_runner", "_observed_runner", "_observers", "_sampler", "_policy",
        "_task_factory", "_immediates",
        "_flushes", "_closing", "_events", "_deferred_events", "_due", "_source", "_current_handle",
        "__weakref__",
    )  # fmt: skip

    def __init__(self, backend: Backend, *, clock: Clock | None = None, tasks: ClassTasks | None = None) -> None:
        self._ready: ReadyQueue = ReadyQueue()
        self._timers: TimerHeap = TimerHeap()
        self._inbox: Inbox = Inbox(backend.wake)
        self._microtasks: MicrotaskQueues = MicrotaskQueues(MICROTASK_BUDGET)
        self._phase_callbacks: PhaseCallbacks = PhaseCallbacks()
        self.probes: Probes = Probes(self)
        """The plugins of the loop: `register`, `unregister`, `plugins`, `reorder`."""
        self._stats: LoopStats = LoopStats()
        self._clock: LoopClock = LoopClock(clock_of(backend) if clock is None else clock)
        self._poller: Poller = Poller(backend, self._clock)
        self._readiness: Readiness = self._poller.readiness
        self._completions: Completions = self._poller.completions  # type: ignore[assignment]
        """The operations under way; None over a readiness port, where nothing asks for it."""
        self._tasks: ClassTasks = ClassTasks(asyncio.Future, asyncio.Task) if tasks is None else tasks
        """What makes the futures and tasks of `create_future` and `create_task`."""
        self.slow_callback_duration: float = 0.1
        """Seconds from which a callback is reported as slow, in debug mode or by a meter."""
        self.flush_limit: int = FLUSH_LIMIT
        """Bytes that may be held back until the end of the tick, over all transports."""
        self.receive_limit: int = RECEIVE_LIMIT
        """Bytes that one receive call of the loop takes from a stream at most; 120 KiB if out of range.

        A completion port's own receives have another limit.
        """
        self._bytes_received: int = 0
        """Bytes that all transports have received from the kernel."""
        self._bytes_sent: int = 0
        """Bytes that the kernel has accepted from all transports."""
        self._unflushed: int = 0
        """Bytes that transports have queued since the last flush, or a little more."""
        self._watching_transports: bool = False
        self._slow_path_flags: int = _NOT_RUNNING
        self._tick_observed: bool = False
        self._has_phase_callbacks: bool = False
        self._stopping: bool = False
        self._waiting: bool = False
        self._owner: int = 0  # the thread that runs the loop, 0 for none
        self._observers: Observers = Observers(self.probes)
        # Both are kept as long as the loop: the callback that a runner runs may make the loop choose the other.
        self._plain_runner: CallbackRunner = CallbackRunner(self)
        self._observed_runner: ObservedRunner | None = None
        self._runner: CallbackRunner = self._plain_runner
        self._sampler: CallbackSampler | None = None
        self._policy: PendingPolicy | None = None
        self._task_factory: Callable[..., Any] | None = None
        self._immediates: list[Handle] = []
        self._flushes: ReadyQueue = ReadyQueue()
        self._closing: list[Closeable] = []
        self._events: list[tuple[Any, ...]] = _NO_EVENTS  # (fd, bits) of each, or (operation, result, more)
        self._deferred_events: list[tuple[Any, ...]] | None = None  # for the next tick, which then does not poll
        self._due: list[TimerHandle] = []
        self._source: int = _READY
        self._current_handle: object = None
        """The callback that runs now, while it is observed. Debug mode's reports say where it was created."""

    def __cinit__(self) -> None:
        # Only called compiled, where attributes are C's: a loop whose `__init__` never ran counts as closed. The parts
        # of the loop use the objects made here without a check for None.
        self._slow_path_flags = _CLOSED
        self._ready = ReadyQueue()
        self._timers = TimerHeap()
        self._inbox = Inbox.__new__(Inbox)
        self._microtasks = MicrotaskQueues(MICROTASK_BUDGET)
        self._stats = LoopStats()
        self._flushes = ReadyQueue()
        self._observers = Observers.__new__(Observers)

    def __reduce__(self) -> NoReturn:
        # `copy.deepcopy` of an object that refers to a future gets here, and would copy descriptors, which have one
        # owner.
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    # State and settings

    @property
    def _thread_id(self) -> int | None:
        """The thread that runs the loop, or None. Libraries know the attribute from asyncio."""
        return self._owner or None

    @property
    def backend(self) -> Backend:
        """The backend in which the loop waits."""
        return self._poller.backend

    @property
    def clock(self) -> Clock:
        """The clock of `time`."""
        return self._clock.source

    @property
    def poll_skip_ticks(self) -> int:
        """Ticks in a row that may skip the poll while callbacks are ready and nothing is watched."""
        return self._poller.skip_ticks

    @poll_skip_ticks.setter
    def poll_skip_ticks(self, ticks: int) -> None:
        self._poller.skip_ticks = ticks

    @property
    def poll_skip_time(self) -> float:
        """Seconds for which a poll may be put off then."""
        return self._poller.skip_time

    @poll_skip_time.setter
    def poll_skip_time(self, seconds: float) -> None:
        self._poller.skip_time = seconds

    def get_debug(self) -> bool:
        """Return whether debug mode is on."""
        return bool(self._slow_path_flags & _DEBUG)

    def set_debug(self, enabled: bool) -> None:
        """Turn debug mode on or off: creation tracebacks, slow callbacks, calls from the wrong thread."""
        self._set_slow_path_flag(_DEBUG, bool(enabled))
        self._timers.debug = self.get_debug()

    def is_closed(self) -> bool:
        """Return whether the loop was closed."""
        return bool(self._slow_path_flags & _CLOSED)

    def is_waiting(self) -> bool:
        """Return whether the loop is in its backend's wait (or a hook around it), not in a callback. Thread: any."""
        return bool(self._waiting and self._owner)

    def _count_ready(self) -> int:
        """Return how many callbacks are ready. Thread: any."""
        policy = self._policy
        return len(self._ready) + (0 if policy is None else policy.count_held())

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Report an error that cannot be raised in a caller. Subclasses override this; here it is only logged."""
        logger.error(context.get("message"), exc_info=context.get("exception"))

    # Scheduling, as in asyncio. For type checkers handles, futures and tasks are asyncio's: `isinstance` says so, too.

    def time(self) -> float:
        """Return the loop's time, in seconds of its clock. Thread: any."""
        return self._clock.now()

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: Unpack[Ts], context: Context | None = None
    ) -> asyncio.Handle:
        """Call `callback(*args)` in the next tick, after the callbacks that were scheduled before.

        `context` is the context to run in, by default a copy of the current one. Raises RuntimeError if the loop is
        closed. Debug mode also raises RuntimeError in another thread, and TypeError if `callback` is not callable.
        """
        if self._slow_path_flags & ~_NOT_RUNNING:
            handle = self._make_checked_handle(Handle, callback, args, context, "soon", "call_soon")
        else:
            if self._slow_path_flags:
                self._empty_inbox_while_idle()
            handle = make_handle(callback, args, self, context)
        self._ready.push(handle)
        return handle  # type: ignore[return-value]

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: Unpack[Ts],
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call `callback(*args)` in `delay` seconds, at the earliest. Raises as `call_soon`."""
        if delay is None:
            raise TypeError("delay must not be None")
        return self._set_timer(self._clock.now() + delay, callback, args, context, "call_later")  # type: ignore[return-value]

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: Unpack[Ts],
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call `callback(*args)` at `when`, in seconds of `time()`. Equal deadlines fire in the order they were set."""
        if when is None:
            raise TypeError("when cannot be None")
        return self._set_timer(when, callback, args, context, "call_at")  # type: ignore[return-value]

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: Unpack[Ts], context: Context | None = None
    ) -> asyncio.Handle:
        """Call `callback(*args)` soon in the loop's thread. Thread: any; also from a signal handler.

        Callbacks of one thread run in the order in which it posted them. Raises RuntimeError if the loop is closed. A
        callback posted before the close that has not run by then is cancelled, so its handle shows that it never will.
        A thread that posts faster than the loop gets the GIL sleeps for a moment now and then (docs/adr/0014).
        """
        if self._slow_path_flags & ~_NOT_RUNNING:
            handle = self._make_checked_handle(
                PostedHandle, callback, args, context, "threadsafe", "call_soon_threadsafe"
            )
        else:
            handle = make_posted(callback, args, self, context)
        if self._owner == get_ident():
            # In one order with `call_soon`, as in asyncio for a program on the loop's own thread.
            self._ready.push(handle)
            self._inbox.interrupt()  # this may be a signal handler inside the wait, which would resume (PEP 475)
            return handle  # type: ignore[return-value]
        if self._observers.wants & _POSTED:
            self._observers.report_posted(handle)
        self._inbox.post(handle, not self._slow_path_flags & _NOT_RUNNING)
        if self._slow_path_flags & _CLOSED:
            # Callbacks in the inbox of a closed loop are never drained: raise, unless this one ran before that.
            self._inbox.discard()
            if handle.cancelled():
                self._check_closed()
        return handle  # type: ignore[return-value]

    # Scheduling, as in Node

    def call_immediate(
        self, callback: Callable[[Unpack[Ts]], object], *args: Unpack[Ts], context: Context | None = None
    ) -> asyncio.Handle:
        """Call `callback(*args)` in the check phase: of this tick if that is still to come, else of the next."""
        handle = self._make_handle(callback, args, context, "immediate", "call_immediate")
        self._immediates.append(handle)
        return handle  # type: ignore[return-value]

    def next_tick(
        self, callback: Callable[[Unpack[Ts]], object], *args: Unpack[Ts], context: Context | None = None
    ) -> asyncio.Handle:
        """Call `callback(*args)` right after the current callback, before any other."""
        handle = self._make_handle(callback, args, context, "next_tick", "next_tick")
        self._microtasks.push_next_tick(handle)
        return handle  # type: ignore[return-value]

    def queue_microtask(
        self, callback: Callable[[Unpack[Ts]], object], *args: Unpack[Ts], context: Context | None = None
    ) -> asyncio.Handle:
        """Call `callback(*args)` right after the current callback and all next-ticks."""
        handle = self._make_handle(callback, args, context, "microtask", "queue_microtask")
        self._microtasks.push_microtask(handle)
        return handle  # type: ignore[return-value]

    def add_phase_callback(
        self,
        phase: phases.OpenPhase,
        callback: Callable[[Unpack[Ts]], object],
        *args: Unpack[Ts],
        context: Context | None = None,
        once: bool = False,
    ) -> asyncio.Handle:
        """Call `callback(*args)` in each tick's `phase` (idle, prepare, check) until cancelled, or `once`."""
        check_callback(callback, "add_phase_callback")  # one that is not callable would fail in every tick
        handle = self._make_handle(callback, args, context, "phase", "add_phase_callback")
        self._phase_callbacks.add(phase, handle, once)
        self._has_phase_callbacks = True
        return handle  # type: ignore[return-value]

    # Futures and tasks

    def create_future(self) -> asyncio.Future[Any]:
        """Return a new pending future of this loop."""
        return self._tasks.make_future(self)  # type: ignore[no-any-return]

    def create_task(
        self, coro: Coroutine[Any, Any, T], *, name: object = None, context: Context | None = None, **kwargs: Any
    ) -> asyncio.Task[T]:
        """Return a new task that runs `coro`, made by the task factory if there is one.

        `kwargs` go to the task or to the factory (`eager_start`). Raises RuntimeError if the loop is closed, TypeError
        if `coro` is not a coroutine.
        """
        if self._slow_path_flags or kwargs or self._task_factory is not None:
            return self._create_by_rule(coro, name, context, kwargs)  # type: ignore[no-any-return]
        return self._tasks.make_task(self, coro, name, context)  # type: ignore[no-any-return]

    def _create_by_rule(
        self, coro: Coroutine[Any, Any, Any], name: object, context: Context | None, options: dict[str, Any]
    ) -> Any:
        self._check_closed()
        self._check_thread()
        self._empty_inbox_while_idle()
        if self._task_factory is None:
            return self._tasks.task_class(coro, loop=self, name=name, context=context, **options)
        if context is not None:
            options["context"] = context  # left out otherwise: factories need not accept it
        if name is None:
            return self._task_factory(self, coro, **options)
        if FACTORIES_NAME:
            return self._task_factory(self, coro, name=name, **options)
        task = self._task_factory(self, coro, **options)
        task.set_name(name)
        return task

    def set_task_factory(self, factory: "_TaskFactory | None") -> None:
        """Make `factory(loop, coro, **options)` create tasks; None restores the loop's own way."""
        if factory is not None and not callable(factory):
            raise TypeError("task factory must be a callable or None")
        self._task_factory = factory

    def get_task_factory(self) -> "_TaskFactory | None":
        """Return the task factory, or None."""
        return self._task_factory

    # For the parts of the loop

    def _schedule(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None) -> None:
        """Do as `call_soon`, for the parts of the loop: compiled code calls it without unpacking arguments."""
        if self._slow_path_flags:
            self.call_soon(callback, *args, context=context)
        else:
            self._ready.push(make_handle(callback, args, self, context))

    def _flush_this_tick(self, runnable: Runnable) -> None:
        """`_flush_soon`, which only compiled code can call, for tests."""
        self._flush_soon(runnable)

    def _flush_soon(self, runnable: Runnable) -> None:
        """Run `runnable` at the end of this tick, when no more data is added to its write."""
        self._flushes.push(runnable)

    def _take_flush(self, runnable: Runnable) -> bool:
        """Take `runnable` out of the flushes if it is the only one: its caller flushes now.

        False while callbacks are observed: each flush is a callback then.
        """
        if self._runner is not self._plain_runner or not self._flushes.take_only(runnable):
            return False
        self._stats.callbacks += 1
        self._unflushed = 0
        return True

    def _close_soon(self, resource: Closeable) -> None:
        """Close `resource` in the close phase of this tick, or when the loop is closed."""
        self._closing.append(resource)

    def flush(self) -> None:
        """Send the data written in this tick now, not at its end."""
        if len(self._flushes):
            run_flushes(self)
        if self._completions is not None:
            self._completions.begin()

    def _timer_handle_cancelled(self, timer: asyncio.TimerHandle) -> None:
        """Do nothing: asyncio's own TimerHandle calls this, and none of them is in the heap."""

    def _is_elsewhere(self) -> bool:
        """Return whether another thread runs the loop now: its state must be left to that thread. Thread: any."""
        return self._owner != 0 and self._owner != get_ident()

    # Handles

    def _set_timer(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None, method: str
    ) -> TimerHandle:
        when = when + 0.0  # raises for anything but a number, before it is in the heap
        if when != when:
            raise ValueError(f"{method}() was given NaN, which no clock will ever show")
        if self._slow_path_flags & ~_NOT_RUNNING:
            self._check_call(callback, method)
            timer = TimerHandle(when, callback, args, self, context)
            if self._slow_path_flags & _WATCHING_HANDLES:
                announce_handle(self, timer, "timer")
        else:
            if self._slow_path_flags:
                self._empty_inbox_while_idle()
            timer = make_timer(when, callback, args, self, context)
        self._timers.push(timer)
        return timer

    def _make_handle(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None, source: str, method: str
    ) -> Handle:
        if self._slow_path_flags:
            handle = self._make_checked_handle(Handle, callback, args, context, source, method)
        else:
            handle = make_handle(callback, args, self, context)
        if self._observers.wants & _QUEUED:
            self._observers.report(_QUEUED, handle, SOURCES.index(source))
        return handle

    def _make_checked_handle(
        self,
        made: type[Handle],
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
        source: str,
        method: str,
    ) -> Handle:
        self._check_call(callback, method)
        handle = made(callback, args, self, context)
        if self._slow_path_flags & _WATCHING_HANDLES:
            announce_handle(self, handle, source)
        return handle

    def _check_call(self, callback: Callable[..., object], method: str) -> None:
        """Do the checks that the ordinary case skips: refuse misuse, keep order with earlier posts."""
        self._check_closed()
        if method != "call_soon_threadsafe":
            self._check_thread()
            self._empty_inbox_while_idle()
        if self._slow_path_flags & _DEBUG:
            check_callback(callback, method)

    def _check_closed(self) -> None:
        if self._slow_path_flags & _CLOSED:
            raise RuntimeError("Event loop is closed")

    def _check_thread(self) -> None:
        """In debug mode, refuse a call from another thread."""
        if self._slow_path_flags & _DEBUG and self._is_elsewhere():
            raise RuntimeError("Non-thread-safe operation invoked on an event loop other than the current one")

    def _empty_inbox_while_idle(self) -> None:
        # no tick drains them, and callbacks scheduled later must not overtake them
        if self._slow_path_flags & _NOT_RUNNING and self._inbox._woken:
            self._empty_inbox()

    def _empty_inbox(self) -> None:
        self._ready._source = _THREADSAFE  # for observers
        try:
            self._stats.threadsafe_posts += self._inbox.drain_into(self._ready)
        finally:
            self._ready._source = _READY

    # Life

    def _run_ticks(self) -> None:
        """Tick until `_stop_ticks` is called. Raises the SystemExit or KeyboardInterrupt of a callback.

        No callback is lost then: those that have not run yet stay in the queue. The first tick polls.
        """
        try:
            self._owner = get_ident()
            self._slow_path_flags &= ~_NOT_RUNNING
            self._poller.poll_next()
            if self._sampler is not None:
                self._sampler.resume()
            self.probes.cold("loopcore_run_started", loop=self)
            with as_running_loop(self):
                while True:
                    self._events = begin_tick(self)
                    self._finish_tick()
                    if self._stopping:
                        break
            if self._completions is not None:
                self._completions.begin()
        except BaseException as exc:
            if self._waiting and isinstance(exc, Exception) and not isinstance(exc, LoopcoreError):
                exc.add_note(f"raised in the wait of backend {self.backend.name!r}")
            flush_after_error(self)
            if self._completions is not None:
                self._completions.begin_or_report(self.call_exception_handler)
            raise
        finally:
            self._stopping = False
            self._deferred_events = None  # they are reported again
            self._owner = 0
            self._slow_path_flags |= _NOT_RUNNING
            if self._sampler is not None:
                self._sampler.pause()
            self.probes.cold("loopcore_run_stopped", loop=self)

    def _stop_ticks(self) -> None:
        """Make the current tick the last of this run; between two ticks, the next one."""
        self._stopping = True

    def _close_scheduler(self) -> None:
        """Drop the queued callbacks, close the resources of `_close_soon`, release the backend. Idempotent."""
        if self._slow_path_flags & _CLOSED:
            return
        try:
            self.flush()  # written data is sent: asyncio would have sent it at once
        finally:
            self._set_slow_path_flag(_CLOSED, True)
            try:
                if self._closing:
                    run_closing(self)
            finally:
                try:
                    self._drop_all()
                finally:
                    self._poller.close()
                    self.probes.cold("loopcore_loop_closed", loop=self)

    def _drop_all(self) -> None:
        if self._policy is not None:
            self._policy.drop()
        self._inbox.discard()
        self._ready.clear()
        self._timers.clear()
        self._microtasks.clear()
        if self._has_phase_callbacks:
            self._phase_callbacks.clear()
        self._immediates.clear()
        self._flushes.clear()
        self._due.clear()
        if self._sampler is not None:
            self._stop_measuring(self._sampler)

    def _use_backend(self, backend: Backend) -> None:
        """Wait in `backend`, which has the same kind of port as the previous one; that one is closed."""
        self._poller.use(backend)
        self._inbox.use(backend.wake)

    # The tick

    def tick(self) -> None:
        """Run the eight phases once."""
        self._check_initialized()
        with as_running_loop(self):
            self._events = begin_tick(self)
            self._finish_tick()

    def poll_events(self) -> Sequence[tuple[Any, ...]]:
        """Run the phases idle, prepare and poll; return the events of the wait, which must go to `process_events`."""
        self._check_initialized()
        with as_running_loop(self):
            return begin_tick(self)  # type: ignore[no-any-return]

    def process_events(self, events: Sequence[tuple[Any, ...]]) -> None:
        """Take the events that `poll_events` returned; after this the work of the tick is fixed."""
        self._events = events if isinstance(events, list) else (list(events) or _NO_EVENTS)

    def process_ready(self) -> None:
        """Run the phases pending, io, check, timers and close."""
        self._check_initialized()
        with as_running_loop(self):
            self._finish_tick()

    def _check_initialized(self) -> None:
        if self.probes is None:
            raise AttributeError(f"{type(self).__name__}.__init__() has not run")

    def _run_first_phases(self) -> None:
        if self._tick_observed:
            begin_tick_observed(self)
        else:
            run_phase_callbacks(self, phases.IDLE)
            run_phase_callbacks(self, phases.PREPARE)

    def _wait(self, timeout: float) -> list[tuple[Any, ...]]:
        if self._tick_observed or self._observers.wants & _WAITS:
            return wait_observed(self, timeout)  # type: ignore[no-any-return]
        return self._poller.wait(timeout)

    def _finish_tick(self) -> None:
        try:
            if self._tick_observed:
                run_phases_observed(self)
            else:
                run_phases(self)
        except BaseException as exc:
            defer_timers(self)
            if isinstance(exc, (SystemExit, KeyboardInterrupt, BackendError)):
                raise
            # A Runnable must not raise. asyncio, too, reports the RuntimeError of a context that is already entered.
            self.call_exception_handler({"message": "Exception in a tick of the loop", "exception": exc})

    # Observers

    def counters(self) -> LoopStatsSnapshot:
        """Return the loop's counters so far. Thread: any; `loopcore.kernel.loop_stats` states the guarantees then."""
        return take_loop_stats(self)

    def meter(self, window: float = 0.001) -> Meter:
        """Measure the loop's time until `stop` of the returned meter is called, or the loop is closed.

        Every `window` seconds some callbacks are timed one by one; with 0 all are, at a higher cost. Raises UsageError
        if `window` is not such a number, RuntimeError if the loop is closed.
        """
        self._check_closed()
        self._check_thread()
        sampler = CallbackSampler(self) if self._sampler is None else self._sampler
        meter: Meter = sampler.lend(window)
        if self._sampler is None:
            self._sampler = sampler
            self._note_observers()
            if self._owner:
                sampler.resume()
                self._poller.poll_next()  # that poll opens the first window
        return meter

    def _stop_measuring(self, sampler: CallbackSampler) -> None:
        if self._sampler is not sampler:
            return  # the loop was closed
        self._sampler = None
        sampler.pause()
        sampler.close()

    def _note_slow(self, runnable: Runnable, seconds: float) -> None:
        if not self._slow_path_flags & _DEBUG:  # which has reported it
            self.probes.cold("loopcore_slow_callback", loop=self, runnable=runnable, seconds=seconds)

    def _note_plugins(self) -> None:
        """Adopt a changed set of plugins."""
        if self._is_elsewhere():
            self.call_soon_threadsafe(self._note_plugins)  # a plugin has raised in a thread of a pool
            return
        self._watching_transports = self.probes.watching_transports
        self._set_slow_path_flag(_WATCHING_HANDLES, self.probes.watching_handles)
        self._set_slow_path_flag(_WATCHING_TICKS, self.probes.watching_ticks)
        if self._policy is None and self.probes.deciding:
            self._policy = PendingPolicy()
        if self._policy is not None:
            self._policy.update(self)
        self._observers.update(self)
        self._note_observers()

    def _set_slow_path_flag(self, flag: int, on: bool) -> None:
        self._slow_path_flags = self._slow_path_flags | flag if on else self._slow_path_flags & ~flag
        self._note_observers()

    def _note_observers(self) -> None:
        """Choose the runner and the tick for the present observers, and the events to report to them."""
        self._observers.adopt(self._sampler)
        wants = self._observers.wants
        self._ready.report_to(self._observers if wants & _QUEUED else None)
        self._tick_observed = (
            bool(self._slow_path_flags & _WATCHING_TICKS)
            or bool(wants & (_TICKS | _CALLBACKS))
            or (self._policy is not None and self._policy.directs_pending())
            or self.probes.owner("loopcore_poll_timeout") is not None
        )
        observed = bool(wants & _CALLBACKS) or bool(self._slow_path_flags & (_DEBUG | _WATCHING_HANDLES))
        if not observed:
            self._runner = self._plain_runner
            return
        if self._observed_runner is None:
            self._observed_runner = ObservedRunner(self)
        self._runner = self._observed_runner
