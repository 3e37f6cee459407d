"""Requests: operations translated into the kernel's requests.

Each operation becomes one request, except reads and refused writes of streams: those are a poll with the request
linked behind it. A pipe with O_NONBLOCK answers EAGAIN, where a socket request would wait for data in the kernel.

Sources: io_uring_enter(2), io_uring_prep_*(3). Thread: the loop's own.
"""

import os
import socket

from loopcore.errors import UsageError
from loopcore.ports import operations
from loopcore.ports.interest import READ, WRITE
from loopcore_backends.uring import layout, slots
from loopcore_backends.uring.slots import Slot
from loopcore_backends.uring.sockets import RECEIVE_LIMIT, STREAM_GROUP, Sockets

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore_backends._native.uring import address_of, hold, room
else:
    from loopcore_backends._native.uring import address_of, hold, room

FILE_LIMIT = 64 * 1024 * 1024
"""The most bytes of a file that one request reads; its memory is allocated before it begins."""

# Typed as C in the .pxd
_SEND_CODE = operations.SEND
_RECEIVE_CODE = operations.RECEIVE
_SEND_TO_CODE = operations.SEND_TO
_POLL_CODE = operations.POLL
_POLL_ADD = layout.OP_POLL_ADD
_POLL_ADD_MULTI = layout.POLL_ADD_MULTI
_POLL_RDHUP = layout.POLL_RDHUP
_BLOCKED = slots.BLOCKED
_SKIP_SUCCESS = layout.SQE_CQE_SKIP_SUCCESS


