"""mpmc: a bounded queue with many producers and many consumers. Each value is received once.

    sender, receiver = mpmc.Channel[str](100)
    await sender.send(value)              waits while 100 values are in the channel
    value = await receiver.recv()         or: async for value in receiver

Several tasks may send and several may receive, first come, first served. Both ends are handles: `clone` returns
another handle to the same end, and the channel is closed when all handles of one end are closed. After its senders
are closed, receivers still get the values that it holds; then `recv` raises Closed and `async for` ends. After its
receivers are closed, it accepts no more values, and those that it holds are lost: a closed handle receives nothing. A
`recv` that was called before continues.

A `send` or `recv` that is cancelled has sent or received nothing. `send` returns when the value is queued, not when it
is received.

Thread: with `threadsafe=True` any, each with its own loop; otherwise one thread and one loop.
"""

from collections.abc import Coroutine
from typing import Any, Generic, NamedTuple, Self, TypeVar

from loopcore.sync.bounded import Queue, Sending
from loopcore.sync.errors import Closed, Empty, Full
from loopcore.sync.handles import Handle, capacity_of
from loopcore.sync.waiting import PENDING, attempt, new_lock, operate

T = TypeVar("T")

__all__ = ["Channel", "Receiver", "Sender"]


class Sender(Handle, Generic[T]):
    """The sending end."""

    __slots__ = ("_queue", "_sending")

    def __init__(self, sending: Sending) -> None:
        queue = sending.queue
        super().__init__(queue.lock, queue.close_sender, queue.present.waiting)
        self._queue = queue
        self._sending = sending

    def __repr__(self) -> str:
        return f"<mpmc.Sender {self._queue.describe()}>"

    def send(self, value: T) -> Coroutine[Any, Any, None]:
        """Queue `value`; wait for room if necessary. Senders take turns. Raises Closed, also while it waits."""
        if self._release is None:
            self._refuse()
        return operate(self._sending, value)

    def try_send(self, value: T) -> None:
        """Queue `value` now. Raises Full if the channel has no room, or waiting senders have reserved it; Closed."""
        if self._release is None:
            self._refuse()
        if attempt(self._sending, value) is PENDING:
            raise Full(f"there is no room: the channel holds {self._queue.capacity} values")

    def clone(self) -> "Sender[T]":
        """Return another handle. Raises Closed if this one is closed."""
        with self._queue.lock:
            self._check_open()
            self._queue.senders += 1
            return Sender(self._sending)


class Receiver(Handle, Generic[T]):
    """The receiving end; `len` is the number of queued values."""

    __slots__ = ("_queue",)

    def __init__(self, queue: Queue) -> None:
        super().__init__(queue.lock, queue.close_receiver, queue.room.waiting)
        self._queue = queue

    def __repr__(self) -> str:
        return f"<mpmc.Receiver {self._queue.describe()}>"

    def __len__(self) -> int:
        return len(self._queue.values)

    def __bool__(self) -> bool:
        return True

    def recv(self) -> Coroutine[Any, Any, T]:
        """Return the next value; wait for it if necessary. Receivers take turns.

        Raises Closed when no more will come, and at once if this handle was closed.
        """
        if self._release is None:
            self._refuse()
        return operate(self._queue)

    def try_recv(self) -> T:
        """Return the next value. Raises Empty if there is none, or a waiting receiver has reserved it; Closed."""
        if self._release is None:
            self._refuse()
        value: T = attempt(self._queue, None)
        if value is PENDING:
            raise Empty("there is nothing to receive")
        return value

    def clone(self) -> "Receiver[T]":
        """Return another handle. Raises Closed if this one is closed."""
        with self._queue.lock:
            self._check_open()
            self._queue.receivers += 1
            return Receiver(self._queue)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if self._release is None:
            raise StopAsyncIteration
        try:
            value: T = await operate(self._queue)
        except Closed:
            raise StopAsyncIteration from None
        return value


class _Ends(NamedTuple, Generic[T]):
    sender: Sender[T]
    receiver: Receiver[T]


class Channel(_Ends[T]):
    """A channel that holds up to `capacity` values, 1 or more: a pair of its two ends."""

    __slots__ = ()

    def __new__(cls, capacity: int, *, threadsafe: bool = False) -> Self:
        queue = Queue(capacity_of(capacity), new_lock(threadsafe))
        return super().__new__(cls, Sender(Sending(queue)), Receiver(queue))  # type: ignore[type-var]
