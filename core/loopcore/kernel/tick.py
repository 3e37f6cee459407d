"""The tick: eight phases, in order.

**The work of a tick is fixed at the moment the wait returns**: the callbacks that are ready, the events, the timers
that are due. Callbacks that these schedule belong to the next tick. From that sentence follow asyncio's order (ready
callbacks, then I/O, then timers) and Node's (an immediate set in an I/O callback precedes a zero-delay timer).
docs/reference/tick.md lists the phases.

`begin_tick` runs idle, prepare and poll, `run_phases` the five after the wait. The functions of these five return a
count for hooks: the callbacks that they ran or, for `run_closing`, the resources that it closed. The functions here
know nothing of observers: `loopcore.kernel.observed` calls the same phases between hooks.
"""

from typing import TYPE_CHECKING, Any

from loopcore.hooks import sources
from loopcore.hooks.observer import DUE
from loopcore.kernel import phases
from loopcore.kernel.handle import Handle
from loopcore.kernel.limits import LONGEST_WAIT, RECEIVE_BUDGET
from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore.ports.operations import Operation

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.interpreter import to_ns
else:
    from loopcore._native.interpreter import to_ns

if TYPE_CHECKING:
    from loopcore.kernel.scheduler import Scheduler

_NO_EVENTS = phases.NO_EVENTS
_NEVER = float("inf")
_DUE = DUE
_LONGEST = 1e9  # seconds: `call_at(-inf)` is allowed, and nanoseconds are of 64 bits
_RECEIVE_BUDGET, _NO_BUDGET = RECEIVE_BUDGET, 1 << 62
_READABLE, _WRITABLE = READ | ERROR | HANGUP, WRITE | ERROR | HANGUP
_IDLE, _PREPARE, _CHECK = phases.IDLE, phases.PREPARE, phases.CHECK
_PHASE, _FLUSH = sources.PHASE, sources.FLUSH


# Idle, prepare, poll


def begin_tick(loop: "Scheduler") -> list[tuple[Any, ...]]:
    """Run the phases idle, prepare and poll; return the events of the wait."""
    if loop._tick_observed or loop._has_phase_callbacks:
        loop._run_first_phases()
    if not has_work(loop):
        timeout = time_to_deadline(loop)
        # Both may drop the last reference to an object, whose finalizer may schedule work.
        return poll(loop, 0.0 if has_work(loop) else timeout)
    events, loop._deferred_events = loop._deferred_events, None
    if loop._stopping or (events is None and loop._poller.must_poll()):
        return poll(loop, 0.0)
    loop._stats.polls_skipped += 1
    if loop._timers.earliest != _NEVER:  # `call_later` has read the clock: a timer without delay is due at `last`
        collect_due(loop, loop._clock.last)
    return _NO_EVENTS if events is None else events


def has_work(loop: "Scheduler") -> bool:
    """Return whether there is work to do now, so that a wait must not block."""
    # First the calls that run Python code, in which a signal handler or a finalizer may schedule work.
    if loop._has_phase_callbacks and loop._phase_callbacks.has(_IDLE):
        return True
    if loop._policy is not None and loop._policy.count_held():
        return True
    return bool(
        loop._ready._count
        or loop._inbox._woken
        or loop._microtasks.pending
        or loop._immediates
        or loop._flushes._count
        or loop._closing
        or loop._deferred_events is not None
        or loop._due  # in a nested tick, after an observer has exited, or if a host has left out `process_ready`
    )


def time_to_deadline(loop: "Scheduler") -> float:
    """Return how long the wait may take, in seconds; negative for no limit."""
    if loop._stopping:
        return 0.0
    deadline = loop._timers.next_deadline()
    if deadline == _NEVER:
        return -1.0
    return min(max(deadline - loop._clock.now(), 0.0), LONGEST_WAIT)


def poll(loop: "Scheduler", timeout: float) -> list[tuple[Any, ...]]:
    """Wait for events, and collect them and the timers that are due; nothing is run."""
    loop._waiting = True  # for other threads; an interruption leaves it set until the next wait, which is soon
    events = loop._wait(timeout)
    loop._waiting = False
    loop._stats.events += len(events)
    if loop._timers.earliest != _NEVER:
        collect_due(loop, loop._clock.now())
    return events


