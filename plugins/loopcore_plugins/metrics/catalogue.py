"""The catalogue: every metric, its names, and its place in a snapshot. Exporters and manual are generated from it.

Names follow OpenTelemetry's conventions (dots, units apart, in UCUM); Prometheus' names follow by its usual rules: dots
become underscores, the base unit is appended, and `_total` to counters. Every metric also has the labels `loop` and
`backend`.

OpenTelemetry's semantic conventions (1.44) have no metrics of a Python event loop; those of Node's are in Node's
namespace, and are the model for ours. Attributes have namespaces; where a convention has an attribute for the same
thing, that one is used.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from loopcore import Histogram, HistogramSnapshot
from loopcore_plugins.metrics.snapshot import LoopSnapshot

Value: TypeAlias = float | HistogramSnapshot
Reading: TypeAlias = tuple[tuple[str, ...], Value]
Kind: TypeAlias = Literal["counter", "updown", "gauge", "histogram"]

_UNITS: Final = {"s": "seconds", "By": "bytes", "1": "ratio"}
_EXPORTED: Final = [Histogram.bounds().index(1 << power) for power in range(10, 35)]

BOUNDS: Final = tuple(Histogram.bounds()[index] / 1e9 for index in _EXPORTED)
"""Upper bounds of exported buckets, in seconds: powers of two nanoseconds, 1 µs to 17 s, where counts are exact."""


class Label(NamedTuple):
    """A dimension of a metric: a label of Prometheus, an attribute of OpenTelemetry."""

    name: str
    attribute: str
    values: Mapping[str, str] = {}
    """The values that OpenTelemetry spells differently, with its spelling."""


@dataclass(frozen=True)
class Metric:
    """A metric. `read` returns, for a snapshot, the values of `labels`, each with its figure."""

    name: str
    kind: Kind
    unit: str
    """In UCUM: s, By, 1, or the name of the counted things, in braces."""
    help: str
    dimensions: tuple[Label, ...]
    read: Callable[[LoopSnapshot], Iterable[Reading]]

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels in Prometheus."""
        return tuple(label.name for label in self.dimensions)

    @property
    def base_unit(self) -> str:
        """The unit as Prometheus spells it in names; empty for counts of things."""
        return _UNITS.get(self.unit, "")

    @property
    def prometheus_name(self) -> str:
        """The name in queries."""
        parts = (self.name.replace(".", "_"), self.base_unit, "total" if self.kind == "counter" else "")
        return "_".join(filter(None, parts))


def cumulative(histogram: HistogramSnapshot) -> list[int]:
    """Return how many values were recorded up to each of `BOUNDS`, and last the total."""
    counts, seen, begin = [], 0, 0
    for index in _EXPORTED:
        seen += sum(histogram.buckets[begin : index + 1])
        begin = index + 1
        counts.append(seen)
    return [*counts, histogram.count]


def _one(name: str, kind: Kind, unit: str, text: str, read: Callable[[LoopSnapshot], Value]) -> Metric:
    return Metric(name, kind, unit, text, (), lambda snapshot: [((), read(snapshot))])


def _by(
    label: Label, name: str, kind: Kind, unit: str, text: str, read: Callable[[LoopSnapshot], dict[str, Value]]
) -> Metric:
    return Metric(
        name, kind, unit, text, (label,), lambda snapshot: [((key,), value) for key, value in read(snapshot).items()]
    )


def _seen(histograms: dict[str, HistogramSnapshot]) -> dict[str, Value]:
    return {source: histogram for source, histogram in histograms.items() if histogram.count}


def _ended(snapshot: LoopSnapshot) -> dict[str, Value]:
    counters = snapshot.counters
    return {
        "finished": counters.tasks_finished,
        "failed": counters.tasks_failed,
        "cancelled": counters.tasks_cancelled,
        "destroyed": counters.tasks_destroyed,
    }


def _jobs(snapshot: LoopSnapshot) -> Iterable[Reading]:
    for name, pool in snapshot.pools.items():
        for outcome, count in pool.outcomes.items():
            yield (name, outcome), count


