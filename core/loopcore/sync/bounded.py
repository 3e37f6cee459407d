"""A bounded queue between senders and receivers: the implementation of `loopcore.sync.mpmc`.

Two counts of permits: free room, and values present. Sending takes room, appends the value, and gives a permit for it;
receiving takes that permit and the value, and gives the room back. Values are received in the order they were appended.
"""

from collections import deque
from typing import TYPE_CHECKING, Any

from loopcore.sync.errors import Closed
from loopcore.sync.waiting import PENDING, Permits, Subject, Waiter

if TYPE_CHECKING:
    from threading import RLock

    from loopcore.sync.binding import LoopBinding

_PENDING = PENDING


class Sending(Subject):
    """The sending end. The queue does not refer to it: a channel that is dropped is freed at once."""

    __slots__ = ("queue",)

    def __init__(self, queue: "Queue") -> None:
        super().__init__(queue.lock)
        self.queue: Queue = queue

    def attempt(self, argument: Any) -> Any:
        self.queue.check_open()
        if not self.queue.room.take():
            return _PENDING
        self.queue.append(argument)
        return None

    def enlist(self, waiter: Waiter) -> bool:
        return self.queue.room.enlist(waiter) or self.queue.senders == 0 or self.queue.receivers == 0

    def complete(self, waiter: Waiter, argument: Any) -> Any:
        if self.queue.senders == 0 or self.queue.receivers == 0 or not waiter.granted:
            self.queue.room.withdraw(waiter)
            self.queue.check_open()
            return _PENDING
        self.queue.append(argument)
        return None

    def withdraw(self, waiter: Waiter) -> None:
        self.queue.room.withdraw(waiter)

    def claim(self, waiter: Waiter, argument: Any) -> bool:
        return waiter.granted or self.queue.senders == 0 or self.queue.receivers == 0


class Queue(Subject):
    """The values, and the receiving end."""

    __slots__ = ("capacity", "values", "room", "present", "senders", "receivers")

    def __init__(self, capacity: int, lock: "RLock | LoopBinding") -> None:
        super().__init__(lock)
        self.capacity: int = capacity
        self.values: deque[Any] = deque()
        self.room: Permits = Permits(capacity)
        self.present: Permits = Permits(0)
        self.senders: int = 1
        """Sending handles that are open."""
        self.receivers: int = 1

    def attempt(self, argument: Any) -> Any:
        if self.present.take():
            return self.pop()
        self.check_more_may_come()
        return _PENDING

    def enlist(self, waiter: Waiter) -> bool:
        return self.present.enlist(waiter) or (not self.values and (self.senders == 0 or self.receivers == 0))

    def complete(self, waiter: Waiter, argument: Any) -> Any:
        if waiter.granted:
            return self.pop()
        self.present.withdraw(waiter)
        self.check_more_may_come()
        return _PENDING

    def withdraw(self, waiter: Waiter) -> None:
        self.present.withdraw(waiter)

    def claim(self, waiter: Waiter, argument: Any) -> bool:
        return waiter.granted or (not self.values and (self.senders == 0 or self.receivers == 0))

    def append(self, value: Any) -> None:
        """Append `value`, for which room was taken."""
        self.values.append(value)
        self.present.give()

    def pop(self) -> Any:
        """Remove and return the first value, which was reserved."""
        value = self.values.popleft()
        self.room.give()
        if not self.values and (self.senders == 0 or self.receivers == 0):
            self.present.wake_all()
        return value

    def check_open(self) -> None:
        """Raise Closed if nothing can be sent any more."""
        if self.senders == 0:
            raise Closed("the channel was closed by its sender")
        if self.receivers == 0:
            raise Closed("the channel was closed by its receiver")

    def check_more_may_come(self) -> None:
        """Raise Closed if no value is left and none will come."""
        if not self.values and (self.senders == 0 or self.receivers == 0):
            raise Closed("the channel is closed, and all that was sent has been received")

    def close_sender(self) -> None:
        """Drop one handle. After the last, waiting senders give up; receivers get the values that are left."""
        self.senders -= 1
        if self.senders == 0:
            self.close()

    def close_receiver(self) -> None:
        """Drop one handle. After the last, no more values are accepted."""
        self.receivers -= 1
        if self.receivers == 0:
            self.close()

    def close(self) -> None:
        """Wake the waiters that would wait forever: senders, and receivers if no value is left."""
        self.room.wake_all()
        if not self.values:
            self.present.wake_all()

    def describe(self) -> str:
        """Return the state, for reprs."""
        is_open = self.senders > 0 and self.receivers > 0
        return f"{len(self.values)} of {self.capacity} values, {'open' if is_open else 'closed'}"