class Requests(Sockets):
    """The requests on one ring."""

    __slots__ = ()

    def begin(self, slot: Slot) -> None:
        """Submit the next request of `slot`; there must be space for two.

        Raises UsageError for an unknown operation, OSError for an invalid address.
        """
        code = slot.code
        if code == _SEND_CODE:
            self._send(slot)
        elif code == _RECEIVE_CODE:
            self._receive(slot)
        elif code == _POLL_CODE:
            self._poll(slot)
        elif code == _SEND_TO_CODE:
            self._send_to(slot)
        else:
            self._begin_other(slot)

    def _begin_other(self, slot: Slot) -> None:
        code = slot.code
        operation = slot.operation
        features = self.ring.features
        if code == operations.ACCEPT:
            head = layout.OP_ACCEPT | (layout.ACCEPT_MULTISHOT if features.multishot_accept else 0)
            self._put(slot, head, slot.fd, 0, 0, 0, socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, 0)
        elif code == operations.CONNECT:
            self._connect(slot)
        elif code == operations.RECEIVE_FROM:
            self._receive_from(slot)
        elif code == operations.SHUTDOWN:
            self._put(slot, layout.OP_SHUTDOWN, slot.fd, 0, 0, operation.how, 0, 0)
        elif code == operations.READ_FILE:
            self._read(slot)
        elif code == operations.WRITE_FILE:
            self._write(slot)
        elif code == operations.WAIT_PROCESS and features.waitid:
            self._wait_process(slot)
        elif code == operations.OPEN and features.files:
            self._open(slot)
        elif code == operations.SYNC and features.files:
            self._put(slot, layout.OP_FSYNC, slot.fd, 0, 0, 0, layout.FSYNC_DATASYNC if operation.data_only else 0, 0)
        elif code == operations.STAT and features.files:
            self._stat(slot)
        elif code == operations.CLOSE and features.files:
            self._put(slot, layout.OP_CLOSE, slot.fd, 0, 0, 0, 0, 0)
        else:
            raise UsageError(f"the uring backend does not support {operation!r} here; see its capabilities")

    def _poll(self, slot: Slot) -> None:
        operation = slot.operation
        if operation.edges and self.ring.features.multishot_poll:
            self._put(slot, _POLL_ADD, slot.fd, 0, 0, _POLL_ADD_MULTI, operation.interest | _POLL_RDHUP, 0)
        else:
            self._put(slot, _POLL_ADD, slot.fd, 0, 0, 0, operation.interest, 0)

    # Files, pipes, processes

    def _poll_first(self, slot: Slot, events: int) -> None:
        """Link the next request to a poll. If the poll fails, only the poll is reported."""
        head = layout.OP_POLL_ADD | layout.SQE_IO_LINK | layout.SQE_CQE_SKIP_SUCCESS
        self.ring.put(slot.user_data(), head, slot.fd, 0, 0, 0, events, 0)

    def _read(self, slot: Slot) -> None:
        operation = slot.operation
        limit: int = operation.limit
        streams = self.streams
        if operation.offset >= 0:
            slot.size = min(limit, FILE_LIMIT)
            slot.keep = room(slot.size)
            self._put(slot, layout.OP_READ, slot.fd, operation.offset, address_of(slot.keep), slot.size, 0, 0)
            return
        # Not into buffers that are filled incrementally: reads need not end in the order in which they took theirs.
        if streams is not None and not streams.incremental and limit > 0:
            slot.size = min(limit, streams.size)
            self._poll_first(slot, READ)
            head = layout.OP_READ | layout.SQE_BUFFER_SELECT
            self._put(slot, head, slot.fd, 0xFFFFFFFFFFFFFFFF, 0, slot.size, 0, STREAM_GROUP)
        else:
            slot.size = min(limit, RECEIVE_LIMIT)
            slot.keep = room(slot.size)  # before the poll, because it may raise
            self._poll_first(slot, READ)
            self._put(slot, layout.OP_READ, slot.fd, 0xFFFFFFFFFFFFFFFF, address_of(slot.keep), slot.size, 0, 0)
        slot.position -= 1
        slot.requests = 2

    def _write(self, slot: Slot) -> None:
        operation = slot.operation
        blocked = slot.step == _BLOCKED
        self._vector(slot, operation.buffers, operation.head)  # first, because it may raise
        if blocked:
            self._poll_first(slot, WRITE)
        offset = operation.offset & 0xFFFFFFFFFFFFFFFF
        self._put(slot, layout.OP_WRITEV, slot.fd, offset, self._vector_at, self._vector_count, 0, 0)
        if blocked:
            slot.position -= 1
            slot.requests = 2

    def _wait_process(self, slot: Slot) -> None:
        slot.keep = room(layout.SIGINFO_SIZE)
        information = address_of(slot.keep)
        options = (layout.WEXITED | layout.WNOWAIT) << 32
        self._put(slot, layout.OP_WAITID, slot.operation.pid, information, 0, layout.P_PID, 0, options)

    def _open(self, slot: Slot) -> None:
        operation = slot.operation
        slot.keep = hold(operation.path + b"\0")
        flags = operation.flags | os.O_CLOEXEC
        self._put(slot, layout.OP_OPENAT, layout.AT_FDCWD, 0, address_of(slot.keep), operation.mode, flags, 0)

    def _stat(self, slot: Slot) -> None:
        operation = slot.operation
        path, fd, flags = operation.path, layout.AT_FDCWD, 0 if operation.follow else layout.AT_SYMLINK_NOFOLLOW
        if path is None:
            path, fd, flags = b"", slot.fd, layout.AT_EMPTY_PATH
        held, answer = hold(path + b"\0"), room(layout.STATX_SIZE)
        slot.keep = (answer, held)
        self._put(slot, layout.OP_STATX, fd, address_of(answer), address_of(held), layout.STATX_BASIC_STATS, flags, 0)

    # The backend's own

    def cancel(self, slot: Slot) -> None:
        """Submit the cancellation of `slot`."""
        self.ring.put(0, layout.OP_ASYNC_CANCEL | _SKIP_SUCCESS, -1, 0, slot.user_data(), 0, layout.CANCEL_ALL, 0)

    def cancel_all(self) -> None:
        """Submit the cancellation of everything."""
        flags = layout.CANCEL_ALL | layout.CANCEL_ANY
        self.ring.put(0, layout.OP_ASYNC_CANCEL | _SKIP_SUCCESS, -1, 0, 0, 0, flags, 0)

    def watch(self, fd: int) -> None:
        """Submit a poll of the waker, whose completions carry the number 1 << 63."""
        length = layout.POLL_ADD_MULTI if self.ring.features.multishot_poll else 0
        self.ring.put(1 << 63, layout.OP_POLL_ADD, fd, 0, 0, length, READ, 0)
