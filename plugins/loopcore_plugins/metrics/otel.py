"""OpenTelemetry: the metrics as instruments of its API; it has no instrument that fits the histograms.

An observable instrument is read when an exporter collects, and costs the loop nothing; but there is none for
histograms, and recording every tick and callback in a synchronous one would cost more than running them. So counters
and gauges are instruments of the global meter provider, and histograms are added to the exporter's data: see
`loopcore_plugins.metrics.otel_histograms`.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import loopcore
from loopcore.errors import UsageError
from loopcore_plugins.metrics.catalogue import CATALOGUE, Metric
from loopcore_plugins.metrics.registry import snapshots
from loopcore_plugins.metrics.snapshot import LoopSnapshot

try:
    from opentelemetry.metrics import CallbackOptions, Observation, get_meter
except ImportError as exc:
    raise UsageError('metrics cannot export to OpenTelemetry without its API: pip install "loopcore[otel]"') from exc

SCOPE = "loopcore"
"""The instrumentation scope of all metrics."""

_SAME_COLLECTION = 0.1
"""Seconds for which a snapshot is used: instruments are read one after another, and should agree on one moment."""

_lock = threading.Lock()
_taken: tuple[float, list[LoopSnapshot]] = (float("-inf"), [])
_are_made = False


def make_instruments() -> None:
    """Create the instruments, once and for good; loops are added and removed later. Thread: any."""
    global _are_made
    with _lock:
        if _are_made:
            return
        _are_made = True
    meter = get_meter(SCOPE, loopcore.__version__)
    makers: dict[str, Callable[..., Any]] = {
        "counter": meter.create_observable_counter,
        "updown": meter.create_observable_up_down_counter,
        "gauge": meter.create_observable_gauge,
    }
    for metric in CATALOGUE:
        if metric.kind in makers:
            makers[metric.kind](metric.name, [_reader(metric)], unit=metric.unit, description=metric.help)


def attributes(metric: Metric, snapshot: LoopSnapshot, values: tuple[str, ...]) -> dict[str, str]:
    """Return the attributes of one value."""
    labelled = zip(metric.dimensions, values, strict=True)
    own = {label.attribute: label.values.get(value, value) for label, value in labelled}
    return {"loopcore.loop.name": snapshot.name, "loopcore.backend": snapshot.backend, **own}


def _reader(metric: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def read(options: CallbackOptions) -> Iterable[Observation]:
        for snapshot in _recent():
            for values, value in metric.read(snapshot):
                assert isinstance(value, float | int)
                yield Observation(value, attributes(metric, snapshot, values))

    return read


def _recent() -> list[LoopSnapshot]:
    global _taken
    with _lock:
        now = time.monotonic()
        if now - _taken[0] > _SAME_COLLECTION:
            _taken = (now, snapshots())
        return _taken[1]


def _reset_in_child() -> None:
    """Reset in a forked child: the snapshots are of the parent's loops, and the lock may be held."""
    global _lock, _taken
    _lock = threading.Lock()
    _taken = (float("-inf"), [])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)
