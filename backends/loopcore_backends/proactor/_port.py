"""The port: operations are started, wait for their descriptor, and are dequeued when they are done.

A completion port on Windows is a queue of packets: descriptors are associated with it, operations are started on
them, and the dequeuing thread gets the results, several at a time. Here the queue is a list, and the dequeuing thread
does the work itself: it waits in a readiness backend, and makes the system call of each operation whose descriptor
has become ready. Other packets are posted: results of operations done at once, and of cancelled ones.

Operations tried at once
------------------------
These mostly succeed: sending, connecting, shutting down, and anything on a file that cannot be watched.
Receiving and accepting are not tried: mostly there is nothing yet, and if there is, the next wait reports it. The port
makes no callbacks, and reports nothing before the next dequeue.

Whose number it is
------------------
A program that closes a descriptor cancels the operations in flight on it first; then nothing here refers to the number
any more. If it does not, and the number is reused, the old operations end with EBADF when another begins in the same
direction: they never take data that belongs to the new file.

Cancelling during a dequeue
---------------------------
A finalizer may cancel in any allocation, a signal handler between any two instructions, another thread whenever it has
the GIL: in the middle of a dequeue that goes through these very queues, or during a receive whose bytes are the
operation's. So only the thread that dequeues cancels at once, and only between its calls. Any other cancellation is a
request, which the next dequeue, or the one under way, carries out between two steps.

Closing during a call
---------------------
Likewise, a `close` in the middle of a call leaves the work to that call, which does it when it ends. A call first
raises its flag and then looks whether the port is closed, `close` writes and looks in the other order: so one of the
two sees the other, and no operation is accepted after the queues were emptied.

Thread: the loop's own, except `wake`, `cancel` and `close`.
"""

import errno
import os
import socket
from collections import deque
from time import monotonic
from typing import Any, Final

from loopcore.errors import UsageError
from loopcore.ports.completion import Completion
from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore.ports.operations import (
    ACCEPT,
    CONNECT,
    READ_FILE,
    RECEIVE_FROM,
    SEND,
    SEND_FILE,
    SEND_TO,
    SHUTDOWN,
    WRITE_FILE,
    Operation,
    name_of,
)
from loopcore.ports.readiness import Capability, ReadinessBackend
from loopcore_backends import _refusals
from loopcore_backends._draining import drain
from loopcore_backends.proactor._associations import Association, Overlapped
from loopcore_backends.proactor._calls import BY_NUMBER, CALLS, CAPABILITIES, WAIT, try_to_send, views_of
from loopcore_backends.proactor._memory import Memory
from loopcore_backends.proactor._registrations import Registrations

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.interpreter import get_ident
else:
    from threading import get_ident

SHOTS: Final = 16
"""The most connections or datagrams that one operation takes in one wait."""

COMES_IN_CROWDS: Final = frozenset({ACCEPT, RECEIVE_FROM})

TRIED_AT_ONCE: Final = frozenset({CONNECT, SEND, SEND_TO, SHUTDOWN, WRITE_FILE, SEND_FILE})

_READABLE: Final = READ | ERROR | HANGUP
_WRITABLE: Final = WRITE | ERROR | HANGUP
_HINTS: Final = ERROR | HANGUP

_DONE: Final = Overlapped(Operation(SEND, -1), None)
"""The `slot` of an operation that was done at once, until its completion is handed out."""


