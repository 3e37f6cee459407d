"""A ring of values with several readers: the implementation of `loopcore.sync.broadcast`.

Values are numbered. The ring keeps those from `head` up to, not including, `tail`, each once, with the number of
readers that have yet to read it; at zero the value is dropped. A Cursor is a reader's position. Readers read in order,
so values are dropped in order, too.

A full ring overwrites its oldest value (`lag`), makes senders wait (`wait`) or refuses the new value
(`drop_new`). A cursor that finds itself before `head` was overtaken, and the difference is the number of missed
values: nothing has to be counted while the reader sleeps.
"""

from typing import TYPE_CHECKING, Any

from loopcore.sync.errors import Closed, Lagged
from loopcore.sync.waiting import PENDING, Crowd, Permits, Subject, Waiter

if TYPE_CHECKING:
    from threading import RLock

    from loopcore.sync.binding import LoopBinding

_PENDING = PENDING

LAG = 0
WAIT = 1
DROP_NEW = 2

_LAG = LAG
_WAIT = WAIT


class Ring(Subject):
    """The values, and the sending end."""

    __slots__ = (
        "capacity",
        "policy",
        "head",
        "tail",
        "dropped",
        "senders",
        "readers",
        "crowd",
        "_room",
        "_values",
        "_due",
    )

    def __init__(self, capacity: int, policy: int, lock: "RLock | LoopBinding") -> None:
        super().__init__(lock)
        self.capacity: int = capacity
        self.policy: int = policy
        self.head: int = 0
        self.tail: int = 0
        self.dropped: int = 0
        """Values refused because the ring was full."""
        self.senders: int = 1
        """Sending handles that are open."""
        self.readers: int = 0
        """Cursors that are open."""
        self.crowd: Crowd = Crowd()
        """Waiters for the next value."""
        self._room: Permits = Permits(capacity)
        # These lists grow up to `capacity`; the value numbered n is at n modulo `capacity`.
        self._values: list[Any] = []
        self._due: list[int] = []

    def attempt(self, argument: Any) -> Any:
        self.check_open()
        if self.readers == 0:
            return 0
        if self.policy == _WAIT:
            if not self._room.take():
                return _PENDING
        elif self.tail - self.head == self.capacity:
            if self.policy != _LAG:
                self.dropped += 1
                return 0
            self.head += 1
        return self.put(argument)

    def enlist(self, waiter: Waiter) -> bool:
        return self.policy != _WAIT or self._room.enlist(waiter) or self.senders == 0

    def complete(self, waiter: Waiter, argument: Any) -> Any:
        if self.policy != _WAIT:
            return self.attempt(argument)
        if self.senders == 0 or not waiter.granted:
            self._room.withdraw(waiter)
            self.check_open()
            return _PENDING
        if self.readers == 0:
            self._room.withdraw(waiter)
            return 0
        return self.put(argument)

    def withdraw(self, waiter: Waiter) -> None:
        self._room.withdraw(waiter)

    def claim(self, waiter: Waiter, argument: Any) -> bool:
        return self.senders == 0 or self.policy != _WAIT or waiter.granted

    def waiting(self) -> int:
        """Return how many senders wait for room."""
        return self._room.waiting()

    def put(self, value: Any) -> int:
        """Store `value`, for which there is room and at least one reader; return the number of readers."""
        place = self.tail % self.capacity
        # A value is destroyed only when the state is consistent again: its finalizer may send here, too.
        _overwritten = None
        if place == len(self._values):
            self._values.append(value)
            self._due.append(self.readers)
        else:
            _overwritten = self._values[place]
            self._values[place] = value
            self._due[place] = self.readers
        self.tail += 1
        self.crowd.wake()
        return self.readers

    def read(self, number: int) -> Any:
        """Return the value `number` to one reader, and drop it after the last."""
        place = number % self.capacity
        value = self._values[place]
        due = self._due[place] - 1
        self._due[place] = due
        if due == 0:
            self.forget()
        return value

    def forget(self) -> None:
        """Drop values, oldest first, up to the first one that a reader has yet to read."""
        while self.head < self.tail:
            place = self.head % self.capacity
            if self._due[place]:
                return
            forgotten = self._values[place]
            self._values[place] = None
            self.head += 1
            if self.policy == _WAIT:
                self._room.give()
            forgotten = None  # noqa: F841 - here, for the same reason as in `put`

    def pass_by(self, first: int) -> None:
        """Remove a reader that has not read the values from `first` on."""
        self.readers -= 1
        for number in range(max(first, self.head), self.tail):
            self._due[number % self.capacity] -= 1
        self.forget()

    def check_open(self) -> None:
        """Raise Closed if nothing can be sent any more."""
        if self.senders == 0:
            raise Closed("the channel was closed by its sender")

    def close_sender(self) -> None:
        """Drop one handle. After the last, receivers get the values that are left."""
        self.senders -= 1
        if self.senders == 0:
            self._room.wake_all()
            self.crowd.wake()

    def describe(self) -> str:
        """Return the state, for reprs."""
        state = "open" if self.senders else "closed"
        return f"{self.tail - self.head} of {self.capacity} values, {self.readers} receivers, {state}"


class Cursor(Subject):
    """A reader's position in a ring."""

    __slots__ = ("ring", "next", "missed", "is_open", "_claimer", "_are_others_waiting")

    def __init__(self, ring: Ring) -> None:
        super().__init__(ring.lock)
        self.ring: Ring = ring
        self.next: int = ring.tail
        self.missed: int = 0
        """How many missed values were reported to it in total."""
        self.is_open: bool = True
        self._claimer: Waiter | None = None
        """The waiter for which the next value is reserved."""
        self._are_others_waiting: bool = False
        """Whether another task had to wait because of that."""
        ring.readers += 1

    def attempt(self, argument: Any) -> Any:
        ring = self.ring
        if not self.is_open:
            raise Closed("this receiver was closed")
        if self._claimer is not None:
            self._are_others_waiting = True
            return _PENDING
        if self.next < ring.head:
            missed = ring.head - self.next
            self.next = ring.head
            self.missed += missed
            raise Lagged(missed)
        if self.next < ring.tail:
            self.next += 1
            return ring.read(self.next - 1)
        if ring.senders == 0:
            raise Closed("the channel is closed, and all that was sent has been received")
        return _PENDING

    def enlist(self, waiter: Waiter) -> bool:
        ring = self.ring
        ring.crowd.enlist(waiter)
        return not self.is_open or (self._claimer is None and (self.next < ring.tail or ring.senders == 0))

    def complete(self, waiter: Waiter, argument: Any) -> Any:
        self.withdraw(waiter)
        return self.attempt(argument)

    def withdraw(self, waiter: Waiter) -> None:
        self.ring.crowd.withdraw(waiter)
        if self._claimer is waiter:
            self._claimer = None
            if self._are_others_waiting:
                self._are_others_waiting = False
                self.ring.crowd.wake()

    def claim(self, waiter: Waiter, argument: Any) -> bool:
        if not self.is_open:
            return True
        if self._claimer is not None:
            self._are_others_waiting = True
            return False
        if self.next < self.ring.tail:
            self._claimer = waiter
            return True
        return self.ring.senders == 0

    def unread(self) -> int:
        """Return how many values it has yet to read, not counting those that were overwritten."""
        return self.ring.tail - max(self.next, self.ring.head) if self.is_open else 0

    def close(self) -> None:
        """Stop being a reader."""
        self.is_open = False
        first, self.next = self.next, self.ring.tail
        self.ring.pass_by(first)
        self.ring.crowd.wake()
