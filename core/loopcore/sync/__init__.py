"""Channels and locks between tasks, on any asyncio loop, and between threads where asked to.

    broadcast   every receiver sees every value
    mpsc        a bounded queue: each value is received once
    oneshot     one value, once
    watch       the latest value
    Mutex       a lock that owns what it guards

docs/reference/sync.md describes what holds; docs/adr/0018 says why. What is named here and in these modules is public.
"""

from loopcore.sync import broadcast, mpsc, oneshot, watch
from loopcore.sync.errors import ChannelError, Closed, Empty, Full, Lagged
from loopcore.sync.mutex import Guard, Mutex

__all__ = [
    "ChannelError",
    "Closed",
    "Empty",
    "Full",
    "Guard",
    "Lagged",
    "Mutex",
    "broadcast",
    "mpsc",
    "oneshot",
    "watch",
]
