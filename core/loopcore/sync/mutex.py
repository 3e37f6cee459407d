"""Mutex: a lock that owns the value it guards, so the value cannot be reached without it.

    accounts = Mutex({"ann": 10})
    async with accounts as balance:
        balance.value["ann"] -= await price()

`async with` returns a Guard and not the value: an assignment to a variable that held the value would be lost.

First come, first served. A task that is cancelled while it waits leaves the queue; a task that is cancelled just when
its turn has come passes the turn on. It is not reentrant: a task that locks twice waits for itself.

A value that is never held across an `await` needs no lock in one thread, and only a `threading.Lock` in several.

Thread: with `threadsafe=True` any, each with its own loop; otherwise one thread and one loop.
"""

from types import TracebackType
from typing import Generic, TypeVar

from loopcore.sync.admission import Admission
from loopcore.sync.waiting import Permits, new_lock, operate, release, view

T = TypeVar("T")

__all__ = ["Guard", "Mutex"]


class Guard(Generic[T]):
    """Access to a mutex's value while the lock is held: from the beginning of `async with` to its end."""

    __slots__ = ("_mutex",)

    def __init__(self) -> None:
        self._mutex: Mutex[T] | None = None

    @property
    def value(self) -> T:
        """The value, which may be changed or replaced. Raises RuntimeError outside of `async with`."""
        return self._held()._value

    @value.setter
    def value(self, value: T) -> None:
        self._held()._value = value

    def _held(self) -> "Mutex[T]":
        if self._mutex is None:
            raise RuntimeError("the mutex is not locked by this guard: use the value inside `async with`")
        return self._mutex


class Mutex(Generic[T]):
    """Owns a value, and gives one task at a time access to it: `async with mutex as guard` returns a `Guard`."""

    __slots__ = ("__weakref__", "_guard", "_turn", "_value")

    def __init__(self, value: T, *, threadsafe: bool = False) -> None:
        self._value = value
        self._guard: Guard[T] | None = None
        self._turn = Admission(new_lock(threadsafe, "mutex"), Permits(1))

    def __repr__(self) -> str:
        state = f"locked, {self._turn.permits.waiting()} waiting" if self.locked() else "unlocked"
        return f"<{type(self).__name__} of {type(self._value).__name__}, {state}>"

    def locked(self) -> bool:
        """Return whether the lock is held, or about to be taken by a waiting task."""
        with view(self._turn.lock):
            return self._turn.permits.free == 0

    async def __aenter__(self) -> Guard[T]:
        held: Guard[T] = Guard()  # first: a MemoryError here must not leave the lock taken
        await operate(self._turn)
        held._mutex = self
        self._guard = held
        return held

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is GeneratorExit:
            release(self._turn.lock, self._unlock)
            return
        with self._turn.lock:
            self._unlock()

    def _unlock(self) -> None:
        held, self._guard = self._guard, None
        if held is None:
            raise RuntimeError("the mutex is not locked: use it in `async with`")
        held._mutex = None
        self._turn.permits.give()
