"""Faults: the handling of uncaught exceptions.

The semantics are asyncio's: a fault goes to the program's handler, or else to the log; a handler that fails is itself
reported; SystemExit and KeyboardInterrupt always propagate and end the run.
"""

import traceback
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from loopcore.log import logger

if TYPE_CHECKING:
    from loopcore.kernel.future import Future
    from loopcore.kernel.visible import Task

FaultContext: TypeAlias = dict[str, Any]
ExceptionHandler: TypeAlias = Callable[[Any, FaultContext], object]


_TRACEBACK_TITLES = {
    "source_traceback": "Object created at (most recent call last):",
    "handle_traceback": "Handle created at (most recent call last):",
}


class FaultOwner(Protocol):
    """The loop as faults see it: it is passed to handlers, and a subclass may override its report."""

    _current_handle: object

    def default_exception_handler(self, context: FaultContext) -> None: ...

    def _is_elsewhere(self) -> bool: ...


class Faults:
    """The exception handler of one loop. Thread: the loop's own."""

    __slots__ = ("_handler", "_owner")

    def __init__(self, owner: FaultOwner) -> None:
        self._owner = owner
        self._handler: ExceptionHandler | None = None

    def set_exception_handler(self, handler: ExceptionHandler | None) -> None:
        """Set `handler(loop, context)` to receive every fault; None restores the report to the log."""
        if handler is not None and not callable(handler):
            raise TypeError(f"A callable object or None is expected, got {handler!r}")
        self._handler = handler

    def get_exception_handler(self) -> ExceptionHandler | None:
        """Return the program's handler, or None if faults go to the log."""
        return self._handler

    def call(self, context: FaultContext) -> None:
        """Report a fault, as `loop.call_exception_handler`. Only SystemExit and KeyboardInterrupt pass."""
        if self._handler is None:
            self._report_safely(context, "Exception in default exception handler")
            return
        try:
            self._call_handler(self._handler, context)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self._report_safely(
                {"message": "Unhandled error in exception handler", "exception": exc, "context": context},
                "Exception in default exception handler while handling an unexpected error in custom exception handler",
            )

    def default(self, context: FaultContext) -> None:
        """Write a fault to the log, with the traceback of its exception if there is one.

        In debug mode the report says where the failed object was created, or else where the running callback was.
        """
        # In another thread a finalizer reports, which has nothing to do with the callback that runs in the loop's.
        current = None if self._owner._is_elsewhere() else self._owner._current_handle
        made_at = getattr(current, "_source_traceback", None)
        if made_at and "source_traceback" not in context:
            context["handle_traceback"] = made_at
        lines = [context.get("message") or "Unhandled exception in event loop"]
        lines += [_describe(key, context[key]) for key in sorted(context) if key not in ("message", "exception")]
        exception = context.get("exception")
        exc_info = (type(exception), exception, exception.__traceback__) if exception is not None else False
        # The whole text is the message, because error collectors group records by it. Without arguments logging does
        # not format it.
        logger.error("\n".join(lines), exc_info=exc_info)

    def _call_handler(self, handler: ExceptionHandler, context: FaultContext) -> None:
        # Since 3.12 a handler sees the context variables of the task or callback that failed. Here it does so on 3.11,
        # too: no program can have relied on the variables of an arbitrary reporter.
        where = _context_of_culprit(context)
        if where is None:
            handler(self._owner, context)
            return
        entered: list[bool] = []

        def call() -> None:
            entered.append(True)
            handler(self._owner, context)

        try:
            where.run(call)
        except RuntimeError:
            if entered:
                raise
            handler(self._owner, context)  # a task reports itself: its context is already the current one

    def _report_safely(self, context: FaultContext, failure: str) -> None:
        try:
            self._owner.default_exception_handler(context)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException:
            # Only a logging handler or an overridden report gets here; the log is the last resort.
            logger.exception(failure)


def report_unseen(future: "Future | Task") -> None:
    """Report the exception of a future that is destroyed without its exception having been retrieved."""
    message = f"{type(future).__name__} exception was never retrieved"
    _report_end(future, {"message": message, "exception": future._exception, "future": future})


def report_destroyed(task: "Future | Task") -> None:
    """Report a task that is destroyed before its coroutine has ended."""
    _report_end(task, {"task": task, "message": "Task was destroyed but it is pending!"})


def _report_end(future: "Future | Task", context: FaultContext) -> None:
    if future._source_traceback:
        context["source_traceback"] = future._source_traceback
    future._loop.call_exception_handler(context)


def _describe(key: str, value: Any) -> str:
    title = _TRACEBACK_TITLES.get(key)
    if title is None:
        return f"{key}: {value!r}"
    stack = "".join(traceback.format_list(value)).rstrip()
    return f"{key}: {title}\n{stack}"


def _context_of_culprit(context: FaultContext) -> Context | None:
    for key in ("task", "future", "handle"):
        culprit = context.get(key)
        if culprit is not None:
            get_context = getattr(culprit, "get_context", None)
            where = get_context() if get_context is not None else None
            return where if isinstance(where, Context) else None
    return None
