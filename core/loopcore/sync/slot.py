"""A slot for one value: the implementation of `loopcore.sync.watch` and `loopcore.sync.oneshot`."""

from typing import TYPE_CHECKING, Any

from loopcore.sync.errors import Closed
from loopcore.sync.waiting import PENDING, Crowd, Subject, Waiter

if TYPE_CHECKING:
    from threading import RLock

    from loopcore.sync.binding import LoopBinding

_PENDING = PENDING


class Slot:
    """The value, its version, and the waiters for the next one."""

    __slots__ = ("lock", "value", "version", "senders", "receivers", "crowd", "abandonment")

    def __init__(self, value: Any, lock: "RLock | LoopBinding") -> None:
        self.lock = lock
        self.value = value
        self.version: int = 0
        """How many times the value was replaced."""
        self.senders: int = 1
        self.receivers: int = 1
        self.crowd = Crowd()
        self.abandonment = Crowd()
        """The waiters for the end of the receivers."""

    def put(self, value: Any) -> None:
        """Replace the value, and wake the waiters for it."""
        self.value = value
        self.version += 1
        self.crowd.wake()

    def close_sender(self) -> None:
        """Drop one handle."""
        self.senders -= 1
        if self.senders == 0:
            self.crowd.wake()
            self.abandonment.wake()

    def close_receiver(self) -> None:
        """Drop one handle."""
        self.receivers -= 1
        if self.receivers == 0:
            self.crowd.wake()
            self.abandonment.wake()


class View(Subject):
    """A receiver's view of a slot: it waits for a version that it has not seen."""

    __slots__ = ("slot", "seen", "tried", "is_open", "claims")

    def __init__(self, slot: Slot) -> None:
        super().__init__(slot.lock)
        self.slot = slot
        self.seen = slot.version
        self.tried = slot.version
        """The version that the last attempt looked at; an older one if a version was given back since."""
        self.is_open = True
        self.claims: dict[Waiter, tuple[int, int, Any]] = {}
        """For waiters with a reserved value: the version seen before, the value's version, and the value."""

    def attempt(self, argument: Any) -> Any:
        """Return the newest value. `argument` is a condition that it has to meet, or None for any new value."""
        slot = self.slot
        if not self.is_open:
            raise Closed("this receiver was closed")
        self.tried = slot.version
        if argument is None:
            if self.seen != slot.version:
                self.seen = slot.version
                return slot.value
        elif argument(slot.value):
            self.seen = slot.version
            return slot.value
        if self.is_over(argument):
            raise Closed("the channel was closed, and its last value has been seen")
        return _PENDING

    def enlist(self, waiter: Waiter) -> bool:
        slot = self.slot
        slot.crowd.enlist(waiter)
        return not self.is_open or self.tried != slot.version or self.is_over(None)

    def complete(self, waiter: Waiter, argument: Any) -> Any:
        self.slot.crowd.withdraw(waiter)
        claim = self.claims.pop(waiter, None)
        if claim is None:
            return self.attempt(argument)
        if self.slot.senders == 0:
            self.slot.crowd.wake()  # other users of this view waited for what `withdraw` would have given back
        if argument is not None:
            return claim[2]  # the value that met the condition; the newest may not
        self.seen = self.slot.version
        return self.slot.value

    def withdraw(self, waiter: Waiter) -> None:
        """Give the claimed version back, if it was new and is still the last one seen.

        If another user of this view has taken a newer one since, that one would be returned twice.
        """
        self.slot.crowd.withdraw(waiter)
        claim = self.claims.pop(waiter, None)
        if claim is not None and self.seen == claim[1] != claim[0]:
            self.seen = self.tried = claim[0]
            self.slot.crowd.wake()  # other users of this view took the version as seen

    def claim(self, waiter: Waiter, argument: Any) -> bool:
        slot = self.slot
        if not self.is_open:
            return True
        met = self.seen != slot.version if argument is None else argument(slot.value)
        if met:
            self.claims[waiter] = (self.seen, slot.version, slot.value)
            self.seen = slot.version
        return bool(met) or self.is_over(argument)

    def is_over(self, argument: Any) -> bool:
        """Return whether nothing new will come: the senders are closed, and no claim can be given up."""
        if self.slot.senders:
            return False
        if argument is None:  # a condition does not depend on what was seen
            for before, version, _ in self.claims.values():
                if before != version == self.seen:
                    return False
        return True

    def close(self) -> None:
        """Stop being a receiver."""
        self.is_open = False
        self.slot.close_receiver()
        self.slot.crowd.wake()
