"""Spans: OpenTelemetry spans of tasks and slow callbacks. Needs `pip install "loopcore[otel]"`.

A task's span begins when the task is created, as a child of the span that is current there, and is the current span
within the task: OpenTelemetry's context is a context variable, and every task has a separate context. If a
program lets several tasks share a context (`context=` of create_task), the span of the first is current in it until
that task is done; a task that shares its creator's context has a span, which is not made current there.
"""

import math
import time
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from loopcore import hookimpl
from loopcore.errors import UsageError
from loopcore.text import printable
from loopcore_plugins.trace.naming import describe_callback, describe_coroutine, describe_outcome

try:
    from opentelemetry import context as otel_context
    from opentelemetry import trace as otel
except ImportError as exc:
    raise UsageError('spans needs OpenTelemetry\'s API: pip install "loopcore[otel]"') from exc

SCOPE = "loopcore"
"""The instrumentation scope that the spans are made under."""


class Spans:
    """A span for each task, and one for each callback or step that takes `slow` seconds or longer; 0 means none.

    `tracer_provider` is OpenTelemetry's, by default the global one at the time of the first span.
    """

    def __init__(self, slow: float = 0.1, tracer_provider: "otel.TracerProvider | None" = None) -> None:
        if not 0 <= slow < math.inf:
            raise UsageError(f"spans: slow={slow} must be a number of seconds, or 0 for no spans of slow callbacks")
        self._slow_ns = int(slow * 1e9)
        self._provider = tracer_provider
        self._tracer: otel.Tracer | None = None
        self._spans: WeakKeyDictionary[Any, otel.Span] = WeakKeyDictionary()
        self._tokens: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self._began: list[int] = []

    @property
    def tracer(self) -> otel.Tracer:
        """The tracer; fetched late, because programs set the provider after the loop was created."""
        if self._tracer is None:
            self._tracer = otel.get_tracer(SCOPE, tracer_provider=self._provider)
        return self._tracer

    @hookimpl
    def loopcore_task_spawned(self, task: Any) -> None:
        name = printable(describe_coroutine(task))  # exporters drop a whole batch for one text that cannot be encoded
        attributes = {"code.function.name": name, "loopcore.task.name": printable(task.get_name())}
        span = self.tracer.start_span(f"task {name}", attributes=attributes)
        self._spans[task] = span
        try:
            self._tokens[task] = task.get_context().run(otel_context.attach, otel.set_span_in_context(span))
        except RuntimeError:
            pass  # the context is entered: it is the task creator's

    @hookimpl
    def loopcore_task_done(self, task: Any) -> None:
        span = self._spans.get(task)  # kept until the end of this step, which may be slow
        if span is None:
            return
        token = self._tokens.pop(task, None)
        if token is not None:
            _in_context(task.get_context(), otel_context.detach, token)
        outcome = describe_outcome(task)
        span.set_attribute("loopcore.task.outcome", outcome)
        if outcome == "failed":
            span.record_exception(task._exception)
            span.set_attribute("error.type", _error_type(task._exception))
            span.set_status(otel.Status(otel.StatusCode.ERROR, type(task._exception).__name__))
        span.end()

    @hookimpl
    def loopcore_plugin_unregistered(self) -> None:
        # Callbacks under way end unseen, and must not count as running when the plugin comes back.
        self._began.clear()

    @hookimpl
    def loopcore_handle_begin(self) -> None:
        self._began.append(time.time_ns())

    @hookimpl
    def loopcore_handle_end(self, handle: Any) -> None:
        if began := self._slow_since():
            name = describe_callback(handle)
            self._report("slow callback", name, began, _context_of(handle))

    @hookimpl
    def loopcore_task_step_begin(self) -> None:
        self._began.append(time.time_ns())

    @hookimpl
    def loopcore_task_step_end(self, task: Any) -> None:
        if began := self._slow_since():
            name, parent = describe_coroutine(task), self._spans.get(task)
            context = None if parent is None else otel.set_span_in_context(parent)
            self._report("slow step", name, began, context)
        if task.done():
            self._spans.pop(task, None)

    def _slow_since(self) -> int:
        """Return when the callback or step that ends now began, if it was slow; else 0."""
        began = self._began.pop() if self._began else 0  # empty if the plugin came while this ran
        return began if self._slow_ns and began and time.time_ns() - began >= self._slow_ns else 0

    def _report(self, kind: str, function: str, began: int, context: "otel_context.Context | None") -> None:
        name = printable(function)
        attributes = {"code.function.name": name}
        self.tracer.start_span(f"{kind} {name}", context=context, start_time=began, attributes=attributes).end()


def _error_type(exception: BaseException) -> str:
    """Return the class as OpenTelemetry's SDK names it in `exception.type`."""
    kind = type(exception)
    return printable(kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}")


def _context_of(handle: Any) -> "otel_context.Context | None":
    """Return the OpenTelemetry context in which the callback was scheduled and ran."""
    with suppress(AttributeError, RuntimeError):  # transports' runnables may have none; an entered one cannot run
        return handle.get_context().run(otel_context.get_current)  # type: ignore[no-any-return]
    return None


def _in_context(context: Any, function: Any, argument: Any) -> None:
    try:
        context.run(function, argument)
    except RuntimeError:
        function(argument)  # a task that ends in its last step is in its context already
