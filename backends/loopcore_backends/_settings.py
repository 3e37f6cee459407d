"""Settings that a backend reads from the environment when it is created."""

import os
from typing import Any, Final

from loopcore.errors import UsageError

BATCH_VARIABLE: Final = "LOOPCORE_EVENT_BATCH"

_key: Final[list[Any]] = []
"""The variable's name as `os.environ` stores it: encoded on POSIX, in upper case on Windows."""


def event_batch(asked: int | None, most: int) -> int:
    """Return the most events that a wait may return: `asked`, else LOOPCORE_EVENT_BATCH, else `most`.

    Raises UsageError unless it is a whole number from 1 to `most`.
    """
    if asked is None:
        # os.environ.get() raises and catches KeyError for an unset variable, the usual case, and every new loop asks.
        known = getattr(os.environ, "_data", None)
        if type(known) is dict:  # else a program has replaced os.environ's dictionary
            if not _key:
                _key.append(os.environ.encodekey(BATCH_VARIABLE))
            if _key[0] not in known:
                return most
        text = os.environ.get(BATCH_VARIABLE, "").strip()
    else:
        text = str(asked)
    if not text:
        return most
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        where = f"{BATCH_VARIABLE}={text!r}" if asked is None else f"batch={asked!r}"
        raise UsageError(f"{where} is not a whole number of events from 1 to {most}; without it, it is {most}")
    return int(text)
