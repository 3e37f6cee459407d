"""The Python twin of `epoll_wait.pxd`."""

import select
from typing import Final

from loopcore.backend import ReadyEvent

MAX_EVENTS: Final = 1024
"""Events a wait returns at most. The kernel hands out ready rows in turn, so that the rest of a larger crowd comes
first in the next wait and nobody starves; meanwhile the loop gets to its timers. 1024 need 12 KiB of
buffer, which select.epoll allocates for each call: small enough for malloc to reuse, never a fresh mapping."""

LONGEST: Final = 2**31 // 1000 - 1
"""Seconds that surely fit epoll_wait's int of milliseconds: 24 days. A longer wait ends then, with no event."""


def wait_for_long(instance: "select.epoll", timeout: float, batch: int) -> list[ReadyEvent]:
    """Wait in `instance` for at most `batch` events and `timeout` seconds, which may be more than it takes."""
    try:
        return instance.poll(timeout, batch)
    except OverflowError:
        return instance.poll(LONGEST, batch)
