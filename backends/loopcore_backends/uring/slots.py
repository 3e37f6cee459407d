"""Slots: the operations in flight, and how a completion finds its operation.

A request carries 64 bits that come back with its completions: the index of a slot and its generation. The generation
advances when the slot is freed, so that a late completion, of an operation that has already ended, finds none.
Generation 0 is never in use: requests that carry 0 are the backend's own, and belong to no slot.

A slot keeps whatever the kernel may still read or write: a buffer lives as long as its operation is in flight, even
if the caller has dropped it.
"""

from typing import Any

PLAIN = 0
INLINE = 1
"""A send that ends while it is submitted; no completion means success."""
CONNECTING = 2
"""A poll for the end of a connect(2) that was begun."""
BLOCKED = 3
"""A send or write that was refused, and waits for room."""
STARVED = 4
"""A receive that found no buffer, though there is data."""

_PLAIN = PLAIN  # typed as C in the .pxd


class Slot:
    """One operation in flight."""

    __slots__ = (
        "operation",
        "code",
        "fd",
        "keep",
        "size",
        "position",
        "requests",
        "step",
        "asked",
        "cancelled",
        "index",
        "generation",
        "next_free",
    )

    def __init__(self, index: int) -> None:
        self.operation: Any = None
        self.code: int = 0
        self.fd: int = -1
        self.keep: Any = None
        """The buffers in use."""
        self.size: int = 0
        """Bytes offered, or the room there is."""
        self.position: int = 0
        """The position of its first request in the queue."""
        self.requests: int = 0
        """How many requests it has in the queue or with the kernel; those of a chain are consecutive."""
        self.step: int = _PLAIN
        self.asked: bool = False
        """It has a request in the queue or with the kernel."""
        self.cancelled: bool = False
        self.index: int = index
        self.generation: int = 1
        self.next_free: Slot | None = None

    def user_data(self) -> int:
        """Return the number that its requests carry."""
        high = self.generation
        return self.index | high << 32


POSTED = Slot(0)
"""The slot of an operation that was submitted in the middle of another call: it is not begun yet."""


class Slots:
    """All slots of a backend. Thread: the loop's own."""

    __slots__ = ("_all", "_free", "in_flight")

    def __init__(self) -> None:
        self._all: list[Slot] = []
        self._free: Slot | None = None
        """The first free slot; each names the next, so that freeing one allocates nothing."""
        self.in_flight: int = 0

    def take(self, operation: Any) -> Slot:
        """Return a slot for `operation`."""
        free = self._free
        if free is not None:
            slot = free
            self._free = slot.next_free
            slot.next_free = None
        else:
            slot = Slot(len(self._all))
            self._all.append(slot)
        slot.operation = operation
        slot.step = _PLAIN
        slot.asked = False
        slot.cancelled = False
        self.in_flight += 1
        return slot

    def give(self, slot: Slot) -> None:
        """Free a slot whose operation has ended."""
        slot.generation = slot.generation + 1 if slot.generation < 0x7FFFFFFF else 1
        slot.asked = False
        slot.next_free = self._free
        self._free = slot
        self.in_flight -= 1
        slot.operation = None
        slot.keep = None

    def find(self, index: int, generation: int) -> Slot | None:
        """Return the slot with this index and generation, None if its operation has ended."""
        if index >= len(self._all):
            return None
        slot = self._all[index]
        return slot if slot.generation == generation else None

    def living(self) -> list[Slot]:
        """Return the slots in use."""
        return [slot for slot in self._all if slot.operation is not None]
