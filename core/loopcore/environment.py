"""What a loop reads from the environment when it is made, beside its backend and its plugins."""

import asyncio
import os
import sys
from typing import Any, Final

from loopcore.errors import UsageError
from loopcore.kernel.future import Future
from loopcore.kernel.task import Task

TASKS_VARIABLE: Final = "LOOPCORE_TASKS"
THREADS_VARIABLE: Final = "LOOPCORE_THREADS"
MOST_THREADS: Final = 1024


def task_classes() -> tuple[Any, Any]:
    """Return the classes of futures and tasks that LOOPCORE_TASKS asks for: loopcore's, or asyncio's C classes.

    Raises UsageError if it asks for anything else.
    """
    asked = os.environ.get(TASKS_VARIABLE, "")
    if asked in ("", "loopcore"):
        return Future, Task
    if asked == "asyncio":
        return asyncio.Future, asyncio.Task
    raise UsageError(f"{TASKS_VARIABLE}={asked!r} is not known; it can be 'loopcore' (the default) or 'asyncio'")


def thread_limit() -> int | None:
    """Return how many threads LOOPCORE_THREADS gives the default executor, 1 to 1024; None if it does not say.

    Raises UsageError for anything else.
    """
    asked = os.environ.get(THREADS_VARIABLE, "")
    if not asked:
        return None
    if not asked.isascii() or not asked.isdigit() or not 1 <= int(asked) <= MOST_THREADS:
        raise UsageError(f"{THREADS_VARIABLE}={asked!r} is not a number of threads; it can be 1 to {MOST_THREADS}")
    return int(asked)


def debug_is_asked_for() -> bool:
    """Tell whether loops begin in debug mode: by `python -X dev` or PYTHONASYNCIODEBUG, as asyncio's do."""
    if sys.flags.dev_mode:
        return True
    return not sys.flags.ignore_environment and bool(os.environ.get("PYTHONASYNCIODEBUG"))
