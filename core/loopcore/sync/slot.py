"""One place for one value: the inside of `loopcore.sync.watch` and `loopcore.sync.oneshot`."""

from typing import Any

from loopcore.sync.errors import Closed
from loopcore.sync.waiting import PENDING, Crowd, Subject, Waiter

_PENDING = PENDING


class Slot:
    """The value, its version, and who waits for another."""

    __slots__ = ("lock", "value", "version", "senders", "receivers", "crowd")

    def __init__(self, value: Any, lock: Any) -> None:
        self.lock = lock
        self.value = value
        self.version: int = 0
        """How often the value was replaced."""
        self.senders: int = 1
        self.receivers: int = 1
        self.crowd = Crowd()

    def put(self, value: Any) -> None:
        """Replace the value, and wake who waits for another."""
        self.value = value
        self.version += 1
        self.crowd.wake()

    def close_sender(self) -> None:
        """One handle less."""
        self.senders -= 1
        if self.senders == 0:
            self.crowd.wake()

    def close_receiver(self) -> None:
        """One handle less."""
        self.receivers -= 1
        if self.receivers == 0:
            self.crowd.wake()


class View(Subject):
    """A receiver's knowledge of a slot: it waits for a version that it has not seen."""

    __slots__ = ("slot", "seen", "is_open", "claims")

    def __init__(self, slot: Slot) -> None:
        super().__init__(slot.lock)
        self.slot = slot
        self.seen = slot.version
        self.is_open = True
        self.claims: dict[Waiter, tuple[int, int, Any]] = {}
        """For waiters that have been promised a value: what was seen before, its version, and the value."""

    def attempt(self, argument: Any) -> Any:
        """Return the newest value. `argument` is a condition that it has to meet, or None for any that is new."""
        slot = self.slot
        if not self.is_open:
            raise Closed("this receiver was closed")
        if argument is None:
            if self.seen != slot.version:
                self.seen = slot.version
                return slot.value
        elif argument(slot.value):
            self.seen = slot.version
            return slot.value
        if slot.senders == 0:
            raise Closed("the channel was closed, and its last value has been seen")
        return _PENDING

    def enlist(self, waiter: Waiter) -> bool:
        self.slot.crowd.enlist(waiter)
        return False

    def complete(self, waiter: Waiter, argument: Any) -> Any:
        self.slot.crowd.withdraw(waiter)
        claim = self.claims.pop(waiter, None)
        if claim is None:
            return self.attempt(argument)
        if argument is not None:
            return claim[2]  # what met the condition; the newest may not
        self.seen = self.slot.version
        return self.slot.value

    def withdraw(self, waiter: Waiter) -> None:
        self.slot.crowd.withdraw(waiter)
        claim = self.claims.pop(waiter, None)
        if claim is not None and self.seen == claim[1] != claim[0]:
            self.seen = claim[0]
            self.slot.crowd.wake()  # who shares this view has been told that it was seen

    def claim(self, waiter: Waiter, argument: Any) -> bool:
        slot = self.slot
        if not self.is_open:
            return True
        met = self.seen != slot.version if argument is None else argument(slot.value)
        if met:
            self.claims[waiter] = (self.seen, slot.version, slot.value)
            self.seen = slot.version
        return bool(met) or slot.senders == 0

    def close(self) -> None:
        """Be counted among the receivers no more."""
        self.is_open = False
        self.slot.close_receiver()
        self.slot.crowd.wake()
