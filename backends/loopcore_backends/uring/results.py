"""Results: the kernel's completions translated into the port's.

`harvest` empties the completion queue. A completion that ends an operation frees its slot; one that only ends a
request, because there was no buffer, or no data in a pipe, adds the operation to those that are begun `again`. `settle`
then reports the success of inline sends, which have no completion (see `requests`).

Neither is ever entered twice: finalizers that an allocation runs cannot call in here (see `backend`). All allocations
come first: if memory runs out for a completion, nothing has changed, and it is found in the queue again.

An operation that the kernel cancels on its own is begun again: it does so with the requests of a thread
that ends. Sources: io_uring(7), io_uring_prep_*(3). Thread: the loop's own.
"""

import errno
import os
import socket
from typing import Any

from loopcore.ports import operations
from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore_backends import _sockaddr
from loopcore_backends.uring import layout, slots, status
from loopcore_backends.uring.buffers import Buffers, Loan
from loopcore_backends.uring.requests import Requests
from loopcore_backends.uring.slots import Slot, Slots

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore_backends._native.uring import (
        address_of,
        cut,
        internet_address,
        load_acquire,
        store_release,
        take,
        words32,
    )
else:
    from loopcore_backends._native.uring import (
        address_of,
        cut,
        internet_address,
        load_acquire,
        store_release,
        take,
        words32,
    )

# Typed as C in the .pxd
_RECEIVE_CODE = operations.RECEIVE
_RECEIVE_FROM_CODE = operations.RECEIVE_FROM
_POLL_CODE = operations.POLL
_READ_FILE_CODE, _STAT_CODE, _WAIT_CODE = operations.READ_FILE, operations.STAT, operations.WAIT_PROCESS
_CONNECT_CODE = operations.CONNECT
_SHUTDOWN_CODE, _SYNC_CODE, _CLOSE_CODE = operations.SHUTDOWN, operations.SYNC, operations.CLOSE
_POLL_BITS = READ | WRITE | ERROR | HANGUP
_HANGUP_BIT = HANGUP
_RDHUP_BIT = layout.POLL_RDHUP
_NAME_AT = layout.RECVMSG_OUT_SIZE
_NAME_SIZE = layout.NAME_SIZE
_INLINE = slots.INLINE
_CONNECTING = slots.CONNECTING
_BLOCKED = slots.BLOCKED
_STARVED = slots.STARVED
_CQE_BUFFER = layout.CQE_BUFFER
_CQE_MORE = layout.CQE_MORE
_CQE_BUFFER_MORE = layout.CQE_BUFFER_MORE
_BUFFER_SHIFT = layout.CQE_BUFFER_SHIFT
_AGAIN_ERROR = errno.EAGAIN
_CANCELLED_ERROR = errno.ECANCELED
_NO_BUFFERS_ERROR = errno.ENOBUFS
_INTERRUPTED_ERROR = errno.EINTR
_WAKE_GENERATION = 1 << 31
_LOW = 0xFFFFFFFF

_SENDS = (operations.SEND, operations.SEND_TO, operations.WRITE_FILE)
_NOT_TWICE = (operations.OPEN, operations.CLOSE, operations.SEND_FILE)


