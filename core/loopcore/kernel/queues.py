"""Queues: everything that a program can schedule, and where it waits for its phase.

The part of a loop with `call_soon` and the other scheduling methods. In the ordinary case they share one test, of
`_slow_path_flags`, which is zero then: the loop runs, it is not in debug mode, and no plugin watches handles.
"""

import sysconfig
import threading
from collections.abc import Callable
from contextvars import Context
from typing import Any

from loopcore.clock import Clock, MonotonicClock
from loopcore.kernel import flags
from loopcore.kernel.handle import Handle, TimerHandle, check_callback
from loopcore.kernel.inbox import Inbox
from loopcore.kernel.limits import MICROTASK_BUDGET
from loopcore.kernel.loop_stats import LoopStats
from loopcore.kernel.phases import Closeable, PhaseCallbacks
from loopcore.kernel.probes import Probes
from loopcore.kernel.ready import MicrotaskQueues, ReadyQueue
from loopcore.kernel.runnable import Runnable
from loopcore.kernel.sources import SOURCES, THREADSAFE
from loopcore.kernel.timers import TimerHeap
from loopcore.kernel.watch import announce_handle
from loopcore.log import logger

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.interpreter import get_ident, monotonic
    from cython.cimports.loopcore.kernel.handle import allow_cancel_in_threads, make_handle, make_timer
else:
    from loopcore._native.interpreter import get_ident, monotonic
    from loopcore.kernel.handle import allow_cancel_in_threads, make_handle, make_timer

_CLOSED, _IDLE, _DEBUG = flags.CLOSED, flags.IDLE, flags.DEBUG
_WATCHING_HANDLES, _WATCHING_TICKS = flags.WATCHING_HANDLES, flags.WATCHING_TICKS
_THREADSAFE = THREADSAFE
_PUSHES_DIRECTLY = bool(cython.compiled) and not sysconfig.get_config_var("Py_GIL_DISABLED")
"""Whether another thread may push on the ready queue: compiled, `push` is one step under the GIL."""


