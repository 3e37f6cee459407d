"""Snapshots: all figures of a loop at one moment, as plain data that never changes."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from loopcore import HistogramSnapshot, LoopStatsSnapshot, Measurements
from loopcore_plugins.metrics.delay import loop_delay

PRESENT = (
    {"name", "backend", "started_at", "window", "recent_utilization"}
    | {"ready", "timers", "timers_cancelled"}
    | {"waiting", "running", "open", "paused", "active"}
)
"""Fields with a current value; all others have grown since the beginning."""


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """The jobs of one executor: `default`, `resolver` (name look-ups), or the name of an executor's class."""

    waiting: int
    """Jobs submitted but not started; for executors other than thread pools: not ended."""
    running: int
    outcomes: dict[str, int]
    """Jobs that have ended, by `finished`, `failed`, `cancelled`."""
    queue_time: HistogramSnapshot
    run_time: HistogramSnapshot


@dataclass(frozen=True, slots=True)
class TransportsSnapshot:
    """Transports by kind, `stream`, `tls`, `datagram`, `pipe`, `process`, or by direction, `reading`, `writing`."""

    open: dict[str, int]
    """By kind. A TLS transport and the stream that carries it count one each."""
    opened: dict[str, int]
    """By kind: how many were opened, including closed ones."""
    paused: dict[str, int]
    """By direction: how many are paused."""
    pauses: dict[str, int]
    """By direction: how often one was paused."""


@dataclass(frozen=True, slots=True)
class StallsSnapshot:
    """A watchdog's findings."""

    active: int
    """Stalls under way: 0 or 1, with one watchdog."""
    durations: dict[str, HistogramSnapshot]
    """Stalls that are over, by cause."""


@dataclass(frozen=True, slots=True)
class LoopSnapshot:
    """A loop, from the registration of the plugin on, or from an earlier snapshot on: see `since`.

    Only `counters` count from the creation of the loop.
    """

    name: str
    backend: str
    started_at: float
    """When the plugin was registered, in seconds since the epoch."""
    seconds: float
    """Seconds that this covers."""
    recent_utilization: float
    """The share of time spent working since a snapshot taken at least a second before this one, 0.0 to 1.0."""
    counters: LoopStatsSnapshot
    measurements: Measurements
    """Times, as measured by the loop's meter."""
    pools: dict[str, PoolSnapshot]
    transports: TransportsSnapshot
    stalls: StallsSnapshot
    exceptions: int
    """Reports to the loop's exception handler."""
    slow_callbacks: int
    """Callbacks that took `loop.slow_callback_duration` or longer, of the timed ones; in debug mode all are timed."""
    failed_hooks: int
    """How often a plugin was removed from the loop because it raised."""

    @property
    def utilization(self) -> float:
        """The share of time spent working, 0.0 to 1.0, of all the time that this covers."""
        return self.measurements.utilization

    @property
    def delay(self) -> HistogramSnapshot:
        """How long an event at a random moment waits for the loop; `loopcore_plugins.metrics.delay` says how."""
        return loop_delay(self.measurements)

    def since(self, earlier: "LoopSnapshot") -> "LoopSnapshot":
        """Return the changes between `earlier`, a snapshot of the same loop, and this one.

        Current values (queue lengths, open transports, running jobs) stay unchanged. Use this instead of a
        reset: every reader can have its own interval.
        """
        difference: LoopSnapshot = _subtract(self, earlier)
        return difference


def _subtract(later: Any, earlier: Any) -> Any:
    if earlier is None:  # a pool, a kind or a cause that did not exist then
        return later
    if isinstance(later, HistogramSnapshot):
        return later.since(earlier)
    if isinstance(later, dict):
        return {key: _subtract(value, earlier.get(key)) for key, value in later.items()}
    if dataclasses.is_dataclass(later) and not isinstance(later, type):
        names = [field.name for field in dataclasses.fields(later)]
        return dataclasses.replace(later, **_subtract_fields(later, earlier, names))
    if isinstance(later, LoopStatsSnapshot | Measurements):
        return later._replace(**_subtract_fields(later, earlier, later._fields))
    return later - earlier


def _subtract_fields(later: Any, earlier: Any, names: Any) -> dict[str, Any]:
    return {name: _subtract(getattr(later, name), getattr(earlier, name)) for name in names if name not in PRESENT}
