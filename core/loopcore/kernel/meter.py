"""The meter: where the time of a loop goes, measured at a bounded cost.

Reading the clock costs 20 to 140 nanoseconds, a callback 130: timing every callback would double the work of a busy
loop. So there are two parts, while a meter is on:

- **exact**, from the clock, read when a poll returns and before one that may block: time spent waiting and time spent
  working, and the working time between two waits as a histogram. A callback that blocks is never missed, because it is
  in that histogram. The lateness of timers costs nothing more: the clock has been read by then.
- **sampled**, by *windows*: when `window` seconds have passed since the last one, the next poll opens a window. The
  callbacks of that poll's tick are timed one by one, those that they schedule are stamped, and in the next ticks the
  stamped ones are timed until they have run. A window stamps at most `WINDOW_RUNS` callbacks and times at most as many
  others, which bounds the cost: 1/`window` windows a second of so many callbacks each. With `window=0` there is one
  window, which does not end: every callback is measured, and the loop is slower for it.

`CallbackSampler` does the measuring, one per loop, and all `Meter`s of the loop share it. It is an observer like any
other (`loopcore.hooks.observer`), and asks for callbacks only while a window is open. Times are the machine's, also
on a loop whose own clock is simulated, except the lateness of timers.
"""

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from loopcore.errors import UsageError
from loopcore.hooks import observer as events
from loopcore.hooks.observer import Observer
from loopcore.hooks.sources import IO, PHASE, SOURCES, THREADSAFE, TIMER
from loopcore.kernel.handle import Handle
from loopcore.kernel.histogram import Histogram, HistogramSnapshot
from loopcore.kernel.runnable import Runnable

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.interpreter import identity, monotonic_ns
else:
    from loopcore._native.interpreter import identity, monotonic_ns

if TYPE_CHECKING:
    from loopcore.kernel.scheduler import Scheduler

WINDOW_RUNS = 16
"""Callbacks that a window stamps, and others that it times, at most."""

WINDOW_TICKS = 4
"""Ticks for which a window waits for the callbacks stamped in its first; more than two only if a policy delays them."""

_LONGEST = 1e9  # seconds: thirty years, which as nanoseconds fit into 64 bits
_RUNS = WINDOW_RUNS
_TICKS = WINDOW_TICKS
_THREADSAFE = THREADSAFE
_TIMER = TIMER
_IO = IO
_PHASE = PHASE
_WAIT_BEGINS, _WAIT_ENDS, _DUE = events.WAIT_BEGINS, events.WAIT_ENDS, events.DUE
_TICK_BEGINS, _TICK_ENDS = events.TICK_BEGINS, events.TICK_ENDS
_BEGINS, _ENDS, _QUEUED, _POSTED = events.BEGINS, events.ENDS, events.QUEUED, events.POSTED
_ALWAYS = events.WAIT_BEGINS | events.WAIT_ENDS | events.DUE
_IN_WINDOW = events.TICK_BEGINS | events.TICK_ENDS | events.QUEUED | events.POSTED
_TIMING = events.BEGINS | events.ENDS


class Measurements(NamedTuple):
    """The measurements of a meter since it was turned on."""

    window: float
    """Seconds between two windows; 0.0 if every callback is timed."""
    idle_ns: int
    """Nanoseconds spent in waits that could block, the present one included."""
    active_ns: int
    """Nanoseconds spent otherwise while the loop ran, including signal handlers and preemption by other processes."""
    tick: HistogramSnapshot
    """Working time between two waits, or to the end of a run: one tick, or several without a poll. Exact."""
    lateness: HistogramSnapshot
    """How long after its deadline a timer was found due, on the loop's own clock. Exact."""
    queue_time: dict[str, HistogramSnapshot]
    """By source: from queueing (for timers, readers and writers: from the wait) to the callback's turn. Sampled."""
    run_time: dict[str, HistogramSnapshot]
    """By source: how long callbacks and task steps ran. Sampled."""

    @property
    def utilization(self) -> float:
        """The share of time spent working, 0.0 to 1.0; for an interval, divide the differences of two snapshots."""
        total = self.idle_ns + self.active_ns
        return self.active_ns / total if total else 0.0


