"""OpenTelemetry: a span for each task, slow callbacks, and the metrics of the loop with their histograms.

Start it with `python opentelemetry_app.py`.

It prints what it exports. For a collector, use OTLPSpanExporter and OTLPMetricExporter in place of the console's.
"""

import asyncio
import time

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

import loopcore
from loopcore_plugins.metrics.otel_histograms import WithHistograms


def configure() -> tuple[TracerProvider, MeterProvider]:
    """Set the global providers, which the plugins `spans` and `metrics` use."""
    resource = Resource.create({"service.name": "shop"})
    tracing = TracerProvider(resource=resource)
    tracing.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter()))
    reader = PeriodicExportingMetricReader(WithHistograms(ConsoleMetricExporter()))
    metering = MeterProvider([reader], resource=resource)
    trace.set_tracer_provider(tracing)
    metrics.set_meter_provider(metering)
    return tracing, metering


async def price(article: str) -> int:
    """A span of the program: a child of the span of its task."""
    with trace.get_tracer(__name__).start_as_current_span("ask for the price"):
        await asyncio.sleep(0.01)
    return len(article)


async def main(metering: MeterProvider) -> None:
    """Two tasks, and a callback that is slow enough to have a span."""
    async with asyncio.TaskGroup() as group:
        for article in ("apple", "pear"):
            group.create_task(price(article), name=f"price-of-{article}")
    asyncio.get_running_loop().call_soon(time.sleep, 0.06)
    await asyncio.sleep(0)
    await asyncio.to_thread(metering.force_flush)  # a long-running program exports once a minute


if __name__ == "__main__":
    tracing, metering = configure()
    loopcore.run(main(metering), plugins=["spans:slow=0.05", "metrics:otel=yes"])
    tracing.shutdown()
    metering.shutdown()