class CompletionPort:
    """Operations in flight over `multiplexer`, which the port owns. `name` is for messages."""

    __slots__ = (
        "_name", "_multiplexer", "_registrations", "_memory", "_packets", "_done_at_once", "_asked", "_has_marked",
        "_owner", "_is_busy", "_woken", "_is_closed", "_to_close", "_unfinished", "_process",
    )  # fmt: skip

    def __init__(self, multiplexer: ReadinessBackend, name: str) -> None:
        self._name: str = name
        self._multiplexer: ReadinessBackend = multiplexer
        self._memory: Memory = Memory()
        self._registrations: Registrations = Registrations(multiplexer)
        self._packets: list[Completion] = []
        """Completions that the next dequeue returns without waiting."""
        self._done_at_once: list[Completion] = []
        """Completions of operations that were done at once; those of quiet ones do not end a wait."""
        self._asked: deque[tuple[Operation, Overlapped | None]] = deque()
        """Operations to cancel between two steps of a dequeue, each with its flight at the time of the request.

        None instead: whichever flight there is then.
        """
        self._has_marked: bool = False
        """An operation is marked as cancelled, because there was no memory for its completion."""
        self._owner: int = 0
        """The thread that dequeued last, or before that started the first operation; 0: there was none."""
        self._is_busy: bool = False
        """A call is working on the queues, in whichever thread."""
        self._woken: bool = False
        self._is_closed: bool = False
        self._to_close: list[None] = [None]
        """Empty as soon as a call has begun to take the port apart: the one that popped the item."""
        self._unfinished: deque[Operation] = deque()
        """What the next `close` returns."""
        self._process: int = os.getpid()

    def start(self, operation: Operation) -> None:
        """Begin `operation`. Raises ValueError if it is in flight, UsageError if this port does not support it."""
        was_busy, self._is_busy = self._is_busy, True
        try:
            self._must_be_open()
            self._start(operation)
        finally:
            self._is_busy = was_busy
            if self._is_closed and not was_busy:
                self._take_apart()
        if was_busy:
            self.wake()  # by a finalizer or a signal handler inside a wait, which may be about to block

    def _start(self, operation: Operation) -> None:
        if not self._owner:
            self._owner = get_ident()
        if operation.slot is not None:
            raise ValueError(f"{operation!r} is in flight; submit it again after its terminal completion")
        sent = -1
        if operation.code == SEND:
            association = self._registrations.table.get(operation.fd)
            if BY_NUMBER and (association is None or not association.writers):
                sent, is_all = try_to_send(operation)
                if is_all:
                    self.post(operation, sent)
                    return
        else:
            _check(operation, self._name)
        try:
            association = self._registrations.associate(operation.fd)
        except OSError as exc:
            self.post(operation, exc)
        else:
            self._begin(operation, association, sent)

    def post(self, operation: Operation, result: Any) -> None:
        """Queue the terminal completion of `operation`, which is not in flight otherwise."""
        if isinstance(result, OSError):
            self._packets.append((operation, result, False))
        else:
            self._done_at_once.append((operation, result, False))
        operation.slot = _DONE

    def cancel(self, operation: Operation) -> None:
        """Take `operation` out of the port and post its terminal completion. No effect if it is not in flight.

        Thread: any, during any call. Immediate only in the thread that dequeues, between its calls.
        """
        self._must_be_open()
        if self._owner != get_ident():  # without the GIL the slot may be freed while it is looked at
            self._asked.append((operation, None))
            self.wake()
            return
        overlapped: Overlapped | None = operation.slot
        if overlapped is None and self._is_busy:
            self._asked.append((operation, None))  # it may be in the middle of `start`
            self.wake()
            return
        if overlapped is None or overlapped.association is None:
            return
        if self._is_busy:
            self._asked.append((operation, overlapped))
            self.wake()
            return
        self._is_busy = True
        try:
            self._must_be_open()
            self._cancel(overlapped)
        except MemoryError:
            overlapped.is_cancelled = self._has_marked = True
        finally:
            self._is_busy = False
            if self._is_closed:
                self._take_apart()

    def _cancel(self, overlapped: Overlapped) -> None:
        association = overlapped.association
        if association is None:
            return  # it has ended since
        # A send that was sent in part reports how much.
        result = overlapped.taken or OSError(errno.ECANCELED, "the operation was cancelled")
        self._end(overlapped, result)
        if association.is_idle():
            self._registrations.drop(association)

    def _cancel_what_was_asked_for(self) -> None:
        asked = self._asked
        while asked:
            operation, before = asked[0]
            overlapped: Overlapped | None = operation.slot
            if overlapped is not None and (before is None or before is overlapped):
                self._cancel(overlapped)
            asked.popleft()  # afterwards: an exception in the lines above must not lose it

    def _cancel_what_is_marked(self) -> None:
        for association in [*self._registrations.table.values()]:
            for overlapped in association.in_flight():
                if overlapped.is_cancelled:
                    self._cancel(overlapped)
        self._has_marked = False

    def dequeue(self, timeout: float | None) -> list[Completion]:
        """Wait as `CompletionBackend.wait` does, make the calls that are ready, and return every packet.

        A dequeue during which the port is closed returns its packets, too: bytes that were received are not lost.
        """
        self._is_busy = True
        try:
            self._must_be_open()
            self._owner = get_ident()
            self._wait(timeout)
            return self._taken()
        finally:
            self._is_busy = False
            if self._is_closed:
                self._take_apart()

    def _wait(self, timeout: float | None) -> None:
        self._register()
        if self._packets or (timeout is not None and timeout < 0.0):
            timeout = 0.0
        # Lowered before the multiplexer waits: this dequeue or the next sees any wake from now on.
        if self._woken:
            self._woken = False
            timeout = 0.0
        for operation, _, _ in self._done_at_once:
            if not operation.quiet:
                timeout = 0.0
                break
        deadline = monotonic() + timeout if timeout else 0.0
        associations = self._registrations.table
        while True:
            events = self._multiplexer.wait(timeout)
            for fd, bits in events:
                association = associations.get(fd)
                if association is not None:
                    self._fire(association, bits)
            if self._asked:
                self._cancel_what_was_asked_for()
            # A wait that brought neither a packet nor an event has timed out or was woken; events without a packet were
            # spurious.
            if self._packets or not events or self._woken or timeout == 0.0:
                break
            self._register()
            if self._packets:
                timeout = 0.0
            elif timeout is not None:
                timeout = max(0.0, deadline - monotonic())

    def wake(self) -> None:
        """End the current dequeue, or else the next. Thread: any; after `close` a no-op."""
        # In this order: the multiplexer's wait that this ends must find the flag raised.
        self._woken = True
        self._multiplexer.wake()

    def close(self) -> list[Operation]:
        """Close the port; return the operations whose terminal completion was not handed out.

        Thread: any, during any call. A call that is under way ends, and closes the port; the next `close` then returns
        the operations.
        """
        self._is_closed = True
        if self._is_busy and os.getpid() == self._process:  # a forked child has a copy of the flag, but not the call
            self.wake()
        else:
            self._take_apart()
        return drain(self._unfinished)

    def _must_be_open(self) -> None:
        if self._is_closed:
            raise _refusals.closed(self._name)

    def _take_apart(self) -> None:
        """Close the multiplexer, and note what is unfinished. Once, and while no call is at work."""
        try:
            self._to_close.pop()
        except IndexError:
            return
        unfinished = dict.fromkeys(self._drop_packets())  # an operation that is just ending is in its queue, too
        for association in [*self._registrations.table.values()]:
            for overlapped in association.in_flight():
                unfinished[overlapped.operation] = None
                overlapped.association = None
                if not self._is_busy:  # or else this is a forked child, where a system call still has the buffers
                    overlapped.release()
        for operation in unfinished:
            operation.slot = None
        self._asked.clear()
        self._registrations.clear()
        self._multiplexer.close()
        self._unfinished.extend(unfinished)

    def _drop_packets(self) -> list[Operation]:
        """Drop completions that will never be handed out; return the operations that end with them."""
        packets = [*self._done_at_once, *self._packets]
        self._done_at_once = []
        self._packets = []
        for operation, result, _ in packets:
            if operation.code == ACCEPT and isinstance(result, int):
                socket.close(result)
        return [operation for operation, _, more in packets if not more]

    # Internals

    def _begin(self, operation: Any, association: Association, sent: int) -> None:
        """Try `operation`, unless `sent` says that this was done; if it cannot finish, queue it."""
        queue = association.queue_for(operation.code)
        overlapped = Overlapped(operation, association)
        if sent >= 0:
            overlapped.taken = sent
            overlapped.rest = views_of(operation.buffers, operation.head + sent)
        elif association.unwatchable or (not queue and operation.code in TRIED_AT_ONCE):
            result = self._try(overlapped, association, 0)
            if result is not WAIT:
                overlapped.release()
                self.post(operation, result)
                return
        if queue and not association.is_same_file():
            self._fail(association, OSError(errno.EBADF, f"descriptor {association.fd} was closed and reused"))
            association.suspect = True
            self._registrations.table[association.fd] = association
        self._registrations.note(association)
        overlapped.queue = queue
        queue.append(overlapped)
        operation.slot = overlapped

    def _try(self, overlapped: Overlapped, association: Association, bits: int) -> Any:
        """Make the system call; return the result, an OSError, or WAIT."""
        try:
            return CALLS[overlapped.operation.code](self._memory, association, overlapped, bits)
        except BlockingIOError as exc:
            return exc.with_traceback(None) if association.unwatchable else WAIT
        except OSError as exc:
            return exc.with_traceback(None)  # a value from here on: a traceback's frames would keep the operation alive
        except Exception as exc:
            if overlapped.operation.slot is not overlapped:
                raise  # out of `submit`, to the caller that made the mistake
            return OSError(errno.EINVAL, f"{overlapped.operation!r}: {exc}")

    def _fire(self, association: Association, bits: int) -> None:
        """Resume the operations that wait for `bits`."""
        if association.polls:
            self._fire_polls(association, bits)
        if bits & _READABLE and association.readers:
            self._go_on_reading(association, bits)
        if bits & _WRITABLE and association.writers:
            self._go_on_writing(association, bits)
        if association.rested >= 0:
            self._registrations.drop(association)  # idle, and not used again

    def _fire_polls(self, association: Association, bits: int) -> None:
        for overlapped in [*association.polls]:
            poll: Any = overlapped.operation
            found = bits & (poll.interest | _HINTS)
            if found:
                self._end(overlapped, found)

    def _go_on_reading(self, association: Association, bits: int) -> None:
        readers = association.readers
        shots = SHOTS
        while readers:
            overlapped = readers[0]
            operation = overlapped.operation
            code = operation.code
            result = self._try(overlapped, association, bits)
            if result is WAIT:
                return
            is_over = isinstance(result, OSError) or result == b""
            if is_over or code == READ_FILE or association.unwatchable:
                self._end(overlapped, result)
                if is_over and association.is_idle():
                    self._registrations.drop(association)
                continue
            self._packets.append((operation, result, True))
            shots -= 1
            if code not in COMES_IN_CROWDS or not shots:
                return

    def _go_on_writing(self, association: Association, bits: int) -> None:
        writers = association.writers
        while writers:
            overlapped = writers[0]
            result = self._try(overlapped, association, bits)
            if result is WAIT:
                return
            self._end(overlapped, result)
            if isinstance(result, OSError) and association.is_idle():
                self._registrations.drop(association)

    def _end(self, overlapped: Overlapped, result: Any) -> None:
        """Take `overlapped` out of its queue, and queue its terminal completion."""
        association = overlapped.association
        if association is None:
            return
        self._registrations.note(association)
        self._packets.append((overlapped.operation, result, False))
        overlapped.association = None
        overlapped.queue.remove(overlapped)
        overlapped.release()

    def _fail(self, association: Association, error: OSError) -> None:
        """End all that is in flight on `association`, and forget it."""
        for overlapped in association.in_flight():
            self._end(overlapped, error)
        self._registrations.drop(association)

    def _register(self) -> None:
        """Carry out requested cancellations, update the multiplexer's table, and handle descriptors it refuses."""
        if self._asked:
            self._cancel_what_was_asked_for()
        if self._has_marked:
            self._cancel_what_is_marked()
        self._registrations.update()
        refused = self._registrations.refused
        while refused:
            association, error = refused[len(refused) - 1]
            if error is None:
                self._fire(association, association.wanted())
            else:
                self._fail(association, error)
            refused.pop()  # afterwards: an exception in the lines above must not lose it

    def _taken(self) -> list[Completion]:
        fresh: list[Completion] = []
        empty: list[Completion] = []
        packets, self._packets = self._packets, fresh
        if self._done_at_once:
            at_once, self._done_at_once = self._done_at_once, empty
            try:
                at_once.extend(packets)
            except MemoryError:
                self._done_at_once, self._packets = at_once, packets
                raise
            packets = at_once
        for operation, _, more in packets:
            if not more:
                operation.slot = None
        return packets


def _check(operation: Operation, name: str) -> None:
    """Raise UsageError for an operation that this port does not support."""
    code = operation.code
    if code > SEND_FILE or (code == SEND_FILE and Capability.SEND_FILE not in CAPABILITIES):
        raise UsageError(f"the {name} backend does not support {name_of(code)}; see its `capabilities`")
    if code in (READ_FILE, WRITE_FILE):
        file: Any = operation
        if file.offset != -1:
            raise UsageError(f"the {name} backend reads and writes at a file's current position, not at an offset")
