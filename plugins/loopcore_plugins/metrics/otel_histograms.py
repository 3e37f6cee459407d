"""The histograms, for OpenTelemetry: a wrapper around an exporter that adds them to the exported data.

    reader = PeriodicExportingMetricReader(WithHistograms(OTLPMetricExporter()))
    set_meter_provider(MeterProvider(metric_readers=[reader]))

OpenTelemetry has no observable histogram, and its Python SDK takes no metrics from other producers; but a histogram
point is public data, and loopcore's are complete: so they are added last, with their bounds and counts unchanged.
Needs the SDK, `pip install opentelemetry-sdk`, which every program that exports has.
"""

import time
from typing import Any

import loopcore
from loopcore import HistogramSnapshot
from loopcore.errors import UsageError
from loopcore_plugins.metrics.catalogue import BOUNDS, CATALOGUE, Metric, cumulative
from loopcore_plugins.metrics.otel import SCOPE, attributes
from loopcore_plugins.metrics.registry import snapshots
from loopcore_plugins.metrics.snapshot import LoopSnapshot

try:
    from opentelemetry.sdk.metrics import Histogram as Instrument
    from opentelemetry.sdk.metrics.export import (
        AggregationTemporality,
        Histogram,
        HistogramDataPoint,
        MetricExporter,
        MetricExportResult,
        MetricsData,
        ResourceMetrics,
        ScopeMetrics,
    )
    from opentelemetry.sdk.metrics.export import Metric as Exported
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
except ImportError as exc:
    raise UsageError("exporting histograms needs OpenTelemetry's SDK: pip install opentelemetry-sdk") from exc

_SCOPE = InstrumentationScope(SCOPE, loopcore.__version__)


class WithHistograms(MetricExporter):
    """Exports through `exporter`, with loopcore's histograms added, in the exporter's preferred temporality.

    Thread: its reader's.
    """

    def __init__(self, exporter: MetricExporter) -> None:
        temporality, aggregation = exporter._preferred_temporality, exporter._preferred_aggregation
        super().__init__(preferred_temporality=temporality, preferred_aggregation=aggregation)
        self._exporter = exporter
        self._temporality = (temporality or {}).get(Instrument, AggregationTemporality.CUMULATIVE)
        self._before: dict[tuple[str, float], tuple[LoopSnapshot, int]] = {}
        """The last snapshot of each loop, and when it was taken, for an exporter that wants differences."""

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> MetricExportResult:
        """Export `metrics_data` and the histograms."""
        added = ScopeMetrics(_SCOPE, self._histograms(), "")
        if metrics_data.resource_metrics and added.metrics:
            first, *others = metrics_data.resource_metrics
            first = ResourceMetrics(first.resource, [*first.scope_metrics, added], first.schema_url)
            metrics_data = MetricsData([first, *others])
        return self._exporter.export(metrics_data, timeout_millis=timeout_millis, **kwargs)

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Make the exporter send the data it holds."""
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        """Shut the exporter down."""
        self._exporter.shutdown(timeout_millis=timeout_millis, **kwargs)

    def _histograms(self) -> list[Exported]:
        now_ns = time.time_ns()
        intervals = [self._interval(snapshot, now_ns) for snapshot in snapshots()]
        exported = []
        for metric in CATALOGUE:
            if metric.kind == "histogram":
                points = [point for each in intervals for point in _points(metric, *each, now_ns)]
                if points:
                    data = Histogram(points, self._temporality)
                    exported.append(Exported(metric.name, metric.help, metric.unit, data))
        return exported

    def _interval(self, snapshot: LoopSnapshot, now_ns: int) -> tuple[LoopSnapshot, int]:
        """Return the snapshot to export for a loop, and when its interval began."""
        began_ns = int(snapshot.started_at * 1e9)
        if self._temporality is AggregationTemporality.CUMULATIVE:
            return snapshot, began_ns
        loop = (snapshot.name, snapshot.started_at)
        before = self._before.get(loop)
        self._before = {key: value for key, value in self._before.items() if key[0] != snapshot.name}
        self._before[loop] = (snapshot, now_ns)
        return (snapshot, began_ns) if before is None else (snapshot.since(before[0]), before[1])


def _points(metric: Metric, snapshot: LoopSnapshot, began_ns: int, now_ns: int) -> list[HistogramDataPoint]:
    return [
        _point(value, attributes(metric, snapshot, values), began_ns, now_ns)
        for values, value in metric.read(snapshot)
        if isinstance(value, HistogramSnapshot)
    ]


def _point(histogram: HistogramSnapshot, labels: dict[str, str], began_ns: int, now_ns: int) -> HistogramDataPoint:
    counts = cumulative(histogram)
    # The extremes of an interval are known only as precisely as its buckets; those of the whole time, exactly.
    edges = (0.0, *loopcore.Histogram.bounds())
    filled = [index for index, number in enumerate(histogram.buckets) if number] or [0]
    return HistogramDataPoint(
        attributes=labels,
        start_time_unix_nano=began_ns,
        time_unix_nano=now_ns,
        count=histogram.count,
        sum=histogram.sum_ns / 1e9,
        bucket_counts=[after - before for before, after in zip([0, *counts], counts, strict=False)],
        explicit_bounds=list(BOUNDS),
        min=max(edges[filled[0]], histogram.min_ns) / 1e9,
        max=min(edges[filled[-1] + 1], histogram.max_ns) / 1e9,
    )