def collect_due(loop: "Scheduler", now: float) -> None:
    """Collect the timers that are due at `now`; one that is due within one step of the clock is due now."""
    limit = now + loop._clock.resolution
    if loop._timers.earliest < limit:
        due = loop._timers.pop_due(limit)
        loop._stats.timers_fired += len(due)
        # Added to, not replaced: a host may have left out `process_ready`, a callback may run a nested tick.
        loop._due = loop._due + due if loop._due else due
        if loop._observers.wants & _DUE:  # last: a signal handler may exit while an observer runs Python
            for timer in due:
                loop._observers.report(_DUE, timer, to_ns(min(now - timer._when, _LONGEST)))


# Pending, io, check, timers, close


def run_phases(loop: "Scheduler") -> None:
    """Run the phases after the wait that have work to do."""
    run_pending(loop)
    if loop._events is not _NO_EVENTS:
        run_io(loop)
    if loop._immediates or loop._has_phase_callbacks:
        run_check(loop)
    if loop._due:
        run_timers(loop)
    if loop._flushes._count:
        run_flushes(loop)
    if loop._closing:
        run_closing(loop)


def run_pending(loop: "Scheduler") -> int:
    """Run the callbacks that were ready when the wait returned."""
    # May be spurious: the previous tick may have drained this post before the poster set the flag.
    if loop._inbox._woken:
        loop._empty_inbox()
    if loop._microtasks.pending:
        loop._runner.run_microtasks()
    count = loop._ready._count
    for _ in range(count):
        runnable = loop._ready.pop()
        if runnable is None:
            break  # a callback has run the loop itself, or closed it
        loop._runner.run_alone(runnable)
        runnable = None  # dropping it may run a finalizer that schedules work
        if loop._microtasks.pending:
            loop._runner.run_microtasks()
        if loop._unflushed > loop.flush_limit:
            flush_early(loop)
    return count


def run_io(loop: "Scheduler") -> int:
    """Dispatch the events of the wait."""
    events, loop._events = loop._events, _NO_EVENTS
    if loop._completions is not None:
        return run_completions(loop, events)
    tick = loop._readiness.tick
    # While callbacks are ready, a tick that has received much defers the rest of its events: see RECEIVE_BUDGET.
    enough = _NO_BUDGET if loop._ready._count else loop._bytes_received + _RECEIVE_BUDGET
    count = 0
    for position, (fd, bits) in enumerate(events, 1):
        count += run_ready(loop, fd, bits, tick)
        if loop._unflushed > loop.flush_limit:
            flush_early(loop)
        if loop._bytes_received >= enough and loop._ready._count:
            count += defer_events(loop, events, position, tick)
            break
    return count


def run_ready(loop: "Scheduler", fd: int, bits: int, tick: int) -> int:
    """Run the reader and the writer that an event is for, unless they were registered after the wait."""
    entry = loop._readiness.lookup(fd)
    if entry is None:
        return 0
    count = 0
    # Not readers and writers that were registered in this tick, or in a nested tick of one of its callbacks.
    if bits & _READABLE and entry.reader is not None and entry.reader_tick < tick:
        loop._runner.run(entry.reader)
        count += 1
    if bits & _WRITABLE and entry.writer is not None and entry.writer_tick < tick:
        loop._runner.run(entry.writer)
        count += 1
    return count


def defer_events(loop: "Scheduler", events: list[tuple[Any, ...]], position: int, tick: int) -> int:
    """Defer the events behind `position` to the next tick, except those for the program's own callbacks.

    Sockets tolerate an event that is no longer true, the program's callbacks need not. Those run now.
    """
    later = []
    kept = []
    for event in events[position:]:
        entry = loop._readiness.lookup(event[0])
        if entry is not None and (isinstance(entry.reader, Handle) or isinstance(entry.writer, Handle)):
            kept.append(event)
        else:
            later.append(event)
    loop._deferred_events = later or None
    count = 0
    for fd, bits in kept:
        count += run_ready(loop, fd, bits, tick)
    return count


def run_completions(loop: "Scheduler", events: list[tuple[Any, ...]]) -> int:
    """Dispatch the completions of the wait."""
    tick = loop._readiness.tick
    count = position = 0
    if events:  # else this tick did not wait, and the last wait's completions are still due
        loop._completions.handed = None
    try:
        for operation, result, more in events:
            position += 1
            count += run_completion(loop, operation, result, more, tick)
            if loop._unflushed > loop.flush_limit:
                flush_early(loop)
    except BaseException as exc:
        # Unlike readiness, a completion is reported only once.
        loop._completions.keep(events[position:], exc)
        raise
    return count


