"""Observer: the measurements of a loop that is being watched, made only while it is.

There are four parts, each turned on separately: `meter` (loop.meter(): utilization, queue delays, ticks), `callbacks`
(steps and run time by coroutine and callback: two readings of the clock for each), `phases` (time by phase: two
readings each, in every tick) and `ages` (when tasks are created: a reading for each). Slow callbacks are recorded along
with any of them.
"""

import functools
import time
from collections import deque
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from time import perf_counter_ns
from typing import Any, Final, TypeVar

from loopcore import hookimpl
from loopcore.hooks.types import Loop
from loopcore_plugins._shared import items_of
from loopcore_plugins.inspect.creation_times import CreationTimes
from loopcore_plugins.inspect.protocol import Message

METER: Final = "meter"
CALLBACKS: Final = "callbacks"
PHASES: Final = "phases"
AGES: Final = "ages"
PARTS: Final = frozenset((METER, CALLBACKS, PHASES, AGES))

MOST_NAMES: Final = 1000
"""The most coroutines and callbacks that are listed separately; later ones are summed up in one line."""
OTHERS: Final = "(others)"
_REMEMBERED: Final = 50


def name_of(function: Any) -> str:
    """Return the qualified name of a function, method, partial or coroutine; for other objects that of their class.

    The loop runs transports and their drivers themselves: the protocol says which.
    """
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", None)
    if name is not None:
        return str(name)
    protocol_of = getattr(getattr(function, "sink", function), "get_protocol", None)
    of = "" if protocol_of is None else f" for {type(protocol_of()).__qualname__}"
    return type(function).__qualname__ + of


def place_of(function: Any) -> list[str | int] | None:
    """Return the file and line at which the code of a function or coroutine begins; None if it is not Python."""
    while isinstance(function, functools.partial):
        function = function.func
    for name in ("__code__", "cr_code", "gi_code", "ag_code"):
        code = getattr(function, name, None)
        if code is not None:
            return [code.co_filename, code.co_firstlineno]
    return None


def function_of(runnable: Any) -> Any:
    """Return what a runnable of the loop runs: a task's coroutine, a handle's callback, else itself."""
    get_coro = getattr(runnable, "get_coro", None)
    return get_coro() if get_coro is not None else getattr(runnable, "_callback", None) or runnable


_T = TypeVar("_T")


class Entries:
    """A sequence lock around the end of a measurement: another thread that reads during it reads again.

    Otherwise a view could miss a measurement that has just ended, or count it twice, and times would go back.
    """

    def __init__(self) -> None:
        self._version = 0

    def read(self, take: Callable[[], _T]) -> _T:
        """Return the result of `take()`, called while no write is under way. Thread: any.

        The number of attempts is limited: the writing thread may be stopped in the middle.
        """
        for _ in range(100):
            version = self._version
            taken = take()
            if version % 2 == 0 and version == self._version:
                break
            time.sleep(0)
        return taken

    def begin(self) -> None:
        """Begin a write."""
        self._version += 1

    def end(self) -> None:
        """End a write."""
        self._version += 1


