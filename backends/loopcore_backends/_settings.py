"""Settings that a backend reads from the environment when it is created."""

import os
from typing import Final

from loopcore.errors import UsageError

BATCH_VARIABLE: Final = "LOOPCORE_EVENT_BATCH"


def event_batch(asked: int | None, most: int) -> int:
    """Return the most events that a wait may return: `asked`, else LOOPCORE_EVENT_BATCH, else `most`.

    Raises UsageError unless it is a whole number from 1 to `most`.
    """
    text = os.environ.get(BATCH_VARIABLE, "").strip() if asked is None else str(asked)
    if not text:
        return most
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        where = f"{BATCH_VARIABLE}={text!r}" if asked is None else f"batch={asked!r}"
        raise UsageError(f"{where} is not a whole number of events from 1 to {most}; without it, it is {most}")
    return int(text)
