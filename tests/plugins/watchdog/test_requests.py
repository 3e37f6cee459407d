"""Which request a stalled task serves: the ids in its context."""

import contextvars
import sys
from contextvars import Context, ContextVar
from types import SimpleNamespace
from typing import Any

import pytest

from loopcore.errors import UsageError
from loopcore_plugins.watchdog import Stall
from loopcore_plugins.watchdog.report import describe
from loopcore_plugins.watchdog.request import LONGEST, RequestReader
from tests.plugins.watchdog.finder import PATIENCE, Finder, find

request_id: ContextVar[Any] = ContextVar("id")
HERE = f"{__name__}:request_id"

pytestmark = pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="contexts are not read without the GIL"
)


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no text")


def task(**values: Any) -> Any:
    """Return a stand-in for a task, in whose context `request_id` has a value, if there is one."""
    context = Context()
    for value in values.values():
        context.run(request_id.set, value)
    return SimpleNamespace(get_context=lambda: context)


def test_the_value_of_the_named_variable_is_read() -> None:
    assert RequestReader(HERE).read(task(request_id="abc")) == {"request_id": "abc"}
    assert RequestReader(HERE).read(task(request_id=7)) == {"request_id": "7"}
    assert RequestReader(HERE).read(task(request_id="x" * 1000)) == {"request_id": "x" * LONGEST}


def test_a_task_without_an_id_has_no_request() -> None:
    assert RequestReader(HERE).read(task()) is None
    assert RequestReader().read(task(request_id="abc")) is None
    assert RequestReader(HERE).read(SimpleNamespace()) is None  # asyncio's task on Python 3.11


@pytest.mark.parametrize("variable", ["", "request_id", "module:", ":name", "module:a.b"])
def test_a_variable_of_another_form_is_refused(variable: str) -> None:
    with pytest.raises(UsageError, match=r"context=.* must be module:variable"):
        RequestReader(variable)


@pytest.mark.parametrize(
    ("variable", "message"),
    [("no_such_module:name", "has not imported no_such_module"), (f"{__name__}:HERE", "not a context variable")],
)
def test_a_variable_that_does_not_exist_is_reported_once(
    variable: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    reader = RequestReader(variable)
    assert [reader.read(task(request_id="abc")) for _ in range(3)] == [None] * 3
    (record,) = caplog.records
    assert message in record.getMessage()


def test_a_value_that_raises_is_reported_and_harmless(caplog: pytest.LogCaptureFixture) -> None:
    assert RequestReader(HERE).read(task(request_id=Unprintable())) is None
    assert "no text" in caplog.text


def test_the_current_span_is_read_where_opentelemetry_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = pytest.importorskip("opentelemetry.trace")
    api = pytest.importorskip("opentelemetry.context")
    ids = trace.SpanContext(0xABC, 0xDEF, is_remote=False)
    stalled = task(request_id="abc")
    assert RequestReader().read(stalled) is None
    stalled.get_context().run(api.attach, trace.set_span_in_context(trace.NonRecordingSpan(ids)))
    expected = {"trace_id": f"{'abc':0>32}", "span_id": f"{'def':0>16}"}
    assert RequestReader().read(stalled) == expected
    assert RequestReader(HERE).read(stalled) == expected | {"request_id": "abc"}
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    assert RequestReader().read(stalled) is None
    assert "opentelemetry.trace" not in sys.modules


@pytest.mark.loopcore_only
def test_a_stall_has_the_request_of_its_task(loop: Any) -> None:
    async def program(finder: Finder) -> None:
        request_id.set("abc")
        finder.found.wait(PATIENCE)

    stall, _ = find(loop, program, context=HERE)
    assert stall.request == {"request_id": "abc"}
    assert "  request request_id=abc" in describe(stall).splitlines()


@pytest.mark.loopcore_only
def test_a_callback_has_no_request(loop: Any) -> None:
    async def program(finder: Finder) -> None:
        loop.call_soon(finder.found.wait, PATIENCE, context=contextvars.copy_context())
        done = loop.create_future()
        loop.call_soon(done.set_result, None)
        await done

    stall, _ = find(loop, program, context=HERE)
    assert (stall.task, stall.request) == (None, None)


def test_a_value_begins_no_line_of_the_log() -> None:
    stall = Stall("busy", 1.0, 0.5, request={"request_id": "a\nWARNING forged"})
    assert describe(stall).splitlines()[-1] == "  request request_id=a\\nWARNING forged"
