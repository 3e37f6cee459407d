"""Sockets: sends, receives and connects translated into the kernel's requests.

Inline sends
------------
Most sends are `quiet` and succeed at once, because the socket has room. Such a send is submitted with MSG_DONTWAIT,
MSG_WAITALL and IOSQE_CQE_SKIP_SUCCESS. The first means that it has ended when io_uring_enter(2) has taken it; the
second, that it counts as failed unless all bytes were sent; the third, that only a failure has a completion. So after
`enter` a send that was taken and has no completion has sent everything, and none of them ends the wait, for which
one call a tick is enough. A refused send (EAGAIN) is submitted again without these flags, and waits for room.
Other sends go without MSG_WAITALL: if the ring is abandoned, it is unknown how much a waiting send has already sent.

Sources: io_uring_enter(2), io_uring_prep_send(3), io_uring_prep_recv_multishot(3), send(2). Thread: the loop's own.
"""

import errno
import socket
from typing import Any

from loopcore.ports.interest import WRITE
from loopcore_backends import _sockaddr
from loopcore_backends.uring import buffers, layout, slots
from loopcore_backends.uring.buffers import Buffers
from loopcore_backends.uring.ring import NAME_AT, SCRATCH_VECTORS, VECTORS_AT, Ring
from loopcore_backends.uring.slots import Slot

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore_backends._native.uring import (
        address_of,
        family_of,
        hold,
        length_of,
        poke,
        room,
        words64,
    )
else:
    from loopcore_backends._native.uring import (
        address_of,
        family_of,
        hold,
        length_of,
        poke,
        room,
        words64,
    )

MSG_WAITALL = 0x100
STREAM_GROUP = 0
DATAGRAM_GROUP = 1
VECTOR_LIMIT = 1024
"""The most buffers that one request passes (IOV_MAX)."""
RECEIVE_LIMIT = 64 * 1024
"""The most bytes received into a request's own memory, where there is no buffer ring."""
LONGEST = 0x7FFFF000
"""The most bytes that one call moves (the kernel's MAX_RW_COUNT)."""
ENCODED_LIMIT = 1024

# Typed as C in the .pxd
_SEND = layout.OP_SEND
_SENDMSG = layout.OP_SENDMSG
_INLINE_FLAGS = getattr(socket, "MSG_DONTWAIT", 0) | MSG_WAITALL
_LONGEST = LONGEST
_JOIN_LIMIT = 4096
_LARGE = buffers.STREAM_SIZE
_RECEIVE_ONCE = layout.OP_RECV | layout.SQE_BUFFER_SELECT
_SKIP_SUCCESS = layout.SQE_CQE_SKIP_SUCCESS
_PLAIN = slots.PLAIN
_INLINE = slots.INLINE
_CONNECTING = slots.CONNECTING
_BLOCKED = slots.BLOCKED
_SCRATCH_VECTORS = SCRATCH_VECTORS
_VECTOR_LIMIT = VECTOR_LIMIT
_VECTORS_AT = VECTORS_AT
_NAME_AT = NAME_AT


def _stream_buffers(ring: Ring) -> Buffers:
    if ring.features.incremental:
        try:
            return Buffers(ring.fd, STREAM_GROUP, buffers.SHARED_SIZE, buffers.SHARED_FIRST, buffers.SHARED_LIMIT, True)
        except OSError as exc:
            if exc.errno != errno.EINVAL:
                raise
    return Buffers(ring.fd, STREAM_GROUP, buffers.STREAM_SIZE, buffers.STREAM_FIRST, buffers.STREAM_LIMIT)


