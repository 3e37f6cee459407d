"""The function of epoll.h in Python."""

import select
from typing import Final

from loopcore.ports.readiness import ReadyEvent

LONGEST: Final = 2**31 // 1000 - 1
"""Seconds that fit epoll_wait's int of milliseconds anywhere: 24 days. A longer wait ends then, with no event."""


def wait(epoll: "select.epoll", fd: int, timeout: float, batch: int) -> list[ReadyEvent]:
    """Wait for at most `batch` events, without limit if `timeout` is negative. C needs only `fd`, epoll's number."""
    return epoll.poll(min(timeout, LONGEST), batch)
