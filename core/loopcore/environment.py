"""What a loop reads from the environment when it is made, beside its backend and its plugins."""

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
    """A setting of a loop: its attribute, its default, the least and the most that it can be, and their unit.

    The type of the default is that of all values.
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
"""The variables that set attributes of every loop when it is made."""

_keys_of_loops: Final[set[Any]] = set()

_KEYS: Final[dict[str, Any]] = {}
"""The names of variables as `os.environ` keeps them: encoded on POSIX, in capitals on Windows."""


def read(variable: str) -> str:
    """Return what `variable` is set to; an empty text if it is not.

    What `os.environ.get` says. That encodes the name and raises an exception for each variable that is not there, which
    for the nine that a loop asks for took a tenth of the time in which it is made.
    """
    known = getattr(os.environ, "_data", None)
    if type(known) is dict:  # else somebody has put something of his own in its place
        key = _KEYS.get(variable)
        if key is None:
            key = _KEYS[variable] = os.environ.encodekey(variable)
        if key not in known:
            return ""
    return os.environ.get(variable, "")


_OF_LOOPS: Final = (TASKS_VARIABLE, THREADS_VARIABLE, PLUGIN_VARIABLE, *SETTINGS)


def says_nothing() -> bool:
    """Tell whether no variable of tasks, threads, plugins or settings is set, not even to an empty text.

    One question instead of seven: a loop that is made has nothing to ask then. False if that cannot be seen at once.
    """
    known = getattr(os.environ, "_data", None)
    if type(known) is not dict:
        return False
    if not _keys_of_loops:
        keys = [os.environ.encodekey(variable) for variable in _OF_LOOPS]
        _keys_of_loops.update(keys)  # in one step: another thread may ask meanwhile
    return known.keys().isdisjoint(_keys_of_loops)


def loop_settings() -> dict[str, float]:
    """Return the attributes that the environment sets, with their values.

    Raises UsageError for a text that is no number of the right kind, or out of range.
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
        right = setting.least <= value <= setting.most  # NaN is not, either
    except ValueError:
        right = False
    if right:
        return value
    what = "a whole number" if kind is int else "a number"
    raise UsageError(
        f"{variable}={text!r} is not {what} of {setting.unit} from {setting.least} to {setting.most}; "
        f"without the variable it is {setting.default}"
    )


def task_classes() -> tuple[Any, Any]:
    """Return asyncio's classes of futures and tasks if LOOPCORE_TASKS asks for them; None twice for the default.

    Raises UsageError if it asks for anything else.
    """
    asked = read(TASKS_VARIABLE).strip()
    if not asked:
        return None, None
    if asked == "asyncio":
        return asyncio.Future, asyncio.Task
    raise UsageError(f"{TASKS_VARIABLE}={asked!r} is not known; it can be 'asyncio', or unset")


def thread_limit() -> int | None:
    """Return how many threads LOOPCORE_THREADS gives the default executor, 1 to 1024; None if it does not say.

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
            "without the variable it is asyncio's, four more than there are processors and at most 32"
        )
    return count


def debug_is_asked_for() -> bool:
    """Tell whether loops begin in debug mode: by `python -X dev` or PYTHONASYNCIODEBUG, as asyncio's do."""
    if sys.flags.dev_mode:
        return True
    return not sys.flags.ignore_environment and bool(read("PYTHONASYNCIODEBUG"))
