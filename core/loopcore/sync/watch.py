"""watch: the latest value only. Receivers learn that it changed, and may miss values in between.

    sender, receiver = watch.Channel(Settings())
    sender.send(new)                      or: sender.modify(function)
    value = await receiver.changed()      the newest value, as soon as there is one that this receiver has not seen
    value = receiver.get()                the newest value, at once; counts as seen

For settings, states and positions, where a late receiver needs the current value and not the history.
Sending never waits, and keeps one value, however many receivers there are. `async for` yields the newest value after
each change; it ends when the last sender is closed and the last value was seen.

Thread: with `threadsafe=True` any, each with its own loop; otherwise one thread and one loop.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Generic, NamedTuple, Self, TypeVar

from loopcore.sync.errors import Closed
from loopcore.sync.handles import Handle
from loopcore.sync.slot import Slot, View
from loopcore.sync.waiting import new_lock, operate, view

T = TypeVar("T")

__all__ = ["Channel", "Receiver", "Sender"]


class Sender(Handle, Generic[T]):
    """The sending end: replaces the value."""

    __slots__ = ("_slot",)

    def __init__(self, slot: Slot) -> None:
        super().__init__(slot.lock, slot.close_sender, slot.crowd.__len__)
        self._slot = slot

    def __repr__(self) -> str:
        return f"<watch.Sender {self.get()!r}, {self.receivers} receivers>"

    @property
    def receivers(self) -> int:
        """How many receivers there are."""
        with view(self._slot.lock):
            return self._slot.receivers

    def get(self) -> T:
        """Return the value."""
        with view(self._slot.lock):
            value: T = self._slot.value
            return value

    def send(self, value: T) -> None:
        """Replace the value, and notify all receivers, even if it is equal. Raises Closed if this handle is closed."""
        with self._slot.lock:
            self._check_open()
            self._slot.put(value)

    def modify(self, change: Callable[[T], T]) -> T:
        """Replace the value with `change(value)`, and return the new one. No other thread sends meanwhile.

        Raises Closed if this handle is closed.
        """
        with self._slot.lock:
            self._check_open()
            value = change(self._slot.value)
            self._slot.put(value)
            return value

    def subscribe(self) -> "Receiver[T]":
        """Return a receiver that has seen the current value. Raises Closed if this handle is closed."""
        with self._slot.lock:
            self._check_open()
            self._slot.receivers += 1
            return Receiver(self._slot)

    def clone(self) -> "Sender[T]":
        """Return another handle. Raises Closed if this one is closed."""
        with self._slot.lock:
            self._check_open()
            self._slot.senders += 1
            return Sender(self._slot)


class Receiver(Handle, Generic[T]):
    """The receiving end: sees the newest value."""

    __slots__ = ("_view",)

    def __init__(self, slot: Slot) -> None:
        self._view = View(slot)
        super().__init__(slot.lock, self._view.close, _nobody)

    def __repr__(self) -> str:
        with view(self._view.lock):
            value = self._view.slot.value
        return f"<watch.Receiver {value!r}, {'new' if self.has_changed() else 'seen'}>"

    def has_changed(self) -> bool:
        """Return whether there is a value that this receiver has not seen."""
        with view(self._view.lock):
            return self._view.seen != self._view.slot.version

    def get(self) -> T:
        """Return the newest value, and mark it as seen."""
        with self._view.lock:
            self._view.seen = self._view.slot.version
            value: T = self._view.slot.value
            return value

    def changed(self) -> Coroutine[Any, Any, T]:
        """Return the newest value; wait until there is one that was not seen. Raises Closed if none will come."""
        return operate(self._view)

    def wait_for(self, condition: Callable[[T], bool]) -> Coroutine[Any, Any, T]:
        """Return the newest value as soon as `condition(value)` is true, which is checked now and after each change.

        Values in between may be skipped. Raises Closed, and any exception from `condition`.
        """
        return operate(self._view, condition)

    def clone(self) -> "Receiver[T]":
        """Return another receiver, which has seen the current value. Raises Closed if this one is closed."""
        with self._view.lock:
            self._check_open()
            self._view.slot.receivers += 1
            return Receiver(self._view.slot)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            value: T = await operate(self._view)
        except Closed:
            raise StopAsyncIteration from None
        return value


def _nobody() -> int:
    return 0


class _Ends(NamedTuple, Generic[T]):
    sender: Sender[T]
    receiver: Receiver[T]


class Channel(_Ends[T]):
    """A watched value, initially `value`: a pair of its sender and a first receiver, which has seen that value."""

    __slots__ = ()

    def __new__(cls, value: T, *, threadsafe: bool = False) -> Self:
        slot = Slot(value, new_lock(threadsafe))
        return super().__new__(cls, Sender(slot), Receiver(slot))  # type: ignore[type-var]
