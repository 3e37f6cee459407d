"""Channels and locks between tasks, on any asyncio loop, and between threads where asked to.

    broadcast   every receiver sees every value
    mpsc        a bounded queue: each value is received once
    oneshot     one value, once
    watch       the latest value
    Mutex       a lock that owns what it guards
    select      the first of several, and nothing of the others
    JoinSet     tasks, in the order in which they end
    Waker       for who writes awaitables: park and wake
    block_on    from a thread without a loop
    spawn       a task that is kept alive
    spawn_blocking  a function that blocks, in a thread

docs/reference/sync.md describes what holds; docs/adr/0017 says why. What is named here and in these modules is public.
"""

from loopcore.sync import broadcast, mpsc, oneshot, watch
from loopcore.sync.blocking import limit_blocking, spawn_blocking
from loopcore.sync.errors import ChannelError, Closed, Empty, Full, Lagged
from loopcore.sync.executors import block_on, spawn
from loopcore.sync.joining import JoinSet
from loopcore.sync.mutex import Guard, Mutex
from loopcore.sync.selecting import Selected, select
from loopcore.sync.wakers import Waker, park

__all__ = [
    "ChannelError",
    "Closed",
    "Empty",
    "Full",
    "Guard",
    "JoinSet",
    "Lagged",
    "Mutex",
    "Selected",
    "Waker",
    "block_on",
    "broadcast",
    "limit_blocking",
    "mpsc",
    "oneshot",
    "park",
    "select",
    "spawn",
    "spawn_blocking",
    "watch",
]
