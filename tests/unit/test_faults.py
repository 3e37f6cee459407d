"""What becomes of exceptions that nobody catches: the exception handler of the loop."""

import asyncio
import contextvars
import gc
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest

Loop = asyncio.AbstractEventLoop


def failing_callback() -> None:
    raise ZeroDivisionError("on purpose")


def run_failing_callback(loop: Loop) -> None:
    loop.call_soon(failing_callback)
    loop.call_soon(loop.stop)
    loop.run_forever()


def collect_faults(loop: Loop) -> list[dict[str, Any]]:
    faults: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    return faults


@pytest.mark.covers("EventLoop.default_exception_handler", "EventLoop.call_exception_handler")
@pytest.mark.reports_errors
def test_without_handler_a_fault_goes_to_the_asyncio_log(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    run_failing_callback(loop)
    (record,) = [record for record in caplog.records if record.name == "asyncio" and record.levelno == logging.ERROR]
    assert record.getMessage().startswith("Exception in callback failing_callback() at ")
    assert "\nhandle: <Handle failing_callback()" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


@pytest.mark.reports_errors
def test_report_without_message_has_a_title(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    loop.call_exception_handler({"b": 2, "a": "1"})
    assert caplog.messages == ["Unhandled exception in event loop\na: '1'\nb: 2"]


@pytest.mark.reports_errors
def test_report_is_the_record_s_message_itself_by_which_collectors_group(
    loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    loop.call_exception_handler({"message": "100 %s"})
    assert [(record.msg, record.args) for record in caplog.records] == [("100 %s", ())]


@pytest.mark.reports_errors
def test_report_shows_where_the_object_was_created(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    loop.set_debug(True)
    run_failing_callback(loop)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "source_traceback: Object created at (most recent call last):\n" in record.getMessage()
    assert "in run_failing_callback" in record.getMessage()


@pytest.mark.covers("EventLoop.set_exception_handler")
def test_handler_receives_loop_and_context(loop: Loop) -> None:
    calls: list[tuple[Loop, dict[str, Any]]] = []
    loop.set_exception_handler(lambda *args: calls.append(args))
    run_failing_callback(loop)
    ((where, context),) = calls
    assert where is loop
    assert isinstance(context["exception"], ZeroDivisionError)
    assert context["message"].startswith("Exception in callback failing_callback()")
    assert isinstance(context["handle"], asyncio.Handle)


@pytest.mark.covers("EventLoop.get_exception_handler")
def test_handler_can_be_asked_for_and_taken_back(loop: Loop) -> None:
    def handler(where: Loop, context: dict[str, Any]) -> None:
        pass

    assert loop.get_exception_handler() is None
    loop.set_exception_handler(handler)
    assert loop.get_exception_handler() is handler
    loop.set_exception_handler(None)
    assert loop.get_exception_handler() is None


def test_handler_must_be_callable(loop: Loop) -> None:
    with pytest.raises(TypeError, match=r"^A callable object or None is expected, got 'spam'$"):
        loop.set_exception_handler("spam")  # type: ignore[arg-type]


@pytest.mark.reports_errors
def test_failing_handler_is_reported_with_what_it_was_told(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    def handler(where: Loop, context: dict[str, Any]) -> None:
        raise AttributeError("spam")

    loop.set_exception_handler(handler)
    run_failing_callback(loop)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage().startswith("Unhandled error in exception handler\ncontext: {")
    assert record.exc_info is not None
    assert record.exc_info[0] is AttributeError


@pytest.mark.reports_errors
def test_failing_overridden_report_does_not_stop_the_loop(
    loop: Loop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def report(context: dict[str, Any]) -> None:
        raise ValueError("spam")

    monkeypatch.setattr(loop, "default_exception_handler", report)
    run_failing_callback(loop)
    assert caplog.messages == ["Exception in default exception handler"]


@pytest.mark.reports_errors
def test_failing_report_of_a_failing_handler_does_not_stop_the_loop(
    loop: Loop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise ValueError("spam")

    monkeypatch.setattr(loop, "default_exception_handler", fail)
    loop.set_exception_handler(fail)
    run_failing_callback(loop)
    assert caplog.messages == [
        "Exception in default exception handler while handling an unexpected error in custom exception handler"
    ]


@pytest.mark.parametrize("exit_type", [SystemExit, KeyboardInterrupt])
def test_exits_leave_callback_handler_and_report(
    loop: Loop, exit_type: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(*args: Any) -> None:
        raise exit_type

    loop.call_soon(leave)
    with pytest.raises(exit_type):
        loop.run_forever()

    loop.set_exception_handler(leave)
    with pytest.raises(exit_type):
        loop.call_exception_handler({"message": "spam"})

    loop.set_exception_handler(None)
    monkeypatch.setattr(loop, "default_exception_handler", leave)
    with pytest.raises(exit_type):
        loop.call_exception_handler({"message": "spam"})


@pytest.mark.reports_errors
def test_subclass_may_override_the_report(loop: Loop) -> None:
    told: list[dict[str, Any]] = []

    class Sub(type(loop)):  # type: ignore[misc]
        def default_exception_handler(self, context: dict[str, Any]) -> None:
            told.append(context)

    loop.__class__ = Sub
    run_failing_callback(loop)
    assert [type(context["exception"]) for context in told] == [ZeroDivisionError]


@pytest.mark.reports_errors
def test_handler_that_raises_a_runtime_error_is_called_once(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[dict[str, Any]] = []

    def handler(where: Loop, context: dict[str, Any]) -> None:
        calls.append(context)
        raise RuntimeError("the handler")

    loop.set_exception_handler(handler)
    run_failing_callback(loop)
    assert len(calls) == 1
    (record,) = caplog.records
    assert record.getMessage().startswith("Unhandled error in exception handler")


def test_handler_runs_in_the_context_of_the_callback_that_failed(loop: Loop, backend_name: str) -> None:
    if backend_name == "asyncio" and sys.version_info < (3, 12):
        pytest.skip("asyncio does so from 3.12 on")
    variable = contextvars.ContextVar[str]("variable", default="outside")
    seen: list[str] = []
    loop.set_exception_handler(lambda _, context: seen.append(variable.get()))
    context = contextvars.copy_context()
    context.run(variable.set, "inside")
    loop.call_soon(failing_callback, context=context)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert seen == ["inside"]


def test_handler_of_a_fault_of_a_task_and_a_callback_runs_in_the_context_of_the_task(
    loop: Loop, backend_name: str
) -> None:
    if backend_name == "asyncio" and sys.version_info < (3, 12):
        pytest.skip("asyncio does so from 3.12 on")
    variable = contextvars.ContextVar[str]("variable", default="outside")
    seen: list[str] = []
    loop.set_exception_handler(lambda _, context: seen.append(variable.get()))
    contexts = {name: contextvars.copy_context() for name in ("task", "handle")}
    for name, context in contexts.items():
        context.run(variable.set, name)

    async def main() -> None:
        pass

    task = loop.create_task(main(), context=contexts["task"])
    handle = loop.call_soon(int, context=contexts["handle"])
    loop.call_exception_handler({"message": "", "handle": handle, "task": task})
    loop.run_until_complete(task)
    assert seen == ["task"]


@pytest.mark.differs(
    "EventLoop.call_exception_handler",
    why="A task may report itself; asyncio enters its context a second time and reports the failure of that.",
)
@pytest.mark.loopcore_only
async def test_task_may_report_itself(loop: Loop) -> None:
    # asyncio tries to enter the task's context a second time and reports the failure of that instead.
    faults = collect_faults(loop)
    loop.call_exception_handler({"message": "spam", "task": asyncio.current_task()})
    assert [fault["message"] for fault in faults] == ["spam"]


def test_exception_of_a_task_that_nobody_asks_for_is_reported(loop_factory: Callable[[], Loop]) -> None:
    loop = loop_factory()
    faults = collect_faults(loop)

    async def fail() -> None:
        raise ValueError("spam")

    async def main() -> None:
        task = asyncio.ensure_future(fail())
        await asyncio.wait([task])

    loop.run_until_complete(main())
    gc.collect()  # interpreted, the frames of the loop can keep the task until then
    (fault,) = faults
    assert fault["message"] == "Task exception was never retrieved"
    assert isinstance(fault["exception"], ValueError)
