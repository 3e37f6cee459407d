"""The settings that a new loop reads from the environment, apart from its backend and its plugins."""

import asyncio
import os
import sys
from typing import Any, Final, NamedTuple

from loopcore.errors import UsageError
from loopcore.kernel.limits import FLUSH_LIMIT, POLL_SKIP_TICKS, POLL_SKIP_TIME, RECEIVE_LIMIT

PLUGIN_VARIABLE: Final = "LOOPCORE_PLUGINS"
TASKS_VARIABLE: Final = "LOOPCORE_TASKS"
THREADS_VARIABLE: Final = "LOOPCORE_THREADS"
MOST_THREADS: Final = 1024


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

_keys_of_loops: Final[set[Any]] = set()

_KEYS: Final[dict[str, Any]] = {}
"""The names of variables as `os.environ` stores them: encoded on POSIX, in upper case on Windows."""


def read(variable: str) -> str:
    """Return the value of `variable`; an empty string if it is not set.

    The same as `os.environ.get`, which encodes the name and raises an exception internally for each variable that is
    not set. For the nine variables that a new loop reads, that took a tenth of the time to create the loop.
    """
    known = getattr(os.environ, "_data", None)
    if type(known) is dict:  # else the program has replaced os.environ
        key = _KEYS.get(variable)
        if key is None:
            key = _KEYS[variable] = os.environ.encodekey(variable)
        if key not in known:
            return ""
    return os.environ.get(variable, "")


_OF_LOOPS: Final = (TASKS_VARIABLE, THREADS_VARIABLE, PLUGIN_VARIABLE, *SETTINGS)


def no_settings_in_environ() -> bool:
    """Return whether no variable for tasks, threads, plugins or settings is set, not even to an empty string.

    One lookup instead of seven: a new loop then reads none of them. False if a quick check cannot tell.
    """
    known = getattr(os.environ, "_data", None)
    if type(known) is not dict:
        return False
    if not _keys_of_loops:
        keys = [os.environ.encodekey(variable) for variable in _OF_LOOPS]
        _keys_of_loops.update(keys)  # in one step: another thread may look meanwhile
    return known.keys().isdisjoint(_keys_of_loops)


def loop_settings() -> dict[str, float]:
    """Return the attributes that the environment sets, with their values.

    Raises UsageError for a value that is not a number of the right type, or is out of range.
    """
    return {
        setting.attribute: _value_of(variable, text, setting)
        for variable, setting in SETTINGS.items()
        if (text := read(variable).strip())
    }


def apply_settings(loop: Any) -> None:
    """Set the attributes of a new loop that the environment names. Raises UsageError as `loop_settings` does."""
    for name, value in loop_settings().items():
        setattr(loop, name, value)


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
        f"{variable}={text!r} is not {what} of {setting.unit} from {setting.least} to {setting.most}; "
        f"the default is {setting.default}"
    )


def task_classes() -> tuple[Any, Any] | None:
    """Return asyncio's classes of futures and tasks if LOOPCORE_TASKS asks for them; None for the default.

    Raises UsageError if it asks for anything else.
    """
    asked = read(TASKS_VARIABLE).strip()
    if not asked:
        return None
    if asked == "asyncio":
        return asyncio.Future, asyncio.Task
    raise UsageError(f"{TASKS_VARIABLE}={asked!r} is not known; it can be 'asyncio', or unset")


def thread_limit() -> int | None:
    """Return how many threads LOOPCORE_THREADS gives the default executor, 1 to 1024; None if it is not set.

    Raises UsageError for anything else.
    """
    asked = read(THREADS_VARIABLE).strip()
    if not asked:
        return None
    try:
        count = int(asked)
    except ValueError:
        count = 0
    if not 1 <= count <= MOST_THREADS:
        raise UsageError(
            f"{THREADS_VARIABLE}={asked!r} is not a number of threads; it can be 1 to {MOST_THREADS}; "
            "the default is asyncio's: the number of processors plus 4, at most 32"
        )
    return count


def debug_is_asked_for() -> bool:
    """Return whether loops start in debug mode: by `python -X dev` or PYTHONASYNCIODEBUG, as asyncio's do."""
    if sys.flags.dev_mode:
        return True
    return not sys.flags.ignore_environment and bool(read("PYTHONASYNCIODEBUG"))
