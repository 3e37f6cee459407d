"""Strict: mistakes that asyncio only logs end the run.

It looks for two mistakes. A task or future failed, and was dropped before its exception was retrieved; the loop
is notified when it is destroyed. A coroutine was called, and dropped without being awaited; see `unawaited`.
Only the garbage collector finds those in a reference cycle, so it runs once more when the loop is closed.
"""

import asyncio
import gc
import sys
from collections import deque
from dataclasses import dataclass
from types import CoroutineType
from typing import Any, Final

import loopcore
from loopcore.errors import UsageError
from loopcore.hooks.types import Loop
from loopcore.log import plugin_logger
from loopcore.text import printable
from loopcore_plugins.policy import unawaited

logger = plugin_logger.getChild("strict")

ACTIONS: Final = ("stop", "report", "log")
REMEMBERED: Final = 100
_NEVER_RETRIEVED: Final = "exception was never retrieved"


@dataclass(frozen=True)
class Mistake:
    """A mistake, described by `message`.

    `exception` was never retrieved; it is None unless `action` is "stop", because it keeps frames alive.
    """

    message: str
    exception: BaseException | None = None

    def __str__(self) -> str:
        return self.message


class StrictFailure(SystemExit):
    """Ends a run, or comes out of `close`, because of `mistakes`; the first one's exception is its cause.

    It is a SystemExit, because a loop passes all other exceptions of a callback to its exception handler: if it is not
    caught, it ends the program with its message and status 1.
    """

    def __init__(self, mistakes: list[Mistake]) -> None:
        self.mistakes = mistakes
        super().__init__("; ".join(map(str, mistakes)))
        self.__cause__ = mistakes[0].exception


class Strict:
    """Fails on exceptions that were never retrieved, and on coroutines that were never awaited. For one loop.

    `action`: "stop" raises StrictFailure out of the run; "report" calls the loop's exception handler, which gets
    the exceptions in any case; "log" logs an error to `loopcore.plugin.strict`, whatever that handler does.
    `exceptions`, `coroutines`: which of the two to look for.
    `origins`: how many frames of each coroutine's creation the interpreter keeps; a mistake names the innermost. 0
    keeps none, at no cost.
    `collect`: run the garbage collector when the loop is closed.
    """

    def __init__(
        self,
        *,
        action: str = "stop",
        exceptions: bool = True,
        coroutines: bool = True,
        origins: int = 1,
        collect: bool = True,
    ) -> None:
        if action not in ACTIONS:
            raise UsageError(f"action must be one of {', '.join(ACTIONS)}, not {action!r}")
        if not 0 <= origins < 2**31:  # a C int, for the interpreter
            raise UsageError(f"origins must be a number of frames, 0 or more, not {origins}")
        self.action = action
        self.exceptions = exceptions
        self.coroutines = coroutines
        self.origins = origins
        self.collect = collect
        self.count = 0
        """The number of mistakes so far."""
        self.mistakes: deque[Mistake] = deque(maxlen=REMEMBERED)
        """The latest mistakes."""
        self._raised = False
        self._loop: Any = None
        self._depth_before: int | None = None

    @loopcore.hookimpl
    def loopcore_plugin_registered(self, loop: Loop) -> None:
        """Start looking."""
        self._loop = loop
        if self.coroutines:
            unawaited.listen(self)
        if loop.is_running():
            self.loopcore_run_started()

    @loopcore.hookimpl
    def loopcore_plugin_unregistered(self) -> None:
        """Stop looking."""
        self.loopcore_run_stopped()
        unawaited.ignore(self)
        self._loop = None

    @loopcore.hookimpl
    def loopcore_run_started(self) -> None:
        """Make the interpreter record in this thread where coroutines are created; debug mode may do so already."""
        depth = sys.get_coroutine_origin_tracking_depth()
        if self.coroutines and depth < self.origins:
            self._depth_before = depth
            sys.set_coroutine_origin_tracking_depth(self.origins)

    @loopcore.hookimpl
    def loopcore_run_stopped(self) -> None:
        """Restore the interpreter's setting."""
        if self._depth_before is not None:
            sys.set_coroutine_origin_tracking_depth(self._depth_before)
            self._depth_before = None

    @loopcore.hookimpl
    def loopcore_loop_closing(self) -> None:
        """Find mistakes that only the garbage collector can find."""
        if self.collect:
            gc.collect()

    @loopcore.hookimpl(trylast=True)
    def loopcore_loop_closed(self) -> None:
        """Raise mistakes that no run has raised. Last, so that the other plugins have been notified of the end."""
        unawaited.ignore(self)
        self._loop = None
        self._stop()

    @loopcore.hookimpl
    def loopcore_exception(self, context: dict[str, Any]) -> None:
        """Find exceptions that were never retrieved in what is reported."""
        if self.exceptions and _NEVER_RETRIEVED in str(context.get("message")):
            exception = context.get("exception")
            self._note(f"{context['message']}: {exception!r} of {context.get('future')!r}", exception)

    def concerns_this_thread(self) -> bool:
        """Tell whether the loop runs in the calling thread."""
        return self._loop is not None and asyncio._get_running_loop() is self._loop

    def note_unawaited(self, coroutine: "CoroutineType[Any, Any, Any]") -> None:
        """Record a coroutine that is destroyed without having run."""
        message = printable(f"coroutine '{coroutine.__qualname__}' was never awaited; {_place_of(coroutine)}")
        if self.action == "report" and self._loop is not None:
            self._loop.call_exception_handler({"message": message})
        self._note(message)

    def _note(self, message: str, exception: BaseException | None = None) -> None:
        """Record a mistake. Called from finalizers, which cannot raise, and in any thread."""
        self.count += 1
        self.mistakes.append(Mistake(message, exception if self.action == "stop" else None))
        if self.action == "log":
            logger.error("%s", message, exc_info=exception)
        elif self.action == "stop" and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        """Raise, once: mistakes found while the program ends because of it are only kept."""
        if self.action == "stop" and self.mistakes and not self._raised:
            self._raised = True
            raise StrictFailure(list(self.mistakes))


def _place_of(coroutine: "CoroutineType[Any, Any, Any]") -> str:
    if coroutine.cr_origin:
        file, line, function = coroutine.cr_origin[0]
        return f"it was created at {file}:{line}, in {function}"
    code = coroutine.cr_code
    return f"it is defined at {code.co_filename}:{code.co_firstlineno}"
