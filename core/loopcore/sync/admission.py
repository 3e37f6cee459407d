"""Admission: waiting for one of some permits, as the turn of a mutex and the calls that may block are."""

from typing import Any

from loopcore.sync.waiting import PENDING, Permits, Subject, Waiter


class Admission(Subject):
    """What an operation waits for that needs a permit. It gives the operation's argument; who is done gives it back.

    `lock` is what guards `permits` (None: they are one thread's). Thread: as `loopcore.sync.waiting` says.
    """

    __slots__ = ("permits",)

    def __init__(self, lock: Any, permits: Permits) -> None:
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
