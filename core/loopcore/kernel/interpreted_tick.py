"""The tick of the pure build: the reactor's, with its calls inlined (docs/adr/0002).

Compiled, a call between two methods of the kernel costs next to nothing, and the kernel consists of small methods.
Interpreted, a call costs as much as all the rest of such a method. So the code that runs for each callback, each event
and each tick is here once more, in one piece, for the ordinary case: no observers, no policy, no phase callbacks.
Everything else is left to the reactor.

Both implement one contract, and the tests of loops run in both builds. Thread: the loop's own.
"""

from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from typing import Any

from loopcore.interest import ERROR, HANGUP, READ, WRITE
from loopcore.kernel import flags
from loopcore.kernel.handle import Handle
from loopcore.kernel.interpreted_ready import as_runnable
from loopcore.kernel.interpreted_steps import KEEPS_CONTEXT, STEP, WAKEUP, WAKEUP_NAME, Task, note_end, step_failed
from loopcore.kernel.limits import CLOCK_TICKS
from loopcore.kernel.reactor import Reactor

_IDLE, _DEBUG = flags.IDLE, flags.DEBUG
_OBSERVING = flags.DEBUG | flags.WATCHING_HANDLES | flags.WATCHING_TICKS
_READ = READ
_READABLE = READ | ERROR | HANGUP
_WRITABLE = WRITE | ERROR | HANGUP
_NEVER = float("inf")
_NO_EVENTS: Sequence[Any] = ()
_CLOCK_TICKS = CLOCK_TICKS
_STEP, _WAKEUP, _Task, _KEEPS_CONTEXT = STEP, WAKEUP, Task, KEEPS_CONTEXT
_new = object.__new__

_LONG_TICKS = 3
"""After a tick of `poll_skip_time` divided by this, the loop polls: interpreted, a poll is cheap in comparison."""