class Sockets:
    """The socket requests on one ring."""

    __slots__ = (
        "ring",
        "streams",
        "datagrams",
        "inline",
        "receives",
        "_encoded",
        "_inline_sends",
        "_receive_head",
        "_vector_at",
        "_vector_count",
    )

    def __init__(self, ring: Ring) -> None:
        features = ring.features
        self.ring: Ring = ring
        self.streams: Buffers | None = None
        if features.buffer_ring:
            self.streams = _stream_buffers(ring)
        self.datagrams: Buffers | None = None
        self.inline: list[Slot] = []
        """Inline sends that were submitted since the last `enter`."""
        self.receives: int = 0
        """Receives in flight; the number of buffers grows with them."""
        self._encoded: dict[Any, bytes] = {}
        self._inline_sends: bool = features.inline_sends
        self._receive_head: int = layout.OP_RECV
        if features.buffer_ring:
            self._receive_head |= layout.SQE_BUFFER_SELECT
            if features.multishot_receive:
                self._receive_head |= layout.RECV_MULTISHOT
            if features.bundles and self.streams is not None and not self.streams.incremental:
                self._receive_head |= layout.RECVSEND_BUNDLE
        self._vector_at: int = 0
        self._vector_count: int = 0

    def _put(
        self, slot: Slot, head: int, fd: int, offset: int, address: int, length: int, flags: int, extra: int
    ) -> None:
        slot.position = self.ring.put(slot.user_data(), head, fd, offset, address, length, flags, extra)
        slot.requests = 1
        slot.asked = True

    # Sending

    def _send(self, slot: Slot) -> None:
        operation = slot.operation
        queue = operation.buffers
        first = operation.head
        whole = queue[0] if len(queue) == 1 else self._joined(queue)
        if whole is not None:
            held = hold(whole)
            slot.keep = held
            slot.size = min(length_of(held) - first, _LONGEST)
            self._put_send(slot, operation, _SEND, address_of(held) + first, slot.size)
        else:
            self._vector(slot, queue, first)
            self._put_send(slot, operation, _SENDMSG, self._message(0, 0), 1)

    def _joined(self, queue: Any) -> Any:
        """Return a few small pieces as one, which is cheaper than a vector; None if they are large or not `bytes`."""
        size = 0
        for item in queue:
            size += len(item) if isinstance(item, bytes) else _JOIN_LIMIT + 1
            if size > _JOIN_LIMIT:
                return None
        return b"".join(queue)

    def _put_send(self, slot: Slot, operation: Any, opcode: int, address: int, length: int) -> None:
        head = opcode
        flags = 0
        if slot.step != _BLOCKED:
            if self._inline_sends and operation.quiet:
                slot.step = _INLINE
                head |= _SKIP_SUCCESS
                flags = _INLINE_FLAGS
                self.inline.append(slot)
            else:
                slot.step = _PLAIN
        self._put(slot, head, slot.fd, 0, address, length, flags, 0)

    def _vector(self, slot: Slot, queue: Any, first: int) -> None:
        """Write a table of struct iovec for `queue`, without the first `first` bytes."""
        count = min(len(queue), _VECTOR_LIMIT)
        held_ones = []
        if count <= _SCRATCH_VECTORS:
            at = self.ring.scratch_index() + _VECTORS_AT
            table = self.ring.scratch
            self._vector_at = self.ring.scratch_at + 8 * at
        else:
            held_table = room(16 * count)
            held_ones.append(held_table)
            at = 0
            self._vector_at = address_of(held_table)
            table = words64(self._vector_at, 2 * count)
        slot.size = -first
        for position in range(count):
            held = hold(queue[position])
            held_ones.append(held)
            table[at] = address_of(held)
            table[at + 1] = length_of(held)
            if position == 0:
                table[at] += first
                table[at + 1] -= first
            slot.size += length_of(held)
            at += 2
        slot.size = min(slot.size, _LONGEST)
        self._vector_count = count
        slot.keep = held_ones

    def _message(self, name_at: int, name_size: int) -> int:
        """Write the struct msghdr for the latest vector; return its address."""
        at = self.ring.scratch_index()
        self.ring.scratch[at] = name_at
        self.ring.scratch[at + 1] = name_size
        self.ring.scratch[at + 2] = self._vector_at
        self.ring.scratch[at + 3] = self._vector_count
        self.ring.scratch[at + 4] = 0
        self.ring.scratch[at + 5] = 0
        self.ring.scratch[at + 6] = 0
        return self.ring.scratch_at + 8 * at

    def _send_to(self, slot: Slot) -> None:
        operation = slot.operation
        held = hold(operation.buffer)
        slot.size = min(length_of(held), _LONGEST)
        slot.keep = held
        if operation.address is None:
            self._put_send(slot, operation, _SEND, address_of(held), slot.size)
            return
        name = self._address(operation.address)
        at = self.ring.scratch_index()
        self._vector_at = self.ring.scratch_at + 8 * (at + _VECTORS_AT)
        self._vector_count = 1
        self.ring.scratch[at + _VECTORS_AT] = address_of(held)
        self.ring.scratch[at + _VECTORS_AT + 1] = slot.size
        name_at = self.ring.scratch_at + 8 * (at + _NAME_AT)
        poke(name_at, name)
        self._put_send(slot, operation, _SENDMSG, self._message(name_at, len(name)), 1)

    def _address(self, address: Any) -> bytes:
        try:
            return self._encoded[address]
        except (KeyError, TypeError):
            name = _sockaddr.encode(address)
            if isinstance(address, tuple):
                if len(self._encoded) >= ENCODED_LIMIT:
                    self._encoded.clear()
                self._encoded[address] = name
            return name

    def _connect(self, slot: Slot) -> None:
        if slot.step == _CONNECTING:
            self._put(slot, layout.OP_POLL_ADD, slot.fd, 0, 0, 0, WRITE, 0)
            return
        name = _sockaddr.encode(slot.operation.address)
        name_at = self.ring.scratch_at + 8 * (self.ring.scratch_index() + _NAME_AT)
        poke(name_at, name)
        self._put(slot, layout.OP_CONNECT, slot.fd, len(name), name_at, 0, 0, 0)

    # Receiving

    def _receive(self, slot: Slot) -> None:
        operation = slot.operation
        self.receives += 1
        if self.streams is not None and operation.limit > 0:
            if self.receives >= self.streams.provided * (buffers.SHARED_BY if self.streams.incremental else 1):
                self.streams.grow(2 * self.streams.provided)
            limit: int = operation.limit
            if limit >= _LARGE:
                self._put(slot, self._receive_head, slot.fd, 0, 0, 0, 0, STREAM_GROUP)
            else:
                # A receive without a limit would have to be cut into pieces, perhaps into a million of one byte.
                self._put(slot, _RECEIVE_ONCE, slot.fd, 0, 0, limit, 0, STREAM_GROUP)
        else:
            slot.size = min(operation.limit, RECEIVE_LIMIT)
            slot.keep = room(slot.size)
            self._put(slot, layout.OP_RECV, slot.fd, 0, address_of(slot.keep), slot.size, 0, 0)

    def _receive_from(self, slot: Slot) -> None:
        family = family_of(slot.fd)
        if self.ring.features.multishot_receive and family in (socket.AF_INET, socket.AF_INET6):
            if self.datagrams is None:
                self.datagrams = Buffers(
                    self.ring.fd, DATAGRAM_GROUP, buffers.DATAGRAM_SIZE, buffers.DATAGRAM_FIRST, buffers.DATAGRAM_LIMIT
                )
            self._vector_at = 0
            self._vector_count = 0
            slot.size = 0
            head = layout.OP_RECVMSG | layout.SQE_BUFFER_SELECT | layout.RECV_MULTISHOT
            self._put(slot, head, slot.fd, 0, self._message(0, layout.NAME_SIZE), 1, 0, DATAGRAM_GROUP)
            return
        # Separate memory: struct msghdr, a struct iovec, the name, the datagram. The kernel writes all but the
        # second.
        size = slot.operation.limit
        slot.size = size
        slot.keep = room(80 + layout.NAME_SIZE + size)
        at = address_of(slot.keep)
        words = words64(at, 10)
        words[0] = at + 80
        words[1] = layout.NAME_SIZE
        words[2] = at + 64
        words[3] = 1
        words[4] = words[5] = words[6] = 0
        words[8] = at + 80 + layout.NAME_SIZE
        words[9] = size
        self._put(slot, layout.OP_RECVMSG, slot.fd, 0, at, 1, 0, 0)
