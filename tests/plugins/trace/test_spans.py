"""OpenTelemetry spans of tasks: who is whose child, what failed, what was slow."""

import asyncio
import contextvars
import math
import re
import time
from collections.abc import Coroutine
from typing import Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import loopcore
from loopcore import UsageError
from loopcore_plugins.trace.spans import Spans

pytestmark = pytest.mark.loopcore_only


class Recorded:
    """Spans, as an exporter gets them."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def run(self, backend: str, main: Coroutine[Any, Any, Any], slow: float = 0.0) -> dict[str, Any]:
        loopcore.run(main, backend=backend, plugins=[Spans(slow=slow, tracer_provider=self.provider)])
        return {_short(span.name): span for span in self.exporter.get_finished_spans()}


def _short(name: str) -> str:
    """Of `task outer.<locals>.inner` inner; titles of other spans stay as they are."""
    return re.split(r"[. ]", name)[-1] if name.startswith("task ") else name


async def leaf() -> Any:
    return otel.get_current_span()


async def broken() -> None:
    raise ValueError("no")


def test_names_can_be_encoded(backend_name: str) -> None:
    """Issue 32: an exporter that cannot encode one attribute sends none of its spans."""
    recorded = Recorded()

    async def main() -> None:
        asyncio.current_task().set_name("odd\ud800")  # type: ignore[union-attr]
        named = leaf()
        named.__qualname__ = "le\ud800af"
        await asyncio.create_task(named, name="odd\ud800")

    recorded.run(backend_name, main(), slow=1e-9)
    spans = recorded.exporter.get_finished_spans()
    for span in spans:
        for text in (span.name, *(span.attributes or {}).values()):
            assert str(text).encode()
    assert r"task le\ud800af" in [span.name for span in spans]


def test_a_task_is_a_child_of_the_span_that_was_current_where_it_was_made(backend_name: str) -> None:
    recorded = Recorded()

    async def main() -> None:
        with recorded.provider.get_tracer("app").start_as_current_span("request"):
            task = asyncio.create_task(leaf())
        assert (await task).get_span_context().span_id != otel.get_current_span().get_span_context().span_id

    spans = recorded.run(backend_name, main())
    assert spans["leaf"].parent.span_id == spans["request"].context.span_id
    assert spans["request"].parent.span_id == spans["main"].context.span_id
    assert spans["main"].parent is None
    assert len({spans[name].context.trace_id for name in ("main", "request", "leaf")}) == 1


def test_the_outcome_is_an_attribute_and_an_error_is_recorded(backend_name: str) -> None:
    async def main() -> None:
        endless = asyncio.create_task(asyncio.sleep(100))
        await asyncio.gather(leaf(), broken(), return_exceptions=True)
        endless.cancel()
        await asyncio.wait([endless])

    spans = Recorded().run(backend_name, main())
    outcomes = {name: span.attributes["loopcore.task.outcome"] for name, span in spans.items()}
    assert (
        outcomes.items() >= {"leaf": "finished", "broken": "failed", "sleep": "cancelled", "main": "finished"}.items()
    )
    assert spans["broken"].status.status_code is otel.StatusCode.ERROR
    assert spans["broken"].events[0].attributes["exception.message"] == "no"
    assert spans["broken"].attributes["error.type"] == spans["broken"].events[0].attributes["exception.type"]


def test_a_shared_context_is_left_as_it_was_found(backend_name: str) -> None:
    recorded = Recorded()
    shared = contextvars.copy_context()

    async def main() -> None:
        await asyncio.create_task(leaf(), context=shared)

    recorded.run(backend_name, main())
    assert shared.run(otel.get_current_span) is otel.INVALID_SPAN


def test_a_slow_step_is_a_span_within_its_task(backend_name: str) -> None:
    async def slow() -> None:
        sum(range(300_000))
        await asyncio.sleep(0)

    recorded = Recorded()
    spans = recorded.run(backend_name, slow(), slow=0.001)
    # On a busy machine its last step is slow, too.
    step = next(span for span in recorded.exporter.get_finished_spans() if re.fullmatch("slow step .*slow", span.name))
    assert step.parent.span_id == spans["slow"].context.span_id
    assert spans["slow"].start_time <= step.start_time < step.end_time <= spans["slow"].end_time


def test_a_slow_last_step_is_a_span_within_its_task(backend_name: str) -> None:
    async def slow() -> None:
        sum(range(300_000))

    spans = Recorded().run(backend_name, slow(), slow=0.001)
    step = next(span for name, span in spans.items() if name.startswith("slow step") and name.endswith("slow"))
    assert step.parent.span_id == spans["slow"].context.span_id


def test_a_slow_callback_is_a_child_of_what_scheduled_it(backend_name: str) -> None:
    def compute() -> None:
        sum(range(300_000))

    async def main() -> None:
        asyncio.get_running_loop().call_soon(compute)
        await asyncio.sleep(0)

    spans = Recorded().run(backend_name, main(), slow=0.001)
    callback = next(span for name, span in spans.items() if re.match("slow callback .*compute", name))
    assert callback.parent.span_id == spans["main"].context.span_id


def test_step_that_began_before_a_pause_makes_no_later_one_slow(
    backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Recorded()
    plugin = Spans(slow=3600.0, tracer_provider=recorded.provider)
    other = Spans(tracer_provider=TracerProvider())  # with it, all steps are observed, the one under way included

    async def main() -> None:
        probes = asyncio.get_running_loop().probes  # type: ignore[attr-defined]
        probes.register(plugin)
        await asyncio.sleep(0)
        probes.unregister(plugin)
        monkeypatch.setattr(time, "time_ns", lambda now=time.time_ns: now() + 7_200_000_000_000)
        await asyncio.sleep(0)
        probes.register(plugin)
        await asyncio.sleep(0)

    loopcore.run(main(), backend=backend_name, plugins=[other])
    assert [span.name for span in recorded.exporter.get_finished_spans() if span.name.startswith("slow")] == []


@pytest.mark.parametrize("slow", [-1.0, math.inf, math.nan])
def test_an_impossible_threshold_is_refused(slow: float) -> None:
    with pytest.raises(UsageError, match=f"slow={slow}"):
        Spans(slow=slow)


def test_what_is_no_text_cannot_be_given_as_text() -> None:
    with pytest.raises(UsageError, match="cannot be given as text"):
        loopcore.new_event_loop(plugins="spans:tracer_provider=x")