class InterpretedReactor(Reactor):
    """The reactor of an installation without a compiler."""

    __slots__ = ()

    def get_debug(self) -> bool:
        return self._slow_path_flags & _DEBUG != 0  # each of asyncio's tasks and futures calls it

    def _set_slow_path_flag(self, flag: int, on: bool) -> None:
        before = self._slow_path_flags
        self._slow_path_flags = now = before | flag if on else before & ~flag
        if (before ^ now) & _OBSERVING:
            self._note_observers()

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        if context is not None:
            kind = type(callback)
            if kind is _STEP or kind is _WAKEUP:
                call: Any = callback
                task: Any = call.__self__
                if type(task) is _Task and (
                    kind is _STEP or (call.__name__ == WAKEUP_NAME and args[0] is task._fut_waiter)
                ):
                    if _KEEPS_CONTEXT:
                        task._kept_context = context
                    if self._slow_path_flags:
                        self._announce_step(task, callback, args)
                    # Without a Handle: the task refers to its context and to the future it waits for.
                    self.ready.push(call)
                    return callback
        if self._slow_path_flags and (self._slow_path_flags != _IDLE or self.inbox._handles):
            handle = self._make_watched(callback, args, context, "soon", "call_soon")
        else:
            handle = _new(Handle)
            handle._callback = callback
            handle._args = args
            handle._kept_context = copy_context() if context is None else context
            handle._loop = self
            handle._cancelled = False
            handle._takes_turns = False
            handle._source_traceback = None
            handle._repr = None
        self.ready.push(handle)
        return handle

    def _announce_step(self, task: Any, callback: Any, args: tuple[Any, ...]) -> None:
        self._check(callback, "call_soon")
        if self.watching:
            self.probes.fire("loopcore_task_woken", self, task, args[0] if args else None)

    def _begin_tick(self) -> Any:
        ready: Any = self.ready
        if self._tick_observed or self._has_phase_callbacks or self._order is not None:
            return Reactor._begin_tick(self)
        if not (
            ready._entries
            or self._microtasks_pending
            or self._immediates
            or self._flushes
            or self._closing
            or self.inbox._woken  # may be spurious, but no post wakes while it is set
        ):
            if self._stopping:
                return self._poll(0.0)
            if self.timers.earliest == _NEVER:
                if self._poll_observed or self._sampler is not None:
                    return Reactor._poll(self, -1.0)
                self._waiting = self._rested = True  # `_poll`, inlined
                self.readiness.changed = False
                events = self._port.wait(None)
                self._waiting = False
                self._skipped = 0
                self.readiness.tick += 1
                self.stats.events += len(events)
                if self.timers.earliest != _NEVER:  # a signal handler has set a timer
                    self._collect_due(self._now())
                return events
            timeout = self._time_to_deadline()
            return self._poll(0.0 if self._has_work() else timeout)  # a finalizer may have scheduled work
        self._skipped = skipped = self._skipped + 1
        completions = self.completions
        if self._stopping or skipped > self.poll_skip_ticks or (completions is not None and completions.submitted):
            return self._poll(0.0)
        if self.readiness._table if completions is None else completions.is_used:  # `_polls_now`, inlined
            if skipped > 1 or not self._rested or self.readiness.changed:
                return self._poll(0.0)
        elif skipped % _CLOCK_TICKS == 0 or not skipped & (skipped - 1):
            now = self._now()
            if skipped == 1:
                self._skipping_since = now
            elif now - self._skipping_since >= self.poll_skip_time / (_LONG_TICKS if skipped == 2 else 1):
                return self._poll(0.0)
        self.stats.polls_skipped += 1
        if self.timers.earliest < self._time_read + self._clock_resolution:
            self._collect_due(self._time_read)
        return _NO_EVENTS

    def _poll(self, timeout: float) -> Any:
        if self._poll_observed or self._sampler is not None:
            return Reactor._poll(self, timeout)
        self._waiting = True
        self._rested = timeout != 0.0
        self.readiness.changed = False
        events = self._port.wait(None if timeout < 0.0 else timeout)
        self._waiting = False
        self._skipped = 0
        self.readiness.tick += 1
        self.stats.events += len(events)
        if self.timers.earliest != _NEVER:
            self._collect_due(self._now())
        return events

    def _finish_tick(self) -> int:
        if self._tick_observed:
            return Reactor._finish_tick(self)
        try:
            inbox = self.inbox
            ready: Any = self.ready
            if ready._entries or inbox._woken or inbox._handles or self._microtasks_pending:
                self._run_pending()
            if self._events:
                self._run_io()
            if self._immediates or self._has_phase_callbacks:
                self._run_check()
            if self._due:
                self._run_timers()
            if self._flushes:
                self._run_flushes()
            if self._closing:
                self._run_closing()
        except (SystemExit, KeyboardInterrupt):
            self._defer_timers()
            raise
        except BaseException as exc:
            self._defer_timers()
            self.call_exception_handler({"message": "Exception in a tick of the loop", "exception": exc})
        return 0

    def _run_flushes(self) -> None:
        if self._observed:
            Reactor._run_flushes(self)
            return
        self.unflushed = 0
        flushes = self._flushes
        self._flushes = []
        stats = self.stats
        try:
            for runnable in flushes:
                stats.callbacks += 1
                runnable._run()
                if self._microtasks_pending:
                    self._run_microtasks()
        except BaseException:
            self._flushes = flushes + self._flushes  # running one of them a second time does nothing
            raise

    def _run_pending(self) -> int:
        if self.inbox._woken or self.inbox._handles:
            self._empty_inbox()
        if self._microtasks_pending:
            self._run_microtasks()
        ready: Any = self.ready
        runnable: Any
        context: Any = None
        stats = self.stats
        count = len(ready._entries)
        for _ in range(count):
            try:
                runnable = ready.next()
            except IndexError:
                break  # a callback has run the loop itself, or closed it
            stats.callbacks += 1
            kind = type(runnable)
            if self._observed:
                self._run_observed(as_runnable(runnable), self._source)
            elif kind is _STEP or kind is _WAKEUP:
                stats.task_steps += 1
                task = runnable.__self__
                context = task._kept_context if _KEEPS_CONTEXT else task.get_context()
                try:
                    if kind is _STEP:
                        context.run(runnable)
                    else:
                        context.run(runnable, task._fut_waiter)
                except (SystemExit, KeyboardInterrupt):
                    if task.done():  # otherwise a signal handler raised it before the coroutine ran
                        note_end(task, self)
                    raise
                except BaseException as exc:
                    step_failed(runnable, exc)
                if task.done():
                    if self.watching or task.cancelled() or task._exception is not None:
                        note_end(task, self)
                    else:
                        stats.tasks_finished += 1
            elif kind is not Handle or runnable._takes_turns:
                runnable._run()
            elif not runnable._cancelled:
                try:
                    if not runnable._args:
                        runnable._kept_context.run(runnable._callback)
                    elif len(runnable._args) == 1:  # passing them with `*` makes a list and a tuple
                        runnable._kept_context.run(runnable._callback, runnable._args[0])
                    else:
                        runnable._kept_context.run(runnable._callback, *runnable._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as exc:
                    runnable._report(exc)
            runnable = None  # dropping the callback may run a finalizer that sets a next-tick
            if self._microtasks_pending:
                self._run_microtasks()
            if self.unflushed > self.flush_limit:
                self._flush_early()
        runnable = task = context = None  # a live traceback would pin this frame, and through it the finished task
        return count

    def _run_io(self) -> int:
        if self._tick_observed:
            return Reactor._run_io(self)  # an observer needs the number of callbacks
        events = self._events
        self._events = _NO_EVENTS
        if self.completions is not None:
            return self._run_completions(events)
        readiness = self.readiness
        table = readiness._table
        tick = readiness.tick
        stats = self.stats
        reader: Any = None
        for fd, bits in events:
            entry = table.get(fd)
            if entry is None:
                continue
            if bits == _READ or bits & _READABLE:
                reader = entry.reader
                if reader is not None and entry.reader_tick < tick:
                    kind = type(reader)
                    if self._observed:
                        self._run_one(reader)
                    else:
                        stats.callbacks += 1
                        if kind is _Receiver:
                            if reader.reading:
                                reader.context.run(_receive, reader)
                        elif kind is not Handle or reader._cancelled:
                            reader._run()
                        else:
                            try:
                                if reader._args:
                                    reader._kept_context.run(reader._callback, *reader._args)
                                else:
                                    reader._kept_context.run(reader._callback)
                            except (SystemExit, KeyboardInterrupt):
                                raise
                            except BaseException as exc:
                                reader._report(exc)
                        if self._microtasks_pending:
                            self._run_microtasks()
            if bits != _READ and bits & _WRITABLE and entry.writer is not None and entry.writer_tick < tick:
                self._run_one(entry.writer)
            if self.unflushed and self.unflushed > self.flush_limit:
                self._flush_early()
        reader = None  # as in _run_pending
        return 0


class _NoReceiver:
    """A type without instances, until a driver is registered."""


_Receiver: type = _NoReceiver
_receive: Any = None


def receive_directly(driver: Any) -> None:
    """Make ticks call `_receive` of readers of exactly this class, in their context, while they read: one call less."""
    global _Receiver, _receive
    _Receiver, _receive = driver, driver._receive