def run_completion(loop: "Scheduler", operation: Operation, result: Any, more: bool, tick: int) -> int:
    """Run the target of an operation that has completed."""
    operation.result, operation.pending = result, more
    if operation.target is not None:
        loop._runner.run(operation.target)
        return 1
    return run_ready(loop, operation.fd, loop._completions.polls.take(operation), tick)


def run_check(loop: "Scheduler") -> int:
    """Run the immediates that were set before this phase, then the callbacks attached to it."""
    immediates, loop._immediates = loop._immediates, []
    position = 0
    try:
        for runnable in immediates:
            position += 1
            loop._runner.run(runnable)
            if loop._unflushed > loop.flush_limit:
                flush_early(loop)
    except BaseException:
        for runnable in immediates[position:]:
            loop._ready.push(runnable)
        raise
    return position + run_phase_callbacks(loop, _CHECK)


def run_phase_callbacks(loop: "Scheduler", phase: str) -> int:
    """Run the callbacks that the program has attached to a phase."""
    if not loop._has_phase_callbacks:
        return 0
    outer, loop._source = loop._source, _PHASE
    entries = loop._phase_callbacks.live(phase)
    position = 0
    try:
        for handle, _ in entries:
            position += 1
            loop._runner.run(handle)
    except BaseException:
        if not loop.is_closed():
            loop._phase_callbacks.keep(phase, entries[position:])
        raise
    finally:
        loop._has_phase_callbacks = bool(loop._phase_callbacks)
        loop._source = outer
    return len(entries)


def run_timers(loop: "Scheduler") -> int:
    """Run the timers that were due when the wait returned."""
    due: list[Any] = loop._due
    loop._due = []
    try:
        for position in range(len(due)):
            runnable = due[position]
            due[position] = None  # freed as soon as it has run, not after thousands of others
            loop._runner.run(runnable)
            if loop._unflushed > loop.flush_limit:
                flush_early(loop)
    except BaseException:
        for runnable in due:
            if runnable is not None:
                loop._ready.push(runnable)
        raise
    runnable = None  # a live traceback would pin it
    return len(due)


def run_flushes(loop: "Scheduler") -> None:
    """Send what transports have held back until the end of the tick."""
    loop._unflushed = 0
    runnable = None
    try:
        for _ in range(loop._flushes._count):
            runnable = loop._flushes.pop()
            if runnable is None:
                break  # a callback has run the loop itself, or closed it
            loop._runner.run(runnable)
    except BaseException:
        if runnable is not None:
            loop._flushes.push(runnable)  # running it a second time does nothing
        raise


def flush_after_error(loop: "Scheduler") -> None:
    """After an exception has ended a run, send what transports have held back: asyncio has sent it at once.

    Runs no microtasks. Errors are reported. Thread: the loop's own.
    """
    loop._unflushed = 0
    for _ in range(loop._flushes._count):
        runnable = loop._flushes.pop()
        if runnable is None:
            break  # the loop was closed
        try:
            loop._runner.run_alone(runnable)
        except BaseException as exc:  # reported, but must not replace the exception that ended the run
            loop.call_exception_handler({"message": "Exception in a tick of the loop", "exception": exc})


def flush_early(loop: "Scheduler") -> None:
    """Flush between two callbacks the writes held back for the end of the tick: they have become too large."""
    outer, loop._source = loop._source, _FLUSH
    try:
        run_flushes(loop)
    finally:
        loop._source = outer


def run_closing(loop: "Scheduler") -> int:
    """Close the descriptors that were given up in this tick."""
    closing, loop._closing = loop._closing, []
    count = 0
    for resource in closing:
        count += 1
        try:
            resource.close()
        except (SystemExit, KeyboardInterrupt):
            loop._closing = closing[count:] + loop._closing
            raise
        except BaseException as exc:
            loop.call_exception_handler({"message": f"Closing {resource!r} failed", "exception": exc})
    return count


def defer_timers(loop: "Scheduler") -> None:
    """Keep the due timers of a tick that ends early: they would not become due again, as events are reported again."""
    for timer in loop._due:
        loop._ready.push(timer)
    loop._due = []
