"""Admission: waiting for one of a number of permits, such as the turn at a mutex or a slot for a blocking call."""

from typing import TYPE_CHECKING, Any

from loopcore.sync.waiting import PENDING, Permits, Subject, Waiter

if TYPE_CHECKING:
    from threading import RLock

    from loopcore.sync.binding import LoopBinding


class Admission(Subject):
    """The subject of operations that need a permit. The result is the operation's argument.

    The holder returns its permit with `permits.give`. `lock` guards `permits`.
    Thread: as described in `loopcore.sync.waiting`.
    """

    __slots__ = ("permits",)

    def __init__(self, lock: "RLock | LoopBinding", permits: Permits) -> None:
        super().__init__(lock)
        self.permits = permits

    def attempt(self, argument: Any) -> Any:
        return argument if self.permits.take() else PENDING

    def enlist(self, waiter: Waiter) -> bool:
        return self.permits.enlist(waiter)

    def complete(self, waiter: Waiter, argument: Any) -> Any:
        if waiter.granted:
            return argument
        self.permits.withdraw(waiter)
        return PENDING

    def withdraw(self, waiter: Waiter) -> None:
        self.permits.withdraw(waiter)

    def claim(self, waiter: Waiter, argument: Any) -> bool:
        return waiter.granted
