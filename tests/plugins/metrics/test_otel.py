"""What OpenTelemetry is given: instruments for what has one, and histograms through an exporter."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import loopcore
from loopcore_plugins.metrics import Metrics, otel
from loopcore_plugins.metrics.catalogue import BOUNDS, CATALOGUE

sdk = pytest.importorskip("opentelemetry.sdk.metrics")

from opentelemetry.sdk.metrics import export as sdk_export  # noqa: E402

from loopcore_plugins.metrics.otel_histograms import WithHistograms  # noqa: E402

pytestmark = pytest.mark.loopcore_only

DELTA = sdk_export.AggregationTemporality.DELTA
CUMULATIVE = sdk_export.AggregationTemporality.CUMULATIVE


class Memory(sdk_export.MetricExporter):
    """An exporter that keeps what it is given."""

    def __init__(self, temporality: Any = CUMULATIVE) -> None:
        super().__init__(preferred_temporality={sdk.Histogram: temporality})
        self.exports: list[dict[str, Any]] = []
        self.is_shut_down = False

    def export(self, metrics_data: Any, timeout_millis: float = 10_000, **kwargs: Any) -> Any:
        scopes = [scope for resource in metrics_data.resource_metrics for scope in resource.scope_metrics]
        self.exports.append({metric.name: metric for scope in scopes for metric in scope.metrics})
        return sdk_export.MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        self.is_shut_down = True


class Pipeline:
    """A meter provider with our exporter before one that keeps what comes, and the instruments made of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, temporality: Any = CUMULATIVE) -> None:
        self.memory = Memory(temporality)
        reader = sdk_export.PeriodicExportingMetricReader(WithHistograms(self.memory), export_interval_millis=1e9)
        self.provider = sdk.MeterProvider(metric_readers=[reader])
        monkeypatch.setattr(otel, "get_meter", self.provider.get_meter)  # the global one can be set only once
        monkeypatch.setattr(otel, "_are_made", False)
        monkeypatch.setattr(otel, "_SAME_COLLECTION", 0.0)

    def collect(self) -> dict[str, Any]:
        self.provider.force_flush()
        return self.memory.exports[-1]


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    made = Pipeline(monkeypatch)
    yield made
    made.provider.shutdown()
    assert made.memory.is_shut_down


async def work() -> None:
    for _ in range(5):
        await asyncio.sleep(0.001)


def test_every_metric_is_exported_under_its_name_unit_and_kind(loop: Any, pipeline: Pipeline) -> None:
    Metrics(otel=True)  # makes no second set of instruments
    loop.probes.register(Metrics(otel=True))
    loop.run_until_complete(work())
    exported = pipeline.collect()
    seen = {metric.name: metric for metric in CATALOGUE if list(metric.read(_snapshot(loop)))}
    assert exported.keys() == seen.keys()
    for name, metric in seen.items():
        assert (exported[name].unit, exported[name].description) == (metric.unit, metric.help)
        data = exported[name].data
        if metric.kind == "histogram":
            assert isinstance(data, sdk_export.Histogram)
        elif metric.kind == "gauge":
            assert isinstance(data, sdk_export.Gauge)
        else:
            assert isinstance(data, sdk_export.Sum)
            assert data.is_monotonic == (metric.kind == "counter")


def _snapshot(loop: Any) -> Any:
    ((_, plugin),) = loop.probes.plugins()
    return plugin.snapshot()


def test_values_carry_the_loop_and_their_labels(loop: Any, pipeline: Pipeline, backend_name: str) -> None:
    loop.probes.register(Metrics(otel=True, name="api"))
    loop.run_until_complete(work())
    points = pipeline.collect()["loopcore.tasks.finished"].data.data_points
    values = {point.attributes["loopcore.task.outcome"]: point.value for point in points}
    assert values == {"finished": 1, "failed": 0, "cancelled": 0, "destroyed": 0}
    for point in points:
        assert point.attributes["loopcore.loop.name"] == "api"
        assert point.attributes["loopcore.backend"] == backend_name


def test_every_attribute_has_a_namespace() -> None:
    """A namespace other than loopcore's belongs to the conventions, and has their values."""
    conventions = pytest.importorskip("opentelemetry.semconv._incubating.attributes.network_attributes")
    for metric in CATALOGUE:
        for label in metric.dimensions:
            if not label.attribute.startswith("loopcore."):
                assert label.attribute == conventions.NETWORK_IO_DIRECTION
                known = {each.value for each in conventions.NetworkIoDirectionValues}
                assert {label.values[value] for value in ("received", "sent")} == known


def test_bytes_have_the_direction_of_the_conventions(loop: Any, pipeline: Pipeline) -> None:
    loop.probes.register(Metrics(otel=True))
    loop.run_until_complete(work())
    points = pipeline.collect()["loopcore.transport.io"].data.data_points
    assert {point.attributes["network.io.direction"] for point in points} == {"receive", "transmit"}


def test_a_histogram_has_all_that_was_recorded(loop: Any, pipeline: Pipeline) -> None:
    loop.probes.register(Metrics(otel=True))
    for times in (1, 2):  # cumulative
        loop.run_until_complete(work())
        lateness = _snapshot(loop).measurements.lateness
        exported = pipeline.collect()["loopcore.timer.lateness"].data
        (point,) = exported.data_points
        assert exported.aggregation_temporality is CUMULATIVE
        assert point.count == sum(point.bucket_counts) == lateness.count == 5 * times
        assert point.sum == lateness.sum_ns / 1e9
        assert (point.min, point.max) == (lateness.min_ns / 1e9, lateness.max_ns / 1e9)
        assert list(point.explicit_bounds) == list(BOUNDS)
        assert len(point.bucket_counts) == len(BOUNDS) + 1
        assert point.start_time_unix_nano < point.time_unix_nano


def test_an_exporter_that_wants_differences_gets_them(loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline(monkeypatch, DELTA)
    loop.probes.register(Metrics(otel=True))
    counts, ends = [], []
    for _ in range(3):
        loop.run_until_complete(work())
        exported = pipeline.collect()["loopcore.timer.lateness"].data
        assert exported.aggregation_temporality is DELTA
        (point,) = exported.data_points
        counts.append(point.count)
        ends.append((point.start_time_unix_nano, point.time_unix_nano))
    assert counts == [5, 5, 5]
    assert [begin for begin, _ in ends[1:]] == [end for _, end in ends[:-1]]
    pipeline.provider.shutdown()


def test_a_closed_loop_is_exported_no_more(pipeline: Pipeline, backend_name: str) -> None:
    loopcore.run(work(), backend=backend_name, plugins=[Metrics(otel=True)])
    with_nothing = pipeline.provider.force_flush()
    assert with_nothing
    assert all("loopcore.tasks.live" not in each for each in pipeline.memory.exports)