class Queues:
    """The queues of a loop. Thread: the loop's own, except where a method says otherwise."""

    __slots__ = (
        "ready",
        "timers",
        "inbox",
        "microtasks",
        "phase_callbacks",
        "probes",
        "clock",
        "slow_callback_duration",
        "watching",
        "watching_transports",
        "bytes_received",
        "bytes_sent",
        "unflushed",
        "stats",
        "_slow_path_flags",
        "_observed",
        "_timing",
        "_window_is_open",
        "_sampler",
        "_microtasks_pending",
        "_has_phase_callbacks",
        "_native_clock",
        "_time_read",
        "_thread_id",
        "_owner",
        "_waiting",
        "_immediates",
        "_flushes",
        "_closing",
        "__weakref__",
    )

    def __init__(self, wake: Callable[[], None], clock: Clock, probes: Probes) -> None:
        self.ready: ReadyQueue = ReadyQueue()
        self.timers: TimerHeap = TimerHeap()
        self.inbox: Inbox = Inbox(wake)
        self.microtasks: MicrotaskQueues = MicrotaskQueues(MICROTASK_BUDGET)
        self.phase_callbacks: PhaseCallbacks = PhaseCallbacks()
        self.probes: Probes = probes
        self.clock: Clock = clock
        self.slow_callback_duration: float = 0.1
        """Seconds from which a callback is reported as slow, in debug mode or by a meter."""
        self.watching: bool = False
        """Whether a plugin watches handles and tasks."""
        self.watching_transports: bool = False
        self.bytes_received: int = 0
        """Bytes that all transports have received from the kernel."""
        self.bytes_sent: int = 0
        """Bytes that the kernel has accepted from all transports."""
        self.unflushed: int = 0
        """Bytes that transports have queued since the last flush, or a little more."""
        self.stats: LoopStats = LoopStats()
        self._slow_path_flags: int = _IDLE
        self._observed: bool = False
        self._timing: bool = False
        self._window_is_open: bool = False
        self._sampler: Any = None
        self._microtasks_pending: bool = False
        self._has_phase_callbacks: bool = False
        self._native_clock: bool = type(clock) is MonotonicClock
        self._time_read: float = 0.0
        self._thread_id: int | None = None
        self._owner: int = 0  # the thread as a C integer, 0 for none: every post from another thread compares it
        self._waiting: bool = False
        self._immediates: list[Handle] = []
        self._flushes: list[Runnable] = []
        self._closing: list[Closeable] = []
        probes.belong_to(self)

    def __cinit__(self) -> None:
        # Compiled only, where attributes are C's: a loop whose `__init__` never ran counts as closed, and cannot crash.
        # The objects made here are never None: the tick and the scheduling methods use them without a check.
        self._slow_path_flags = _CLOSED
        self.ready = ReadyQueue()
        self.timers = TimerHeap()
        self.inbox = Inbox.__new__(Inbox)
        self.microtasks = MicrotaskQueues(MICROTASK_BUDGET)
        self.stats = LoopStats()
        self._flushes = []

    def get_debug(self) -> bool:
        """Return whether debug mode is on."""
        return bool(self._slow_path_flags & _DEBUG)

    def set_debug(self, enabled: bool) -> None:
        """Turn debug mode on or off: creation tracebacks, slow callbacks, calls from the wrong thread."""
        self._set_slow_path_flag(_DEBUG, bool(enabled))
        self.timers.debug = self.get_debug()

    def is_closed(self) -> bool:
        """Return whether the loop was closed."""
        return bool(self._slow_path_flags & _CLOSED)

    def is_waiting(self) -> bool:
        """Return whether the loop is in its backend's wait (or a hook around it), not in a callback. Thread: any."""
        return self._waiting and self._thread_id is not None

    def _is_elsewhere(self) -> bool:
        """Return whether another thread runs the loop now: its state must be left to that thread. Thread: any."""
        return self._owner != 0 and self._owner != get_ident()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Report an error that cannot be raised in a caller. Subclasses override this; here it is only logged."""
        logger.error(context.get("message"), exc_info=context.get("exception"))

    # Scheduling, as in asyncio

    def time(self) -> float:
        """Return the loop's time, in seconds of its clock. Thread: any."""
        return self._now()

    def _now(self) -> float:
        self._time_read = monotonic() if self._native_clock else self.clock.now()
        return self._time_read

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Handle:
        """Call `callback(*args)` in the next tick, after the callbacks that were scheduled before.

        `context` is the context to run in, by default a copy of the current one. Raises RuntimeError if the loop is
        closed. Debug mode also raises RuntimeError in another thread, and TypeError if `callback` is not callable.
        """
        if self._slow_path_flags:
            handle = self._make_watched(callback, args, context, "soon", "call_soon")
        else:
            handle = make_handle(callback, args, self, context)
        self.ready.push(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        """Call `callback(*args)` in `delay` seconds, at the earliest. Raises as `call_soon`."""
        if delay is None:
            raise TypeError("delay must not be None")
        return self._set_timer(self._now() + delay, callback, args, context, "call_later")

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        """Call `callback(*args)` at `when`, in seconds of `time()`. Equal deadlines fire in the order they were set."""
        if when is None:
            raise TypeError("when cannot be None")
        return self._set_timer(when, callback, args, context, "call_at")

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        """Call `callback(*args)` soon in the loop's thread. Thread: any; also from a signal handler.

        Callbacks of one thread run in the order in which it posted them. Raises RuntimeError if the loop is closed. A
        callback posted before the close that has not run by then is cancelled, so its handle shows that it never will.
        A thread that posts faster than the loop gets the GIL sleeps for a moment now and then (docs/adr/0014).
        """
        if self._slow_path_flags & ~_IDLE:
            handle = self._make_watched(callback, args, context, "threadsafe", "call_soon_threadsafe")
        else:
            handle = make_handle(callback, args, self, context)
        allow_cancel_in_threads(handle)
        if self._owner == get_ident():
            # In one order with `call_soon`, as in asyncio for a program on the loop's own thread.
            self.ready.push(handle)
            self.inbox.interrupt()  # this may be a signal handler inside the wait, which would resume (PEP 475)
        else:
            self._post(handle)
        return handle

    def _post(self, handle: Handle) -> None:
        direct = _PUSHES_DIRECTLY and self._sampler is None and self.ready.has_room()
        if direct and not self._slow_path_flags and self.inbox.is_clear():
            # The GIL is held from the test of `_slow_path_flags` to the end of the push: the loop runs, and its queue
            # is consistent.
            self.stats.threadsafe_posts += 1
            self.ready.push(handle)
            self.inbox.tell(True)
        else:
            if self._sampler is not None:
                self._sampler.stamp(handle, _THREADSAFE)
            self.inbox.post(handle, not self._slow_path_flags & _IDLE)
        if self._slow_path_flags & (_CLOSED | _IDLE):
            self._note_late(handle)

    # Scheduling, as in Node

    def call_immediate(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Handle:
        """Call `callback(*args)` in the check phase: of this tick if that is still to come, else of the next."""
        handle = self._make(callback, args, context, "immediate", "call_immediate")
        self._immediates.append(handle)
        return handle

    def next_tick(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Handle:
        """Call `callback(*args)` right after the current callback, before any other."""
        handle = self._make(callback, args, context, "next_tick", "next_tick")
        self.microtasks.push_next_tick(handle)
        self._microtasks_pending = True
        return handle

    def queue_microtask(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Handle:
        """Call `callback(*args)` right after the current callback and all next-ticks."""
        handle = self._make(callback, args, context, "microtask", "queue_microtask")
        self.microtasks.push_microtask(handle)
        self._microtasks_pending = True
        return handle

    def add_phase_callback(
        self,
        phase: str,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
        once: bool = False,
    ) -> Handle:
        """Call `callback(*args)` in each tick's `phase` (idle, prepare, check) until cancelled, or `once`."""
        check_callback(callback, "add_phase_callback")  # one that is not callable would fail in every tick
        handle = self._make(callback, args, context, "phase", "add_phase_callback")
        self.phase_callbacks.add(phase, handle, once)
        self._has_phase_callbacks = True
        return handle

    # For the parts of the loop

    def schedule(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None) -> None:
        """Do as `call_soon`, for the parts of the loop: compiled code calls it without unpacking arguments."""
        if self._slow_path_flags:
            self.call_soon(callback, *args, context=context)
        else:
            self.ready.push(make_handle(callback, args, self, context))

    def push(self, runnable: Runnable) -> None:
        """Put `runnable` itself on the ready queue: a task that is due, a step of a transport."""
        self.ready.push(runnable)

    def flush_soon(self, runnable: Runnable) -> None:
        """Run `runnable` at the end of this tick, when no more data is added to its write."""
        if runnable is None:  # compiled, None would be run
            raise TypeError("flush_soon() takes what is to be run, not None")
        self._flush_soon(runnable)

    def _flush_soon(self, runnable: Runnable) -> None:  # compiled, without a look-up in the loop's own class
        self._flushes.append(runnable)

    def close_soon(self, resource: Closeable) -> None:
        """Close `resource` in the close phase of this tick, or when the loop is closed."""
        self._closing.append(resource)

    def _timer_handle_cancelled(self, timer: TimerHandle) -> None:
        self.timers.note_cancelled(timer)

    def _set_timer(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None, method: str
    ) -> TimerHandle:
        when = when + 0.0  # raises for anything but a number, before it is in the heap
        if when != when:
            raise ValueError(f"{method}() was given NaN, which no clock will ever show")
        if self._slow_path_flags:
            self._check(callback, method)
            timer = TimerHandle(when, callback, args, self, context)
            if self.watching:
                announce_handle(self, timer, "timer")
        else:
            timer = make_timer(when, callback, args, self, context)
        self.timers.push(timer)
        return timer

    def _make(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None, source: str, method: str
    ) -> Handle:
        if self._slow_path_flags:
            handle = self._make_watched(callback, args, context, source, method)
        else:
            handle = make_handle(callback, args, self, context)
        if self._sampler is not None:
            self._sampler.stamp(handle, SOURCES.index(source))
        return handle

    def _make_watched(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None, source: str, method: str
    ) -> Handle:
        self._check(callback, method)
        handle = Handle(callback, args, self, context)
        if self.watching:
            announce_handle(self, handle, source)
        return handle

    def _check(self, callback: Callable[..., object], method: str) -> None:
        """Do the checks that the ordinary case skips: refuse misuse, keep order with earlier posts."""
        self._check_closed()
        if method != "call_soon_threadsafe":
            self._check_caller()
            self._empty_inbox_while_idle()
        if self._slow_path_flags & _DEBUG:
            check_callback(callback, method)

    def _check_closed(self) -> None:
        if self._slow_path_flags & _CLOSED:
            raise RuntimeError("Event loop is closed")

    def _check_caller(self) -> None:
        """In debug mode, refuse a call from another thread."""
        if self._slow_path_flags & _DEBUG and self._thread_id is not None and self._thread_id != threading.get_ident():
            raise RuntimeError("Non-thread-safe operation invoked on an event loop other than the current one")

    def _note_late(self, handle: Handle) -> None:
        if self._slow_path_flags & _CLOSED:
            # Callbacks in the inbox of a closed loop are never drained: raise, unless the handle has already run.
            self.inbox.discard()
            if handle.cancelled():
                self._check_closed()

    def _rest(self) -> None:
        """Note that a run has ended."""
        self._thread_id = None
        self._owner = 0
        self._slow_path_flags |= _IDLE

    def _empty_inbox_while_idle(self) -> None:
        # no tick drains them, and callbacks scheduled later must not overtake them
        if self._slow_path_flags & _IDLE:
            self._empty_inbox()

    def _empty_inbox(self) -> None:
        if not self._window_is_open:
            self.stats.threadsafe_posts += self.inbox.drain_into(self.ready)
            return
        handles = self.inbox.take()
        self.stats.threadsafe_posts += len(handles)
        for handle in handles:
            self._sampler.stamp_posted(handle)
            self.ready.push(handle)

    def _note_plugins(self) -> None:
        self.watching = self.probes.watching_handles
        self.watching_transports = self.probes.watching_transports
        self._set_slow_path_flag(_WATCHING_HANDLES, self.probes.watching_handles)
        self._set_slow_path_flag(_WATCHING_TICKS, self.probes.watching_ticks)

    def _set_slow_path_flag(self, flag: int, on: bool) -> None:
        self._slow_path_flags = self._slow_path_flags | flag if on else self._slow_path_flags & ~flag
        self._note_observers()

    # separate from `_slow_path_flags`, which sends scheduling calls down the slow path
    def _note_observers(self) -> None:
        self._observed = self._timing or bool(self._slow_path_flags & (_DEBUG | _WATCHING_HANDLES))

    def _set_timing(self, on: bool) -> None:
        self._timing = on
        self._observed = on or bool(self._slow_path_flags & (_DEBUG | _WATCHING_HANDLES))