class CallbackSampler(Observer):
    """Measures one loop. Thread: the loop's own, except `tell` for POSTED, and `snapshot`."""

    __slots__ = (
        "window_ns",
        "running",
        "is_open",
        "is_timing",
        "meters",
        "_loop",
        "_running",
        "_outer",
        "_stamping",
        "_is_due",
        "_idle_ns",
        "_active_ns",
        "_mark",
        "_waiting",
        "_version",
        "_tick",
        "_lateness",
        "_queue_times",
        "_run_times",
        "_opened_at",
        "_ticks_left",
        "_runs_left",
        "_stamps_left",
        "_stamps",
        "_fixed_at",
    )

    def __init__(self, loop: "Scheduler") -> None:
        Observer.__init__(self, _ALWAYS)
        self._loop: Scheduler = loop
        self.window_ns: int = 0
        """Nanoseconds from the beginning of one window to that of the next; with 0 the window does not end."""
        self.running: bool = False
        """Whether the loop runs: the time between two runs is neither idle nor active."""
        self.is_open: bool = False
        """Whether a window is open."""
        self.is_timing: bool = False
        """Whether callbacks are timed now."""
        self.meters: list[Meter] = []
        # What is being timed, innermost last: identity, source, when it began. More than one if a callback ticks.
        self._running: list[tuple[int, int, int]] = []
        self._outer: list[bool] = []  # whether callbacks were timed outside of this tick
        self._stamping: bool = False  # whether callbacks that are queued now are stamped
        self._is_due: bool = False  # whether the next poll is to open a window
        self._idle_ns: int = 0
        self._active_ns: int = 0
        self._mark: int = 0
        self._waiting: bool = False
        self._version: int = 0
        self._tick: Histogram = Histogram()
        self._lateness: Histogram = Histogram()
        self._queue_times: list[Histogram] = [Histogram() for _ in SOURCES]
        self._run_times: list[Histogram] = [Histogram() for _ in SOURCES]
        self._opened_at: int = -(1 << 60)  # long ago, also by the clock of a machine that has just booted
        self._ticks_left: int = 0
        self._runs_left: int = 0
        self._stamps_left: int = 0
        # The callbacks that were stamped and have not run, by identity, with time and source; kept alive, so that no
        # other object gets the identity.
        self._stamps: dict[int, tuple[Runnable, int, int]] = {}
        self._fixed_at: int = 0

    def tell(self, event: int, what: Any, number: int) -> None:
        """Measure an event (`Observer.tell`)."""
        try:
            self._measure(event, what, number)
        except BaseException as exc:
            self.failure = exc

    def _measure(self, event: int, what: Any, number: int) -> None:
        if event == _BEGINS:
            self._begin(what, number)
        elif event == _ENDS:
            self._end(what)
        elif event == _QUEUED:
            self._stamp(what, number, number != _THREADSAFE)
        elif event == _WAIT_BEGINS:
            self._wait_begins(number != 0)
        elif event == _WAIT_ENDS:
            self._wait_ends()
        elif event == _DUE:
            self._lateness.record(number)
        elif event == _TICK_BEGINS:
            self._tick_begins()
        elif event == _TICK_ENDS:
            self._tick_ends()
        elif event == _POSTED:
            self._stamp(what, _THREADSAFE, True)

    def _want(self) -> None:
        self.wants = _ALWAYS | (_IN_WINDOW if self.is_open else 0) | (_TIMING if self.is_timing else 0)
        self._loop._note_observers()

    # Exact: the two readings of the clock at a poll

    def resume(self) -> None:
        """Called when the loop begins to run, or when the meter is turned on while it runs."""
        if not self.running:
            self._move_on(False, True)

    def pause(self) -> None:
        """Called when the loop stops running."""
        if self.running:
            works = not self._waiting
            passed = self._move_on(False, False)
            if works:  # no wait follows the last tick of a run, and it may be the one that blocked
                self._tick.record(passed)

    def _wait_begins(self, may_block: bool) -> None:
        # A wait that cannot block counts as work.
        if not self.running:
            self.resume()  # a host runs the loop's ticks by their public steps
        if may_block:
            self._tick.record(self._move_on(True, True))
        # A window may open before the wait, so that posts of other threads during the wait are stamped; or after it,
        # because the wait may have been longer than the pause between two windows, and its callbacks would never be
        # measured.
        if self._is_due:
            self.open()

    def _wait_ends(self) -> None:
        waited = self._waiting
        passed = self._move_on(False, True)
        if not waited:
            self._tick.record(passed)
        if self._is_due:
            self.open()

    def _move_on(self, waiting: bool, running: bool) -> int:
        now = monotonic_ns()
        passed = now - self._mark if self.running else 0
        self._version += 1  # odd: the writes that follow belong together
        if self._waiting:
            self._idle_ns += passed
        else:
            self._active_ns += passed
        self._mark = now
        self._is_due = not self.is_open and now - self._opened_at >= self.window_ns
        self._waiting = waiting
        self.running = running
        self._version += 1
        return passed

    # Sampled: windows

    def open(self) -> None:
        """Stamp and time from now on."""
        self.is_open = True
        self._is_due = False
        self._opened_at = self._mark
        self._ticks_left = _TICKS
        self._runs_left = _RUNS
        self._stamps_left = _RUNS
        self._stamps.clear()
        self._stamping = True
        self._want()

    def _tick_begins(self) -> None:
        self._fixed_at = monotonic_ns()
        self._outer.append(self.is_timing)
        self._time(self._runs_left > 0 or len(self._stamps) > 0)

    def _tick_ends(self) -> None:
        outer = self._outer.pop() if self._outer else False
        if self.window_ns > 0:
            self._stamping = False
            self._ticks_left -= 1
            if not self._stamps or self._ticks_left <= 0:
                self.close()
                return
        self._time(outer)

    def _time(self, on: bool) -> None:
        if self.is_timing != on:
            self.is_timing = on
            self._want()

    def close(self) -> None:
        """Time no callback until the next window."""
        self.is_open = self.is_timing = self._stamping = False
        self._stamps.clear()
        self._outer.clear()
        self._want()

    def _stamp(self, runnable: Runnable, source: int, timed: bool) -> None:
        # An existing stamp is kept. A callback of another thread may have been posted when posts were not stamped: its
        # time is unknown. Phase callbacks are in no queue, and may be cancelled without ever having run.
        if not self._stamping or source == _PHASE or identity(runnable) in self._stamps:
            return
        now = monotonic_ns() if timed else 0
        if self.window_ns > 0:
            self._stamps_left -= 1
            if self._stamps_left <= 0:
                self._stamping = False
        self._stamps[identity(runnable)] = (runnable, now, source)

    def _begin(self, runnable: Runnable, source: int) -> None:
        stamped = self._stamps.pop(identity(runnable), None) if self._stamps else None
        if stamped is None and self._runs_left <= 0:
            return
        if isinstance(runnable, Handle) and runnable.cancelled():
            return
        now: int = monotonic_ns()
        if self.window_ns > 0:
            self._runs_left -= 1
        if stamped is not None:
            source = stamped[2]
        histogram: Histogram = self._queue_times[source]
        if stamped is not None:
            if stamped[1]:
                histogram.record(now - stamped[1])
        elif source in (_TIMER, _IO):
            histogram.record(now - self._fixed_at)
        self._running.append((identity(runnable), source, now))

    def _end(self, runnable: Runnable) -> None:
        if self._running and self._running[len(self._running) - 1][0] == identity(runnable):
            _, source, began_at = self._running.pop()
            ran_ns: int = monotonic_ns() - began_at
            histogram: Histogram = self._run_times[source]
            histogram.record(ran_ns)
            if ran_ns >= self._loop.slow_callback_duration * 1e9:
                self._loop._note_slow(runnable, ran_ns / 1e9)
        if self._runs_left <= 0 and not self._stamps:
            self._time(False)  # the rest of this tick needs no timing

    # For other threads

    def snapshot(self) -> Measurements:
        """Return the measurements. Thread: any. Neither time ever goes back from one snapshot to the next."""
        idle_ns, active_ns = self._times()
        return Measurements(
            window=self.window_ns / 1e9,
            idle_ns=idle_ns,
            active_ns=active_ns,
            tick=self._tick.snapshot(),
            lateness=self._lateness.snapshot(),
            queue_time={name: each.snapshot() for name, each in zip(SOURCES, self._queue_times, strict=True)},
            run_time={name: each.snapshot() for name, each in zip(SOURCES, self._run_times, strict=True)},
        )

    def _times(self) -> tuple[int, int]:
        # A sequence lock: values read while the loop's thread was writing are read again. The clock is read inside it:
        # otherwise a wait that ended before that reading would count for too long. The retries are bounded, because a
        # signal handler that has interrupted the writer would wait for ever.
        for _ in range(100):
            version = self._version
            now = monotonic_ns()
            idle_ns, active_ns, mark = self._idle_ns, self._active_ns, self._mark
            waiting, running = self._waiting, self.running
            if version % 2 == 0 and self._version == version:
                break
            time.sleep(0)
        passed = max(now - mark, 0) if running else 0
        return (idle_ns + passed, active_ns) if waiting else (idle_ns, active_ns + passed)

    # The meters that share it

    def lend(self, window: float) -> "Meter":
        """Return a new meter for `window`."""
        meter = Meter(self, window)
        self.meters.append(meter)
        self._choose_window()
        return meter

    def take_back(self, meter: "Meter") -> None:
        """Remove `meter`; when it was the last, the loop stops measuring. A meter that is gone already is ignored."""
        if meter in self.meters:
            self.meters.remove(meter)
            self._choose_window()
            if not self.meters:
                self._loop._stop_measuring(self)

    def _choose_window(self) -> None:
        if self.meters:
            window_ns: int = min([_in_ns(meter.window) for meter in self.meters])
            self.window_ns = window_ns
        if self.window_ns == 0 and self.is_open:
            self.open()


class Meter:
    """A request to measure a loop: the result of `loop.meter()`. As a context manager it ends with `stop`.

    All meters of a loop share the measurements, from when the first was created until the last is stopped, and the
    shortest `window` among them. Thread: the loop's own, except `snapshot`.
    """

    def __init__(self, sampler: CallbackSampler, window: float) -> None:
        if not 0.0 <= window < float("inf"):
            raise UsageError(f"the window of a meter is a number of seconds, 0 or more, not {window!r}")
        self.window: float = window
        self._sampler = sampler

    def snapshot(self) -> Measurements:
        """Return the measurements so far, or up to the stop of the last meter. Thread: any; never blocks."""
        return self._sampler.snapshot()

    def stop(self) -> None:
        """Stop this meter; when it was the last, the loop stops measuring. Idempotent."""
        self._sampler.take_back(self)

    def __enter__(self) -> "Meter":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()


def _in_ns(window: float) -> int:
    # Only a window of exactly 0 does not end.
    return max(round(min(window, _LONGEST) * 1e9), 1 if window else 0)
