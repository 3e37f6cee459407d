"""Channels and locks between tasks, on any asyncio loop, and between threads with `threadsafe=True`.

    broadcast   every receiver sees every value
    mpmc        a bounded queue: each value is received once
    oneshot     one value, once
    watch       the latest value
    Mutex       a lock that owns what it guards
    select      the first of several operations; the others have no effect
    JoinSet     tasks, in the order in which they end
    Waker       park and wake, for authors of awaitables
    block_on    wait for an awaitable in a thread without a loop
    spawn       a task that is kept alive
    spawn_blocking  a blocking function, in a thread

docs/reference/sync.md describes the guarantees, docs/adr/0017 the reasons. The names exported here and in these modules
are public.

Imports the public classes of the loop and what is below them.
"""

from loopcore.sync import broadcast, mpmc, oneshot, watch
from loopcore.sync.blocking import limit_blocking, spawn_blocking
from loopcore.sync.errors import ChannelError, Closed, Empty, Full, Lagged
from loopcore.sync.executors import block_on, spawn
from loopcore.sync.joining import JoinSet
from loopcore.sync.mutex import Guard, Mutex
from loopcore.sync.selecting import Selected, select
from loopcore.sync.wakers import Waker, park
from loopcore.tracebacks import show_sources

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
    "mpmc",
    "oneshot",
    "park",
    "select",
    "spawn",
    "spawn_blocking",
    "watch",
]

show_sources(__name__, __path__)
