"""Wakers: the smallest primitive to wait for, for authors of awaitables.

    waker = Waker()
    device.on_ready(waker.wake)           from any thread, any number of times
    await waker.park()                    until it is woken; at once if it was woken since the last park

A waker holds at most one token, as in `std::thread::park`: `wake` puts it there, `park` takes it, and waits if there is
none. So a wake before the park is not lost, and ten wakes count as one. A `park` that is cancelled leaves the token.

Thread: `wake` and `clone` any, also from a signal handler; `park` in the thread of a running loop, any asyncio loop.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from loopcore.sync.waiting import PENDING, Crowd, Subject, Waiter, new_lock, operate

_PENDING = PENDING

__all__ = ["Waker", "park"]


class _Token(Subject):
    """The state that a waker and its clones share."""

    __slots__ = ("crowd", "is_there")

    def __init__(self) -> None:
        super().__init__(new_lock(True))
        self.is_there = False
        self.crowd = Crowd()

    def attempt(self, argument: Any) -> Any:
        if not self.is_there:
            return _PENDING
        self.is_there = False
        return None

    def enlist(self, waiter: Waiter) -> bool:
        self.crowd.enlist(waiter)
        return self.is_there  # a signal handler in this thread may have put it just now: the lock is reentrant

    def complete(self, waiter: Waiter, argument: Any) -> Any:
        self.crowd.withdraw(waiter)
        if waiter.granted:
            return None
        return self.attempt(argument)

    def withdraw(self, waiter: Waiter) -> None:
        self.crowd.withdraw(waiter)
        if waiter.granted:
            waiter.granted = False
            self.put()

    def claim(self, waiter: Waiter, argument: Any) -> bool:
        if self.is_there and not waiter.granted:
            self.is_there = False
            waiter.granted = True
        return waiter.granted

    def put(self) -> None:
        """Put the token there, and wake all waiters."""
        with self.lock:
            self.is_there = True
            self.crowd.call()


class Waker:
    """Wakes the task that parks on it, or on a clone of it. Equal to its clones."""

    __slots__ = ("_token",)

    def __init__(self) -> None:
        self._token = _Token()

    def wake(self) -> None:
        """Resume the parked task, or the next one that parks. Thread: any; also from a signal handler."""
        self._token.put()

    def park(self) -> Coroutine[Any, Any, None]:
        """Wait until it is woken; return at once if it was woken since the last park."""
        return operate(self._token)

    def clone(self) -> "Waker":
        """Return another waker for the same task."""
        other = Waker.__new__(Waker)
        other._token = self._token
        return other

    __copy__ = clone

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Waker) and other._token is self._token

    def __hash__(self) -> int:
        return hash(self._token)

    def __repr__(self) -> str:
        with self._token.lock:
            state = "woken" if self._token.is_there else f"{len(self._token.crowd)} parked"
        return f"<{type(self).__name__} {state}>"


async def park(begin: Callable[[Waker], object]) -> None:
    """Call `begin` with a new waker, and wait until it is woken; `begin` may wake it itself."""
    waker = Waker()
    begin(waker)
    await waker.park()
