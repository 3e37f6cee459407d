"""broadcast: every receiver sees every value that was sent after it subscribed.

    sender, receiver = broadcast.Channel[str](100)
    another = sender.subscribe()
    sender.try_send(value)                returns the number of receivers
    value = await receiver.recv()         or: async for value in receiver

The channel keeps at most `capacity` values, each once, however many receivers there are. When it is full, because the
slowest receiver has not seen the oldest, `overflow` says what happens:

- "lag": the oldest value is overwritten. A receiver that has not seen it gets `Lagged(n)` from its next `recv`, with
  the exact number of values that it missed, and then the oldest value that is kept. Senders never wait.
- "wait": `send` waits until the slowest receiver has made room; `try_send` raises Full. No receiver misses a value.
- "drop_new": the new value is dropped for all receivers, `send` returns 0 and `sender.dropped` counts it.

Without receivers a value is not kept, and 0 is returned. After its last sender is closed, receivers still get the
values that the channel holds; then `recv` raises Closed and `async for` ends. A receiver that is closed gives up the
values that it has not seen.

Thread: with `threadsafe=True` any, each with its own loop; otherwise one thread and one loop.
"""

from collections.abc import AsyncIterator, Coroutine
from typing import Any, Final, Generic, Literal, NamedTuple, Self, TypeAlias, TypeVar

from loopcore.sync.errors import Closed, Empty, Full, Lagged
from loopcore.sync.handles import Handle, capacity_of
from loopcore.sync.ring import DROP_NEW, LAG, WAIT, Cursor, Ring
from loopcore.sync.waiting import PENDING, attempt, new_lock, operate, view

T = TypeVar("T")

Overflow: TypeAlias = Literal["lag", "wait", "drop_new"]

__all__ = ["Channel", "Overflow", "Receiver", "Sender"]

_POLICIES: Final = {"lag": LAG, "wait": WAIT, "drop_new": DROP_NEW}


class Sender(Handle, Generic[T]):
    """Sends to all receivers."""

    __slots__ = ("_ring",)

    def __init__(self, ring: Ring) -> None:
        super().__init__(ring.lock, ring.close_sender, ring.crowd.__len__)
        self._ring = ring

    def __repr__(self) -> str:
        return f"<broadcast.Sender {self._ring.describe()}>"

    @property
    def receivers(self) -> int:
        """How many receivers there are."""
        with view(self._ring.lock):
            return self._ring.readers

    @property
    def dropped(self) -> int:
        """How many values were dropped under "drop_new"."""
        with view(self._ring.lock):
            return self._ring.dropped

    def send(self, value: T) -> Coroutine[Any, Any, int]:
        """Send `value`; return the number of receivers it is kept for. Waits only under "wait". Raises Closed."""
        if self._release is None:
            self._refuse()
        return operate(self._ring, value)

    def try_send(self, value: T) -> int:
        """Send `value` now; return the number of receivers it is kept for. Raises Closed; under "wait" also Full."""
        if self._release is None:
            self._refuse()
        receivers: int = attempt(self._ring, value)
        if receivers is PENDING:
            raise Full(f"there is no room: the slowest receiver has yet to see {self._ring.capacity} values")
        return receivers

    def subscribe(self) -> "Receiver[T]":
        """Return a receiver of the values sent from now on. Raises Closed if the channel or this handle is closed."""
        with self._ring.lock:
            self._check_open()
            self._ring.check_open()
            return Receiver(self._ring)

    def clone(self) -> "Sender[T]":
        """Return another handle. Raises Closed if this one is closed."""
        with self._ring.lock:
            self._check_open()
            self._ring.senders += 1
            return Sender(self._ring)


class Receiver(Handle, Generic[T]):
    """Receives the values sent since it was created; `len` is the number of unseen values that are still kept.

    Tasks that share a receiver share its values: each value goes to one of them, the first to take it. They
    do not take turns, unlike receivers of `mpmc`.
    """

    __slots__ = ("_cursor",)

    def __init__(self, ring: Ring) -> None:
        self._cursor = Cursor(ring)
        super().__init__(ring.lock, self._cursor.close, ring.waiting)

    def __repr__(self) -> str:
        return f"<broadcast.Receiver {len(self)} unseen, {self._cursor.ring.describe()}>"

    def __len__(self) -> int:
        with view(self._cursor.lock):
            return self._cursor.unread()

    def __bool__(self) -> bool:
        return True

    @property
    def missed(self) -> int:
        """How many missed values were reported to this receiver in total."""
        with view(self._cursor.lock):
            return self._cursor.missed

    def recv(self) -> Coroutine[Any, Any, T]:
        """Return the next value; wait for it if necessary. Raises Lagged; Closed when no more will come."""
        return operate(self._cursor)

    def try_recv(self) -> T:
        """Return the next value. Raises Empty if there is none, or if a `select` has reserved it; Lagged; Closed."""
        value: T = attempt(self._cursor, None)
        if value is PENDING:
            raise Empty("there is nothing to receive")
        return value

    def clone(self) -> "Receiver[T]":
        """Return a receiver of the values sent from now on, as `Sender.subscribe`. Raises Closed if this is closed."""
        with self._cursor.lock:
            self._check_open()
            return Receiver(self._cursor.ring)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """Return the next value. Lagged ends the `async for`; a new one continues after the gap."""
        try:
            value: T = await operate(self._cursor)
        except Closed:
            raise StopAsyncIteration from None
        return value

    async def with_gaps(self) -> AsyncIterator["T | Lagged"]:
        """Yield the values, and a `Lagged` where values are missing, until the channel is closed."""
        while True:
            try:
                item: T | Lagged = await operate(self._cursor)
            except Lagged as gap:
                item = gap.with_traceback(None)
            except Closed:
                return
            yield item


class _Ends(NamedTuple, Generic[T]):
    sender: Sender[T]
    receiver: Receiver[T]


class Channel(_Ends[T]):
    """A channel that keeps up to `capacity` values, 1 or more: a pair of its sender and a first receiver."""

    __slots__ = ()

    def __new__(cls, capacity: int, *, overflow: Overflow = "lag", threadsafe: bool = False) -> Self:
        if overflow not in _POLICIES:
            raise ValueError(f"overflow is one of {', '.join(_POLICIES)}, not {overflow!r}")
        ring = Ring(capacity_of(capacity), _POLICIES[overflow], new_lock(threadsafe))
        return super().__new__(cls, Sender(ring), Receiver(ring))  # type: ignore[type-var]