_STATE: Final = Label("state", "loopcore.eventloop.state")
_SOURCE: Final = Label("source", "loopcore.callback.source")
_TASK_OUTCOME: Final = Label("outcome", "loopcore.task.outcome")
_EXECUTOR: Final = Label("pool", "loopcore.executor.name")
_JOB_OUTCOME: Final = Label("outcome", "loopcore.executor.job.outcome")
_KIND: Final = Label("kind", "loopcore.transport.kind")
_PAUSED: Final = Label("direction", "loopcore.transport.direction")
_IO: Final = Label("direction", "network.io.direction", {"received": "receive", "sent": "transmit"})
_CONNECTION_OUTCOME: Final = Label("outcome", "loopcore.connection.outcome")
_CAUSE: Final = Label("cause", "loopcore.stall.cause")

_LOOP: Final = "loopcore.eventloop"
_POOL: Final = "loopcore.executor"
_TRANSPORT: Final = "loopcore.transport"

CATALOGUE: Final = (
    # The loop
    _by(
        _STATE,
        f"{_LOOP}.time",
        "counter",
        "s",
        "Time spent working (active) and waiting for something to do (idle).",
        lambda s: {"active": s.measurements.active_ns / 1e9, "idle": s.measurements.idle_ns / 1e9},
    ),
    _one(
        f"{_LOOP}.utilization",
        "gauge",
        "1",
        "Share of time spent working since it was last read, at least a second before.",
        lambda s: s.recent_utilization,
    ),
    _one(
        f"{_LOOP}.delay",
        "histogram",
        "s",
        "How long an event at a random moment waits for the loop; one observation for each microsecond.",
        lambda s: s.delay,
    ),
    _one(
        f"{_LOOP}.tick.duration",
        "histogram",
        "s",
        "Working time between two waits, exact.",
        lambda s: s.measurements.tick,
    ),
    _one(f"{_LOOP}.ticks", "counter", "{tick}", "Ticks, those without a wait included.", lambda s: s.counters.ticks),
    _one(f"{_LOOP}.polls", "counter", "{poll}", "Waits in the backend.", lambda s: s.counters.polls),
    _one(f"{_LOOP}.poll.events", "counter", "{event}", "Descriptors that were ready.", lambda s: s.counters.events),
    _one(
        f"{_LOOP}.starvations",
        "counter",
        "{starvation}",
        "How often the next-tick and microtask queues used up their budget.",
        lambda s: s.counters.starvations,
    ),
    _one(
        "loopcore.budget.forced_yields",
        "counter",
        "{yield}",
        "How often a tick budget postponed callbacks.",
        lambda s: s.counters.budget_yields,
    ),
    _one(
        "loopcore.threadsafe.posts",
        "counter",
        "{callback}",
        "Callbacks that came from other threads.",
        lambda s: s.counters.threadsafe_posts,
    ),
    _one(
        "loopcore.threadsafe.wakeups",
        "counter",
        "{wakeup}",
        "How often the loop was woken for them.",
        lambda s: s.counters.threadsafe_wakes,
    ),
    # Callbacks, timers
    _one(
        "loopcore.callbacks", "counter", "{callback}", "Callbacks and task steps run.", lambda s: s.counters.callbacks
    ),
    _by(
        _SOURCE,
        "loopcore.callback.queue_time",
        "histogram",
        "s",
        "How long callbacks wait to run, sampled.",
        lambda s: _seen(s.measurements.queue_time),
    ),
    _by(
        _SOURCE,
        "loopcore.callback.duration",
        "histogram",
        "s",
        "How long callbacks and task steps run, sampled.",
        lambda s: _seen(s.measurements.run_time),
    ),
    _one(
        "loopcore.callback.slow",
        "counter",
        "{callback}",
        "Timed callbacks that took slow_callback_duration or longer.",
        lambda s: s.slow_callbacks,
    ),
    _one("loopcore.ready.length", "gauge", "{callback}", "Length of the ready queue.", lambda s: s.counters.ready),
    _one("loopcore.timers.length", "gauge", "{timer}", "Timers set.", lambda s: s.counters.timers),
    _one(
        "loopcore.timers.cancelled",
        "gauge",
        "{timer}",
        "Cancelled timers among them.",
        lambda s: s.counters.timers_cancelled,
    ),
    _one("loopcore.timers.fired", "counter", "{timer}", "Timers that came due.", lambda s: s.counters.timers_fired),
    _one(
        "loopcore.timer.lateness",
        "histogram",
        "s",
        "How long after its deadline a timer was found due, exact.",
        lambda s: s.measurements.lateness,
    ),
    # Tasks
    _one("loopcore.tasks.live", "updown", "{task}", "Tasks that have not ended.", lambda s: s.counters.tasks_live),
    _one("loopcore.tasks.created", "counter", "{task}", "Tasks created.", lambda s: s.counters.tasks_created),
    _by(_TASK_OUTCOME, "loopcore.tasks.finished", "counter", "{task}", "Tasks that have ended.", _ended),
    _one("loopcore.task.steps", "counter", "{step}", "Steps of tasks.", lambda s: s.counters.task_steps),
    # Executors
    _by(
        _EXECUTOR,
        f"{_POOL}.queue.length",
        "updown",
        "{job}",
        "Jobs that wait for a thread.",
        lambda s: {name: pool.waiting for name, pool in s.pools.items()},
    ),
    _by(
        _EXECUTOR,
        f"{_POOL}.running",
        "updown",
        "{job}",
        "Jobs that run.",
        lambda s: {name: pool.running for name, pool in s.pools.items()},
    ),
    Metric(f"{_POOL}.jobs", "counter", "{job}", "Jobs that have ended.", (_EXECUTOR, _JOB_OUTCOME), _jobs),
    _by(
        _EXECUTOR,
        f"{_POOL}.queue_time",
        "histogram",
        "s",
        "How long jobs wait for a thread, exact.",
        lambda s: _seen({name: pool.queue_time for name, pool in s.pools.items()}),
    ),
    _by(
        _EXECUTOR,
        f"{_POOL}.run_time",
        "histogram",
        "s",
        "How long jobs run, exact.",
        lambda s: _seen({name: pool.run_time for name, pool in s.pools.items()}),
    ),
    # Transports
    _by(_KIND, f"{_TRANSPORT}.open", "updown", "{transport}", "Transports open.", lambda s: {**s.transports.open}),
    _by(
        _KIND,
        f"{_TRANSPORT}.opened",
        "counter",
        "{transport}",
        "Transports that were opened.",
        lambda s: {**s.transports.opened},
    ),
    _by(
        _PAUSED,
        f"{_TRANSPORT}.paused",
        "updown",
        "{transport}",
        "Transports whose reading or writing is paused.",
        lambda s: {**s.transports.paused},
    ),
    _by(
        _PAUSED,
        f"{_TRANSPORT}.pauses",
        "counter",
        "{pause}",
        "How often reading or writing was paused.",
        lambda s: {**s.transports.pauses},
    ),
    _by(
        _IO,
        f"{_TRANSPORT}.io",
        "counter",
        "By",
        "Bytes that transports received and sent, on the wire.",
        lambda s: {"received": s.counters.bytes_received, "sent": s.counters.bytes_sent},
    ),
    _by(
        _CONNECTION_OUTCOME,
        "loopcore.connections",
        "counter",
        "{connection}",
        "Connections that servers accepted, and that a policy had reset.",
        lambda s: {"accepted": s.counters.connections_accepted, "refused": s.counters.connections_refused},
    ),
    # Failures
    _one("loopcore.stall.active", "updown", "{stall}", "Stalls under way.", lambda s: s.stalls.active),
    _by(
        _CAUSE,
        "loopcore.stalls",
        "counter",
        "{stall}",
        "Stalls that are over.",
        lambda s: {cause: histogram.count for cause, histogram in s.stalls.durations.items()},
    ),
    _by(
        _CAUSE,
        "loopcore.stall.duration",
        "histogram",
        "s",
        "How long stalls lasted.",
        lambda s: _seen(s.stalls.durations),
    ),
    _one(
        "loopcore.exceptions",
        "counter",
        "{report}",
        "Reports to the loop's exception handler.",
        lambda s: s.exceptions,
    ),
    _one(
        "loopcore.hooks.errors",
        "counter",
        "{error}",
        "Plugins that were removed because they raised.",
        lambda s: s.failed_hooks,
    ),
)
"""All metrics, in the order of the manual."""