class Results:
    """Completions that have not been handed out yet."""

    __slots__ = ("done", "ends", "again", "woken", "watching", "_slots")

    def __init__(self, in_flight: Slots) -> None:
        self.done: list[Any] = []
        """Completions for the next wait to return; an operation whose last one is here is in flight until then."""
        self.ends: int = 0
        """How many of them end a wait."""
        self.again: list[Slot] = []
        """Operations in flight that have no request: begun when there is space."""
        self.woken: bool = False
        self.watching: bool = False
        """The poll of the waker is with the kernel."""
        self._slots: Slots = in_flight

    def harvest(self, requests: Requests) -> None:
        """Take all available completions."""
        ring = requests.ring
        head = ring.cq_head[0]
        tail = load_acquire(ring.cq_tail)
        streams: Buffers | None = requests.streams
        if head == tail:
            return
        while head != tail:
            at = (head & ring.cq_mask) * 4
            result = ring.results[at + 2]
            flags = ring.cqes[at + 3]
            slot = self._slots.find(ring.cqes[at], ring.cqes[at + 1])
            if slot is not None:
                code = slot.code
                if result < 0:
                    self._failed(slot, result, requests)
                elif code == _RECEIVE_CODE:
                    self._received(slot, result, flags, requests)
                else:
                    self._finished(slot, result, flags, requests)
            elif ring.cqes[at + 1] == _WAKE_GENERATION:
                self.woken = True
                if not flags & _CQE_MORE:
                    self.watching = False
            head = (head + 1) & _LOW
            # One by one: a completion is never taken twice, whatever is raised.
            store_release(ring.cq_head, head)
        if streams is not None:
            streams.publish()

    def settle(self, requests: Requests) -> None:
        """Report the success of the inline sends that the kernel has taken; call after `harvest`."""
        if not requests.inline:
            return
        consumed = requests.ring.consumed()
        waiting = []
        for slot in requests.inline:
            if slot.step == _INLINE and slot.asked:
                if slot.position < consumed:
                    operation = slot.operation
                    size = slot.size
                    self.done.append((operation, size, False))
                    self._slots.give(slot)
                    if not operation.quiet:
                        self.ends += 1
                else:
                    waiting.append(slot)
        requests.inline = waiting

    def _received(self, slot: Slot, result: int, flags: int, requests: Requests) -> None:
        operation = slot.operation
        more: bool = bool(flags & _CQE_MORE)
        received: Any = b""
        streams = requests.streams
        lent = False
        if streams is None:
            received = cut(slot.keep, result)
        elif flags & _CQE_BUFFER:
            lent = operation.lend and 0 < result <= streams.size and 2 * streams.available > streams.provided
            if lent:
                received = streams.lend(flags >> _BUFFER_SHIFT, result)
            else:
                received = streams.copy(flags >> _BUFFER_SHIFT, result)
        if not lent and (operation.lend or result > operation.limit):
            self.done += self._pieces(operation, received, more)
        else:
            self.done.append((operation, received, more))
        if streams is not None and flags & _CQE_BUFFER:
            streams.release(flags >> _BUFFER_SHIFT, result, bool(flags & _CQE_BUFFER_MORE), lent)
        self.ends += 1
        if not more:
            requests.receives -= 1
            self._slots.give(slot)

    def _pieces(self, operation: Any, received: bytes, more: bool) -> list[Any]:
        """Return the completions for `received`, none longer than the limit, as loans if `lend` is set."""
        limit = operation.limit
        pieces = []
        while len(received) > limit > 0:
            pieces.append((operation, self._piece(operation, received[:limit]), True))
            received = received[limit:]
        pieces.append((operation, self._piece(operation, received), more))
        return pieces

    def _piece(self, operation: Any, received: bytes) -> Any:
        return Loan(None, 0, memoryview(received)) if received and operation.lend else received

    def _failed(self, slot: Slot, result: int, requests: Requests) -> None:
        error = -result
        code = slot.code
        if slot.cancelled or not self._goes_on(slot, code, error, requests):
            if slot.cancelled and error in (_AGAIN_ERROR, _NO_BUFFERS_ERROR, _INTERRUPTED_ERROR):
                error = _CANCELLED_ERROR
            self.end(slot, OSError(error, os.strerror(error)))
        if code == _RECEIVE_CODE:
            requests.receives -= 1

    def _goes_on(self, slot: Slot, code: int, error: int, requests: Requests) -> bool:
        """Begin again an operation whose error is temporary; return whether that was done."""
        step = slot.step
        if error == _NO_BUFFERS_ERROR and code == _RECEIVE_CODE:
            step = _STARVED
        if error == _NO_BUFFERS_ERROR and code in (operations.RECEIVE, operations.RECEIVE_FROM, operations.READ_FILE):
            group = requests.datagrams if code == operations.RECEIVE_FROM else requests.streams
            if group is None:
                return False
            # A few large messages are better served one after the other, in memory that is in the cache.
            if not group.incremental or group.available <= group.provided // 2:
                group.grow(2 * group.provided)
        elif error == _AGAIN_ERROR:
            if code in _SENDS:
                step = _BLOCKED
            elif code not in (operations.READ_FILE, operations.RECEIVE, operations.ACCEPT, operations.RECEIVE_FROM):
                return False
        elif error == errno.EALREADY and code == _CONNECT_CODE:
            step = _CONNECTING
        elif error == _CANCELLED_ERROR:
            if code in _NOT_TWICE:
                return False
            if code == _CONNECT_CODE:
                step = _CONNECTING
        elif error != _INTERRUPTED_ERROR or code in _NOT_TWICE or code == _CONNECT_CODE:
            return False
        self.again.append(slot)
        slot.step = step
        slot.asked = False
        return True

    def _finished(self, slot: Slot, result: int, flags: int, requests: Requests) -> None:
        if flags & _CQE_MORE:
            self.done.append((slot.operation, self._value(slot, result, flags, requests), True))
            self.ends += 1
        else:
            self.end(slot, self._value(slot, result, flags, requests))
        if flags & _CQE_BUFFER:
            group = requests.datagrams if slot.code == _RECEIVE_FROM_CODE else requests.streams
            if group is not None:
                group.release(flags >> _BUFFER_SHIFT, result, False, False)
                group.publish()

    def _value(self, slot: Slot, result: int, flags: int, requests: Requests) -> Any:
        code = slot.code
        if code == _POLL_CODE:
            # Only edge polls ask for POLLRDHUP: without it the end of a stream behind unread data would be no edge.
            return result & _POLL_BITS | (_HANGUP_BIT if result & _RDHUP_BIT else 0)
        if code == _RECEIVE_FROM_CODE:
            return self._datagram(slot, result, flags, requests)
        if code == _READ_FILE_CODE:
            if requests.streams is None or slot.keep is not None:
                return cut(slot.keep, result)
            if flags & _CQE_BUFFER:
                return requests.streams.copy(flags >> _BUFFER_SHIFT, result)
            return b""
        if code == _STAT_CODE:
            return status.stat_result(cut(slot.keep[0], layout.STATX_SIZE))
        if code == _WAIT_CODE:
            at = address_of(slot.keep)
            information = words32(at, layout.SIGINFO_SIZE // 4)
            return status.wait_status(information[layout.SIGINFO_CODE], information[layout.SIGINFO_STATUS])
        if code == _CONNECT_CODE:
            return self._connected(slot)
        if code in (_SHUTDOWN_CODE, _SYNC_CODE, _CLOSE_CODE):
            return None
        return result

    def _connected(self, slot: Slot) -> OSError | None:
        if slot.step != _CONNECTING:
            return None
        try:
            with socket.socket(fileno=os.dup(slot.fd)) as copy:
                error = copy.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        except OSError as exc:
            return exc
        return OSError(error, os.strerror(error)) if error else None

    def _datagram(self, slot: Slot, result: int, flags: int, requests: Requests) -> Any:
        if slot.keep is not None:
            at = address_of(slot.keep)
            size = words32(at, 4)[2]
            name = take(at + 80, min(size, _NAME_SIZE))
            return take(at + 80 + _NAME_SIZE, result), _sockaddr.decode(name)
        group = requests.datagrams
        if group is None or not flags & _CQE_BUFFER:
            return b"", None
        number = flags >> _BUFFER_SHIFT
        at = group.address + number * group.size
        operation = slot.operation
        prefix = _NAME_AT + _NAME_SIZE
        size = min(result - prefix, operation.limit)
        return take(at + prefix, size), internet_address(at + _NAME_AT)

    def end(self, slot: Slot, result: Any) -> None:
        """Queue the last completion of `slot`, with `result`. Its operation is in flight until that is handed out."""
        operation = slot.operation
        self.done.append((operation, result, False))
        if not operation.quiet or isinstance(result, OSError):
            self.ends += 1
        elif slot.code in _SENDS and result < slot.size:
            self.ends += 1  # the caller has to send the rest, so it must be notified
        self._slots.give(slot)
