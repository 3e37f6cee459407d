"""The request that a stalled task serves: the ids in the task's context, for the report.

A task's context can be read while the task runs in it, from any thread: a copy of it is entered instead. Only modules
that the program has imported are used. Without the GIL a context is not protected from a `set` in its task's thread,
so there nothing is read.
"""

import sys
from contextvars import Context, ContextVar
from typing import Any, Final

from loopcore.build_info import has_gil
from loopcore.errors import UsageError
from loopcore.log import plugin_logger

logger = plugin_logger.getChild("watchdog")

LONGEST: Final = 200
"""The most characters of a value that are reported."""


class RequestReader:
    """Reads the current span of OpenTelemetry, and the context variable `variable`, from a task's context.

    `variable` is "module:name", or None. Raises UsageError if it has another form.
    """

    def __init__(self, variable: str | None = None) -> None:
        module, colon, name = (variable or "").partition(":")
        if variable is not None and not (module and colon and name.isidentifier()):
            raise UsageError(
                f"watchdog: context={variable} must be module:variable; for example context=app.log:request_id"
            )
        self._module = module
        self._name = name
        self._has_warned = False

    def read(self, task: Any) -> dict[str, str] | None:
        """Return the ids by name, `trace_id`, `span_id` and the variable's; None without any. Thread: any."""
        get_context = getattr(task, "get_context", None)  # asyncio's own tasks have none before Python 3.12
        if get_context is None or not has_gil():
            return None
        try:
            context: Context = get_context().copy()
            return _span_ids(context) | self._value(context) or None
        except Exception:  # from the program's classes: a span, or the value's __str__
            logger.warning("the watchdog cannot read the request of %r", task, exc_info=True)
            return None

    def _value(self, context: Context) -> dict[str, str]:
        if not self._name:
            return {}
        module = sys.modules.get(self._module)
        variable = getattr(module, self._name, None)
        if not isinstance(variable, ContextVar):
            if not self._has_warned:
                self._has_warned = True
                wrong = "it is not a context variable" if module else f"the program has not imported {self._module}"
                logger.warning("the watchdog cannot read context=%s:%s: %s", self._module, self._name, wrong)
            return {}
        value = context.get(variable)
        return {} if value is None else {self._name: str(value)[:LONGEST]}


def _span_ids(context: Context) -> dict[str, str]:
    # The function is also missing while the module is being imported.
    current_span = getattr(sys.modules.get("opentelemetry.trace"), "get_current_span", None)
    if current_span is None:
        return {}
    span = context.run(current_span).get_span_context()
    return {"trace_id": f"{span.trace_id:032x}", "span_id": f"{span.span_id:016x}"} if span.is_valid else {}
