"""The settings that a new loop reads from the environment, apart from its backend and its plugins."""

import asyncio
import os
import sys
from typing import Any, Final, NamedTuple

from loopcore.errors import UsageError
from loopcore.kernel.limits import FLUSH_LIMIT, POLL_SKIP_TICKS, POLL_SKIP_TIME, RECEIVE_LIMIT
from loopcore.text import did_you_mean

TASKS_VARIABLE: Final = "LOOPCORE_TASKS"
THREADS_VARIABLE: Final = "LOOPCORE_THREADS"
OTHER_LOOPS_VARIABLE: Final = "LOOPCORE_ALLOW_OTHER_LOOPS"
MOST_THREADS: Final = 1024

VARIABLES: Final = frozenset(
    {
        "LOOPCORE_ALLOW_OTHER_LOOPS",
        "LOOPCORE_BACKEND",
        "LOOPCORE_BUILD_CACHE",
        "LOOPCORE_COMPILE",
        "LOOPCORE_EVENT_BATCH",
        "LOOPCORE_FLUSH_LIMIT",
        "LOOPCORE_INSPECT_DIR",
        "LOOPCORE_PATIENCE",
        "LOOPCORE_PLUGINS",
        "LOOPCORE_POLL_SKIP_TICKS",
        "LOOPCORE_POLL_SKIP_TIME",
        "LOOPCORE_RECEIVE_LIMIT",
        "LOOPCORE_SOAK",
        "LOOPCORE_STORM",
        "LOOPCORE_TASKS",
        "LOOPCORE_THREADS",
        "LOOPCORE_URING_WITHOUT",
    }
)
"""All variables of loopcore's own; docs/reference/environment.md describes each."""

PREFIX: Final = "LOOPCORE_"
FOR_TESTS: Final = "LOOPCORE_TEST_"
"""Variables that begin like this belong to loopcore's tests."""


class Setting(NamedTuple):
    """A setting of a loop: its attribute, its default, the smallest and the largest value, and their unit.

    All values have the type of the default.
    """

    attribute: str
    default: float
    least: float
    most: float
    unit: str


SETTINGS: Final = {
    "LOOPCORE_POLL_SKIP_TICKS": Setting("poll_skip_ticks", POLL_SKIP_TICKS, 0, 1_000_000, "ticks"),
    "LOOPCORE_POLL_SKIP_TIME": Setting("poll_skip_time", POLL_SKIP_TIME, 0.0, 1.0, "seconds"),
    "LOOPCORE_FLUSH_LIMIT": Setting("flush_limit", FLUSH_LIMIT, 0, 1 << 30, "bytes"),
    "LOOPCORE_RECEIVE_LIMIT": Setting("receive_limit", RECEIVE_LIMIT, 256, RECEIVE_LIMIT, "bytes"),
}
"""The variables that set attributes of every new loop."""


class LoopSettings(NamedTuple):
    """What the environment says of a new loop."""

    task_classes: tuple[type[asyncio.Future[Any]], type[asyncio.Task[Any]]] | None
    """asyncio's classes of futures and tasks if LOOPCORE_TASKS asks for them."""
    threads: int | None
    """How many threads LOOPCORE_THREADS gives the default executor."""
    attributes: dict[str, float]
    """The values of SETTINGS that are set."""


def read(variable: str) -> str:
    """Return the value of `variable` without blanks around it; an empty string if it is not set."""
    return os.environ.get(variable, "").strip()


def unknown_variables() -> list[str]:
    """Return a warning for each variable that is named like loopcore's, but is none of them: most likely a typo."""
    ours = sorted(name for name in os.environ if name.startswith(PREFIX) and not name.startswith(FOR_TESTS))
    return [
        f"{name} has no effect: loopcore has no such variable{did_you_mean(name, sorted(VARIABLES), prefix=PREFIX)}"
        for name in ours
        if name not in VARIABLES
    ]


def read_settings() -> LoopSettings:
    """Read the settings of a new loop. Raises UsageError for a value that is not possible, with those that are."""
    attributes = {
        setting.attribute: _value_of(variable, text, setting)
        for variable, setting in SETTINGS.items()
        if (text := read(variable))
    }
    return LoopSettings(_task_classes(), _thread_limit(), attributes)


def _value_of(variable: str, text: str, setting: Setting) -> float:
    kind = type(setting.default)
    try:
        value = kind(text)
        right = setting.least <= value <= setting.most  # false for NaN, too
    except ValueError:
        right = False
    if right:
        return value
    what = "a whole number" if kind is int else "a number"
    raise UsageError(
        f"{variable}={text!r} must be {what} of {setting.unit} from {setting.least} to {setting.most}; "
        f"unset it for the default, {setting.default}"
    )


def _task_classes() -> tuple[type[asyncio.Future[Any]], type[asyncio.Task[Any]]] | None:
    asked = read(TASKS_VARIABLE)
    if not asked:
        return None
    if asked == "asyncio":
        return asyncio.Future, asyncio.Task
    raise UsageError(f"{TASKS_VARIABLE}={asked!r} must be asyncio; unset it for loopcore's own tasks")


def _thread_limit() -> int | None:
    asked = read(THREADS_VARIABLE)
    if not asked:
        return None
    try:
        count = int(asked)
    except ValueError:
        count = 0
    if not 1 <= count <= MOST_THREADS:
        raise UsageError(
            f"{THREADS_VARIABLE}={asked!r} must be a whole number from 1 to {MOST_THREADS}; "
            "unset it for asyncio's default, the number of processors plus 4, at most 32"
        )
    return count


def other_loops_are_allowed() -> bool:
    """Return whether a program may run on another loop without a warning of `loopcore run`. Raises UsageError."""
    asked = read(OTHER_LOOPS_VARIABLE)
    if not asked:
        return False
    from loopcore.selection.plugin_options import TRUTHS  # here, as pathlib takes a while

    try:
        return TRUTHS[asked.lower()]
    except KeyError:
        raise UsageError(f"{OTHER_LOOPS_VARIABLE}={asked!r} must be yes or no; unset it for no") from None


def debug_is_asked_for() -> bool:
    """Return whether loops start in debug mode: by `python -X dev` or PYTHONASYNCIODEBUG, as asyncio's do."""
    if sys.flags.dev_mode:
        return True
    return not sys.flags.ignore_environment and bool(os.environ.get("PYTHONASYNCIODEBUG"))
