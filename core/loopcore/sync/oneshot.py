"""oneshot: one value, once.

    sender, receiver = oneshot.Channel[int]()
    sender.send(42)
    value = await receiver                any number of times

For example, the answer to a request that was sent through another channel. A sender that is closed without having sent
makes the receiver raise Closed. A receiver that is closed makes `send` raise Closed, and ends
`await sender.abandoned()`, so the sender can stop working on an answer that is no longer wanted.

Thread: with `threadsafe=True` any, each with its own loop; otherwise one thread and one loop.
"""

from collections.abc import Coroutine, Generator
from typing import Any, Generic, NamedTuple, Self, TypeVar

from loopcore.sync.errors import Closed, Empty
from loopcore.sync.handles import Handle
from loopcore.sync.slot import Slot
from loopcore.sync.waiting import PENDING, Crowd, Subject, Waiter, attempt, new_lock, operate

T = TypeVar("T")

__all__ = ["Channel", "Receiver", "Sender"]


class _Answer(Subject):
    """Waits for the value."""

    __slots__ = ("slot", "crowd")

    def __init__(self, slot: Slot, crowd: Crowd) -> None:
        super().__init__(slot.lock)
        self.slot = slot
        self.crowd = crowd

    def attempt(self, argument: Any) -> Any:
        if self.slot.version:
            return self.slot.value
        if self.slot.senders == 0 or self.slot.receivers == 0:
            raise Closed("the channel was closed before anything was sent")
        return PENDING

    def enlist(self, waiter: Waiter) -> bool:
        self.crowd.enlist(waiter)
        return self.claim(waiter, None)

    def complete(self, waiter: Waiter, argument: Any) -> Any:
        self.crowd.withdraw(waiter)
        return self.attempt(argument)

    def withdraw(self, waiter: Waiter) -> None:
        self.crowd.withdraw(waiter)

    def claim(self, waiter: Waiter, argument: Any) -> bool:
        return self.slot.version > 0 or self.slot.senders == 0 or self.slot.receivers == 0


class _Abandonment(_Answer):
    """Waits until the receiver is closed."""

    __slots__ = ()

    def attempt(self, argument: Any) -> Any:
        if self.slot.receivers == 0:
            return None
        if self.slot.senders == 0:
            raise Closed("this sender was closed: sending closes it")
        return PENDING

    def claim(self, waiter: Waiter, argument: Any) -> bool:
        return self.slot.receivers == 0 or self.slot.senders == 0


class Sender(Handle, Generic[T]):
    """The sending end: sends the value once."""

    __slots__ = ("_slot",)

    def __init__(self, slot: Slot) -> None:
        super().__init__(slot.lock, slot.close_sender, slot.crowd.__len__)
        self._slot = slot

    def send(self, value: T) -> None:
        """Send `value`, and close this end. Raises Closed if the receiver or this end is closed."""
        with self._slot.lock:
            self._check_open()
            if self._slot.receivers == 0:
                raise Closed("the receiver was closed: the value was not sent")
            self._slot.put(value)
            self.close()

    def abandoned(self) -> Coroutine[Any, Any, None]:
        """Wait until the receiver is closed. Raises Closed if this end was closed, which `send` does."""
        self._check_open()
        return operate(_Abandonment(self._slot, self._slot.abandonment))


class Receiver(Handle, Generic[T]):
    """The receiving end: `await` it, or `recv()`, any number of times."""

    __slots__ = ("_answer",)

    def __init__(self, slot: Slot) -> None:
        super().__init__(slot.lock, slot.close_receiver, slot.abandonment.__len__)
        self._answer = _Answer(slot, slot.crowd)

    def __await__(self) -> Generator[Any, Any, T]:
        return operate(self._answer).__await__()

    def recv(self) -> Coroutine[Any, Any, T]:
        """Return the value; wait for it if necessary. Raises Closed if it will never be sent."""
        return operate(self._answer)

    def try_recv(self) -> T:
        """Return the value. Raises Empty if it was not sent yet; Closed."""
        value: T = attempt(self._answer, None)
        if value is PENDING:
            raise Empty("nothing was sent yet")
        return value


class _Ends(NamedTuple, Generic[T]):
    sender: Sender[T]
    receiver: Receiver[T]


class Channel(_Ends[T]):
    """A channel for one value: a pair of its two ends."""

    __slots__ = ()

    def __new__(cls, *, threadsafe: bool = False) -> Self:
        slot = Slot(None, new_lock(threadsafe))
        return super().__new__(cls, Sender(slot), Receiver(slot))  # type: ignore[type-var]