class CallbackTimes:
    """Number, run time and longest run of callbacks and steps, by name. The time of nested ones is not included."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], list[Any]] = {}
        """By kind (task, callback) and name: number, ns, longest ns, place."""
        self._running: list[list[Any]] = []
        """The row, the ns of nested runs, and when it began; innermost last."""
        self._entries = Entries()

    def view(self) -> list[list[Any]]:
        """Return kind, name, number, ns, longest ns and place of each, current runs included. Thread: any."""
        return self._entries.read(self._view)

    def _view(self) -> list[list[Any]]:
        running = self._running[-1:]
        rows = [(*key, row.copy(), row) for key, row in self._rows.copy().items()]
        if running:
            present, within, began = running[0]
            so_far = max(perf_counter_ns() - began - within, 0)
            for _, _, copy, row in rows:
                if row is present:
                    copy[0] += 1
                    copy[1] += so_far
                    copy[2] = max(copy[2], so_far)
        return [[kind, name, *copy] for kind, name, copy, _ in rows]

    @hookimpl
    def loopcore_task_step_begin(self, loop: Loop, task: Any) -> None:
        self._begin("task", task.get_coro())

    @hookimpl
    def loopcore_task_step_end(self, loop: Loop, task: Any) -> None:
        self._end()

    @hookimpl
    def loopcore_handle_begin(self, loop: Loop, handle: Any) -> None:
        self._begin("callback", getattr(handle, "_callback", None) or handle)

    @hookimpl
    def loopcore_handle_end(self, loop: Loop, handle: Any) -> None:
        self._end()

    def _begin(self, kind: str, function: Any) -> None:
        key = (kind, name_of(function))
        row = self._rows.get(key)
        if row is None:
            if len(self._rows) >= MOST_NAMES:
                key, function = (kind, OTHERS), None
            row = self._rows.setdefault(key, [0, 0, 0, place_of(function)])
        self._running.append([row, 0, perf_counter_ns()])

    def _end(self) -> None:
        now = perf_counter_ns()
        if not self._running:  # it began before the plugin came
            return
        self._entries.begin()
        row, within, began = self._running.pop()
        took = now - began
        if self._running:
            self._running[-1][1] += took
        row[0] += 1
        row[1] += took - within
        row[2] = max(row[2], took - within)
        self._entries.end()


class PhaseTimes:
    """Time and number of callbacks (in the poll phase: events), by phase."""

    def __init__(self) -> None:
        self._rows: dict[str, list[int]] = {}
        """By phase: ns and number."""
        self._present: tuple[str, int] | None = None
        """The phase that the loop is in, and since when."""
        self._entries = Entries()

    def view(self) -> dict[str, list[int]]:
        """Return ns and number by phase, the current phase included. Thread: any."""
        return self._entries.read(self._view)

    def _view(self) -> dict[str, list[int]]:
        present = self._present
        rows = {phase: row.copy() for phase, row in self._rows.copy().items()}
        if present is not None:
            phase, began = present
            rows.setdefault(phase, [0, 0])[0] += max(perf_counter_ns() - began, 0)
        return rows

    @hookimpl
    def loopcore_phase_begin(self, loop: Loop, phase: str) -> None:
        self._present = (phase, perf_counter_ns())

    @hookimpl
    def loopcore_phase_end(self, loop: Loop, phase: str, count: int) -> None:
        self._entries.begin()
        present, self._present = self._present, None
        if present is not None:
            row = self._rows.setdefault(phase, [0, 0])
            row[0] += perf_counter_ns() - present[1]
            row[1] += count
        self._entries.end()


class SlowCallbacks:
    """The last callbacks that took longer than the loop's `slow_callback_duration`."""

    def __init__(self) -> None:
        self.last: deque[Message] = deque(maxlen=_REMEMBERED)
        self.count = 0

    @hookimpl
    def loopcore_slow_callback(self, runnable: Any, seconds: float) -> None:
        function = function_of(runnable)
        self.count += 1
        self.last.append(
            {"when": time.time(), "seconds": seconds, "name": name_of(function), "place": place_of(function)}
        )


_PLUGINS: Final[dict[str, Callable[[], Any]]] = {
    "slow": SlowCallbacks,
    CALLBACKS: CallbackTimes,
    PHASES: PhaseTimes,
    AGES: CreationTimes,
}
"""What measures each part that is a plugin."""


class Observer:
    """Turns the parts on and off. Thread: the loop's, except `view`, whose parts may differ slightly in time."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self._meter: Any = None
        self._on: dict[str, Any] = {}

    def want(self, parts: AbstractSet[str]) -> None:
        """Measure `parts`, and nothing else. Earlier measurements of a part that was off are dropped."""
        if METER in parts and self._meter is None:
            self._meter = self._loop.meter()
        elif METER not in parts and self._meter is not None:
            self._meter.stop()
            self._meter = None
        for part, make in _PLUGINS.items():
            wanted = bool(parts) if part == "slow" else part in parts
            if wanted and part not in self._on:
                plugin = self._on[part] = make()
                self._loop.probes.register(plugin, f"inspect: {part} {id(plugin):x}")
            elif not wanted and part in self._on:
                self._loop.probes.unregister(self._on.pop(part))

    @property
    def creation_times(self) -> CreationTimes | None:
        """What knows the ages of tasks, while that part is on. Thread: any."""
        times: CreationTimes | None = self._on.get(AGES)
        return times

    def view(self) -> Message:
        """Return the measurements so far; a part that is off, or not on yet, is None. Thread: any."""
        meter, on = self._meter, self._on.copy()
        slow, callbacks, phases = on.get("slow"), on.get(CALLBACKS), on.get(PHASES)
        return {
            "meter": None if meter is None else _describe(meter.snapshot()),
            "callbacks": None if callbacks is None else callbacks.view(),
            "phases": None if phases is None else phases.view(),
            "slow": None if slow is None else {"count": slow.count, "last": items_of(slow.last)},
        }


def _describe(measured: Any) -> Message:
    """Return measurements as plain values, histograms as their non-empty buckets by number."""

    def histogram(snapshot: Any) -> list[Any]:
        buckets = {number: count for number, count in enumerate(snapshot.buckets) if count}
        return [snapshot.count, snapshot.sum_ns, snapshot.min_ns, snapshot.max_ns, buckets]

    return {
        "idle_ns": measured.idle_ns,
        "active_ns": measured.active_ns,
        "tick": histogram(measured.tick),
        "lateness": histogram(measured.lateness),
        "queue_time": {source: histogram(each) for source, each in measured.queue_time.items() if each.count},
        "run_time": {source: histogram(each) for source, each in measured.run_time.items() if each.count},
    }
