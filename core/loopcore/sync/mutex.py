"""Mutex: a lock that owns the value it guards, so the value cannot be reached without it.

    accounts = Mutex({"ann": 10})
    async with accounts as balance:       the value itself, to be changed in place
        balance["ann"] -= await price()
    async with counter.lock() as guard:   a Guard, for a value that is to be replaced
        guard.value += 1

First come, first served. A task that is cancelled while it waits leaves the queue; a task that is cancelled just when
its turn has come passes the turn on. It is not reentrant: a task that locks twice waits for itself.

A value that is never held across an `await` needs no lock in one thread, and only a `threading.Lock` in several.

Thread: with `threadsafe=True` any, each with its own loop; otherwise one thread and one loop.
"""

from types import TracebackType
from typing import Generic, TypeVar

from loopcore.sync.admission import Admission
from loopcore.sync.waiting import Permits, guard, new_lock, operate

T = TypeVar("T")

__all__ = ["Guard", "Mutex"]


class Guard(Generic[T]):
    """Access to a mutex's value while the lock is held: from the beginning of `async with` to its end."""

    __slots__ = ("_holds", "_mutex")

    def __init__(self, mutex: "Mutex[T]") -> None:
        self._mutex = mutex
        self._holds = False

    @property
    def value(self) -> T:
        """The value. Raises RuntimeError if the lock is not held by this guard."""
        self._check()
        return self._mutex._value

    @value.setter
    def value(self, value: T) -> None:
        self._check()
        self._mutex._value = value

    def _check(self) -> None:
        if not self._holds:
            raise RuntimeError("the mutex is not locked by this guard: use the value inside `async with`")

    async def __aenter__(self) -> "Guard[T]":
        if self._holds:
            raise RuntimeError("this guard holds the lock already; call lock() again for each `async with`")
        await operate(self._mutex._turn)
        self._holds = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._check()
        self._holds = False
        self._mutex._release()


class Mutex(Generic[T]):
    """Owns a value, and gives it to one task at a time."""

    __slots__ = ("__weakref__", "_turn", "_value")

    def __init__(self, value: T, *, threadsafe: bool = False) -> None:
        self._value = value
        self._turn = Admission(new_lock(threadsafe), Permits(1))

    def __repr__(self) -> str:
        state = f"locked, {self._turn.permits.waiting()} waiting" if self.locked() else "unlocked"
        return f"<{type(self).__name__} of {type(self._value).__name__}, {state}>"

    def locked(self) -> bool:
        """Return whether the lock is held, or about to be taken by a waiting task."""
        return self._turn.permits.free == 0

    def lock(self) -> Guard[T]:
        """Return a guard to use in `async with`, whose `value` can be read and replaced."""
        return Guard(self)

    async def __aenter__(self) -> T:
        await operate(self._turn)
        return self._value

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._release()

    def _release(self) -> None:
        with guard(self._turn):
            self._turn.permits.give()
