"""Snapshots: everything that is known of a loop at one moment, as plain data that nothing changes any more."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from loopcore import Counters, HistogramSnapshot, Measurements
from loopcore_plugins.metrics.delay import loop_delay

PRESENT = (
    {"name", "backend", "started_at", "window", "recent_utilization"}
    | {"ready", "timers", "timers_cancelled"}
    | {"waiting", "running", "open", "paused", "active"}
)
"""Fields that say how things are now; all others have grown since the beginning."""


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """The jobs of one executor: `default`, `resolver` (look-ups of names), or a class's name."""

    waiting: int
    """Jobs that were submitted and have not begun; in an executor that is no thread pool: have not ended."""
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
    """By kind: how many were opened, those that have ended included."""
    paused: dict[str, int]
    """By direction: how many are paused."""
    pauses: dict[str, int]
    """By direction: how often one was paused."""


@dataclass(frozen=True, slots=True)
class StallsSnapshot:
    """What a watchdog found."""

    active: int
    """Stalls that have begun and are not over: 0 or 1, with one watchdog."""
    durations: dict[str, HistogramSnapshot]
    """By cause: stalls that are over."""


@dataclass(frozen=True, slots=True)
class LoopSnapshot:
    """A loop, from when the plugin was registered with it, or from an earlier snapshot: see `since`.

    `counters` alone count from the making of the loop.
    """

    name: str
    backend: str
    started_at: float
    """When the plugin was registered, in seconds since the epoch."""
    seconds: float
    """How long this covers."""
    recent_utilization: float
    """The share of time spent working since a snapshot that was taken a second or more before this, 0.0 to 1.0."""
    counters: Counters
    measurements: Measurements
    """Times, as the loop's meter measured them."""
    pools: dict[str, PoolSnapshot]
    transports: TransportsSnapshot
    stalls: StallsSnapshot
    exceptions: int
    """Reports to the loop's exception handler."""
    slow_callbacks: int
    """Callbacks that took `loop.slow_callback_duration` or longer, of those that were timed; in debug mode all are."""
    failed_hooks: int
    """How often a plugin was taken out of the loop because it raised."""

    @property
    def utilization(self) -> float:
        """The share of time spent working, 0.0 to 1.0, of all the time that this covers."""
        return self.measurements.utilization

    @property
    def delay(self) -> HistogramSnapshot:
        """How long the loop kept what came at a random moment waiting; `loopcore_plugins.metrics.delay` says how."""
        return loop_delay(self.measurements)

    def since(self, earlier: "LoopSnapshot") -> "LoopSnapshot":
        """Return what has happened between `earlier`, a snapshot of the same loop, and this one.

        What says how things are now (queues, what is open or running) stays as it is here. This takes the place of
        a reset: everybody may have their own interval.
        """
        difference: LoopSnapshot = _subtract(self, earlier)
        return difference


def _subtract(later: Any, earlier: Any) -> Any:
    if earlier is None:  # a pool, a kind, a cause that was not known then
        return later
    if isinstance(later, HistogramSnapshot):
        return later.since(earlier)
    if isinstance(later, dict):
        return {key: _subtract(value, earlier.get(key)) for key, value in later.items()}
    if dataclasses.is_dataclass(later) and not isinstance(later, type):
        names = [field.name for field in dataclasses.fields(later)]
        return dataclasses.replace(later, **_subtract_fields(later, earlier, names))
    if isinstance(later, Counters | Measurements):
        return later._replace(**_subtract_fields(later, earlier, later._fields))
    return later - earlier


def _subtract_fields(later: Any, earlier: Any, names: Any) -> dict[str, Any]:
    return {name: _subtract(getattr(later, name), getattr(earlier, name)) for name in names if name not in PRESENT}
