"""Buffers: memory that the kernel takes pieces of when data arrives, so that idle connections need none.

A table in shared memory, again a ring, names the available buffers; the kernel takes them from its head, in
order, and names the one it took in the completion. We copy out, or lend, and put the buffer back at the tail. One
receive may fill several buffers in a row (a bundle): the completion names the first.

Where the kernel can (Linux 6.12), buffers are large and few, and one receive after another fills them (incrementally):
so small messages are close together, and the memory in use stays in the processor's cache. A buffer goes back when the
kernel reports that it is full. Otherwise each receive takes one buffer for itself, or several.

Then buffers are put back in the order in which they were taken, so that nearly always those of a bundle are adjacent,
and are copied, or lent, as one.

The memory for all buffers is mapped at once, but untouched pages cost nothing; `provided` grows with the
number of connections and when the kernel reports ENOBUFS. Sources: io_uring_register(2), io_uring_setup_buf_ring(3).
Thread: the loop's own.
"""

import mmap
import os
from typing import Any

from loopcore_backends.uring import layout

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore_backends._native.uring import (
        address_of,
        ring_register,
        store_release16,
        take,
        words16,
        words32,
        words64,
    )
else:
    from loopcore_backends._native.uring import (
        address_of,
        ring_register,
        store_release16,
        take,
        words16,
        words32,
        words64,
    )

STREAM_SIZE = 16 * 1024
STREAM_FIRST = 64
STREAM_LIMIT = 256
"""Buffers for streams, of one message each or less: 1 MiB at first, 4 MiB at most."""

SHARED_SIZE = 256 * 1024
SHARED_FIRST = 2
SHARED_LIMIT = 16
SHARED_BY = 64
"""Buffers for streams that are filled incrementally: 512 KiB at first, 4 MiB at most; so many receives share one."""

PORTION = 128 * 1024
"""The size of a large message, for which a receive that found no buffer may be waiting."""

DATAGRAM_SIZE = 66 * 1024
DATAGRAM_FIRST = 16
DATAGRAM_LIMIT = 64
"""Buffers for datagrams: each holds the longest UDP datagram, with its address."""

_REGISTRATION_SIZE = 40  # struct io_uring_buf_reg
_ENTRY_SIZE = 16  # struct io_uring_buf
_SPENT = 0xFFFFFFFF


