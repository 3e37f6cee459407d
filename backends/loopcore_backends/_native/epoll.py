"""The function of epoll.h in Python."""

from typing import TYPE_CHECKING, Final

from loopcore.ports.readiness import ReadyEvent

if TYPE_CHECKING:
    from loopcore_backends.epoll import EpollBackend

LONGEST: Final = 2**31 // 1000 - 1
"""Seconds that fit epoll_wait's int of milliseconds anywhere: 24 days. A longer wait ends then, with no event."""


def wait(backend: "EpollBackend", timeout: float) -> list[ReadyEvent]:
    """Wait for at most a batch of events, without limit if `timeout` is negative."""
    return backend._epoll.poll(min(timeout, LONGEST), backend._batch)
