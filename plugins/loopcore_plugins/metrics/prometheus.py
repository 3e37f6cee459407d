"""Prometheus: the loops of this process as a prometheus_client collector, and as text."""

from collections.abc import Iterator
from typing import Any

from loopcore.errors import UsageError
from loopcore_plugins.metrics.catalogue import BOUNDS, CATALOGUE, Metric, Value, cumulative
from loopcore_plugins.metrics.registry import snapshots
from loopcore_plugins.metrics.snapshot import LoopSnapshot

try:
    from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest, make_wsgi_app
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.utils import floatToGoString
except ImportError as exc:
    raise UsageError('metrics cannot serve Prometheus without its client: pip install "loopcore[prometheus]"') from exc

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""The content type of `expose()`."""

_LE = (*map(floatToGoString, BOUNDS), "+Inf")
_FAMILIES = {
    "counter": CounterMetricFamily,
    "updown": GaugeMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


class LoopCollector:
    """A prometheus_client collector: the loops of this process that have the plugin and are not closed."""

    def collect(self) -> Iterator[Any]:
        """Yield all metrics. Thread: any."""
        loops = snapshots()
        for metric in CATALOGUE:
            yield _family(metric, loops)

    def describe(self) -> Iterator[Any]:
        """Yield all metrics without values, by which a registry finds duplicate names."""
        for metric in CATALOGUE:
            yield _family(metric, [])


def _family(metric: Metric, loops: list[LoopSnapshot]) -> Any:
    labels = ("loop", "backend", *metric.labels)
    family = _FAMILIES[metric.kind](metric.prometheus_name, metric.help, labels=labels, unit=metric.base_unit)
    for snapshot in loops:
        for values, value in metric.read(snapshot):
            family.add_metric((snapshot.name, snapshot.backend, *values), *_sample(value))
    return family


def _sample(value: Value) -> tuple[Any, ...]:
    if isinstance(value, float | int):
        return (value,)
    return list(zip(_LE, cumulative(value), strict=True)), value.sum_ns / 1e9


_collector = LoopCollector()
_own_registry = CollectorRegistry()
_own_registry.register(_collector)
_is_registered = False


def expose() -> bytes:
    """Return only the loops' metrics as text, for a program's own route. Thread: any."""
    return generate_latest(_own_registry)


ROUTES = dict.fromkeys(("/metrics", "/"), make_wsgi_app(REGISTRY))
"""The routes of an endpoint: prometheus_client's default registry."""


def join_registry() -> None:
    """Add the loops to prometheus_client's default registry, once and for good."""
    global _is_registered
    if not _is_registered:
        REGISTRY.register(_collector)
        _is_registered = True
