"""The Python twin of `epoll_wait.pxd`."""

import select
from typing import Any, Final

from loopcore.backend import ReadyEvent

MAX_EVENTS: Final = 1024
"""Events a wait returns at most. The kernel returns ready rows in rotation, so that the rest of a larger batch comes
first in the next wait and none starves; meanwhile the loop gets to its timers. 1024 need 12 KiB of
buffer, which select.epoll allocates for each call: small enough for malloc to reuse, never a fresh mapping."""

LONGEST: Final = 2**31 // 1000 - 1
"""Seconds that fit epoll_wait's int of milliseconds anywhere: 24 days. A longer wait ends then, with no event."""


def wait_again(backend: Any, timeout: float) -> list[ReadyEvent]:
    """Wait in the epoll instance of `backend`; without limit if `timeout` is negative. A very long one is cut."""
    instance: select.epoll = backend._epoll
    try:
        return instance.poll(timeout, backend._batch)
    except OverflowError:
        return instance.poll(LONGEST, backend._batch)