class Buffers:
    """One group of buffers of one size."""

    __slots__ = (
        "memory",
        "table",
        "size",
        "available",
        "provided",
        "limit",
        "mask",
        "incremental",
        "returned",
        "tail",
        "address",
        "entries",
        "tails",
        "places",
        "lent",
    )

    def __init__(self, ring_fd: int, group: int, size: int, first: int, limit: int, incremental: bool = False) -> None:
        """Register `group` with the ring: at most `limit` buffers, a power of two. Raises OSError."""
        self.size: int = size
        self.limit: int = limit
        self.available: int = 0
        """Buffers that the kernel can take now, as far as we know."""
        self.provided: int = 0
        """Buffers in use so far."""
        self.mask: int = limit - 1
        self.tail: int = 0
        self.incremental: bool = incremental
        self.returned: list[int] = []
        """Lent buffers that have been given back, once for each piece. Any thread may append; the loop's own puts them
        back."""
        self.memory: mmap.mmap = mmap.mmap(-1, size * limit)
        # The table itself; then for each buffer its place in the table, or how much of it is used (_SPENT: all), and
        # how many pieces of it are lent, if it is filled incrementally; then the registration.
        self.table: mmap.mmap = mmap.mmap(-1, (_ENTRY_SIZE + 8) * limit + 4096)
        start = address_of(self.table)
        self.address: int = address_of(self.memory)
        self.entries: Any = words64(start, 2 * limit)
        self.tails: Any = words16(start + 14, 1)  # the two unused bytes of the first entry
        self.places: Any = words32(start + _ENTRY_SIZE * limit, limit)
        self.lent: Any = words32(start + (_ENTRY_SIZE + 4) * limit, limit)
        registration_at = start + (_ENTRY_SIZE + 8) * limit
        registration: Any = words64(registration_at, _REGISTRATION_SIZE // 8)
        registration[0] = start
        registration[1] = limit | group << 32 | (layout.PBUF_RING_INC << 48 if incremental else 0)
        result = ring_register(ring_fd, layout.REGISTER_PBUF_RING, registration_at, 1)
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        self.grow(first)

    def grow(self, wanted: int) -> bool:
        """Ensure that at least `wanted` buffers are in use, if the limit allows; return whether any were added."""
        if wanted <= self.provided or self.provided == self.limit:
            return False
        target = self.provided or 1
        while target < wanted and target < self.limit:
            target *= 2
        for number in range(self.provided, target):
            self.provide(number)
        self.provided = target
        self.publish()
        return True

    def portions(self) -> int:
        """Return for how many large messages there is room, at least one."""
        return max(1, self.available * self.size // PORTION)

    def provide(self, number: int) -> None:
        """Put a buffer at the tail; the kernel sees it after `publish`."""
        place = self.tail & self.mask
        word = number
        word = self.size | word << 32
        if place == 0:
            word |= (self.tail & 0xFFFF) << 48  # the last two bytes of the first entry are the table's tail
        self.entries[2 * place + 1] = word
        self.entries[2 * place] = self.address + number * self.size
        self.places[number] = 0 if self.incremental else place
        self.tail += 1
        self.available += 1

    def publish(self) -> None:
        """Make the provided buffers visible to the kernel."""
        store_release16(self.tails, self.tail & 0xFFFF)

    def following(self, number: int, steps: int) -> int:
        """Return the buffer that was `steps` behind `number` in the table."""
        place = (self.places[number] + steps) & self.mask
        found: int = (self.entries[2 * place + 1] >> 32) & 0xFFFF
        return found

    def copy(self, number: int, size: int) -> bytes:
        """Return the last `size` bytes received into buffer `number`, and into those behind it if they fill more."""
        start = self.address + number * self.size
        if self.incremental:
            start += self.places[number]
        elif size > self.size and not self._is_row(number, (size + self.size - 1) // self.size):
            return self._gather(number, size)
        copied: bytes = take(start, size)
        return copied

    def release(self, number: int, size: int, more: bool, lent: bool) -> None:
        """Note that `size` bytes of buffer `number` were copied or lent, and put back buffers that are no longer used.

        With `more` the kernel continues to fill it. Allocates nothing.
        """
        if self.incremental:
            self.places[number] += size
            if lent:
                self.lent[number] += 1
            if more:
                return
            self.available -= 1
            if self.lent[number]:
                self.places[number] = _SPENT
            else:
                self.provide(number)
            return
        count = (size + self.size - 1) // self.size if size > self.size else 1
        self.available -= count
        if lent:
            return
        # The first buffer's place leads to the others, and providing it changes that place: read it once. Entries are
        # written behind those that are still to be read, because the oldest is at the tail.
        place = self.places[number]
        for step in range(count):
            self.provide((self.entries[2 * ((place + step) & self.mask) + 1] >> 32) & 0xFFFF)

    def _is_row(self, number: int, count: int) -> bool:
        step = 1
        while step < count and self.following(number, step) == number + step:
            step += 1
        return step == count

    def _gather(self, number: int, size: int) -> bytes:
        parts = []
        step = 0
        while size > 0:
            part = min(size, self.size)
            start = self.address + self.following(number, step) * self.size
            parts.append(take(start, part))
            size -= part
            step += 1
        return b"".join(parts)

    def lend(self, number: int, size: int) -> "Loan":
        """Lend the last bytes received into one buffer; it can be reused when they are given back."""
        start = number * self.size
        if self.incremental:
            start += self.places[number]
        return Loan(self, number, memoryview(self.memory)[start : start + size])

    def reclaim(self) -> None:
        """Put back the buffers that were given back since the last call."""
        while self.returned:
            number = self.returned.pop()
            if number >= self.provided:
                raise ValueError(f"there is no buffer {number}")
            if self.incremental:
                self.lent[number] -= 1
                if self.lent[number] or self.places[number] != _SPENT:
                    continue
            self.provide(number)
        self.publish()


class Loan:
    """A buffer, or bytes copied out of several, lent to a protocol."""

    __slots__ = ("view", "_buffers", "_number", "_given")

    def __init__(self, buffers: Buffers | None, number: int, view: memoryview) -> None:
        self.view: memoryview = view
        self._buffers: Buffers | None = buffers
        self._number: int = number
        self._given: bool = False

    def give_back(self) -> None:
        """Allow the memory to be reused, from the next wait on; the view is released. Thread: any."""
        if self._given:
            return
        self._given = True
        try:
            self.view.release()
        except BufferError:
            pass  # there are other views of it, whose owner has declared that it is done
        buffers = self._buffers
        self._buffers = None
        if buffers is not None:
            buffers.returned.append(self._number)
