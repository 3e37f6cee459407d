"""uring: a completion port on io_uring(7).

One io_uring_enter(2) a wait submits everything new, runs the requests that became ready, and waits.

One call at a time
------------------
The queues are shared with the kernel and belong to one thread, the owner: the one that waited last. A finalizer or a
signal handler may call the port in the middle of a call of the owner's, a collection may run a finalizer in any
thread. Such a `submit` or `cancel` is posted, and wakes the port: the current or the next `wait` carries it out. So
one call at a time changes the queues, and no other thread touches the ring. A posted operation that cannot be submitted
ends with EINVAL, because its caller has gone on. A `close` in the middle of a call is carried out when that call ends;
the operations that it ends are returned by the next `close`.

A call first notes that it is under way (`_inside`), and then looks whether the port was closed or taken over; `close`
and a wait in a new thread do it the other way round. So at least one of the two sees the other, wherever the threads
are switched or a signal handler runs: the call gives way, or the other waits for its end.

Threads
-------
The ring belongs to the thread of the first wait (see `ring`); the loop may have been made in another. When another
thread waits later, the kernel refuses (EEXIST), and everything in flight moves to a new ring. The owner is not in
the old one then: the new thread waits until a `submit` or `cancel` there has returned, and a wait in the middle of a
wait is an error. Moving loses nothing: the work of a request whose socket becomes ready is done in the thread of its
ring, inside its wait, so nothing happened in the meantime, and requests of an abandoned ring only end. A thread that
ends runs the ready requests once more; the new owner waits for that, and reports the results. The exception are calls
on files that the kernel left to its own threads: those that must not be made twice end with ECANCELED.

Memory
------
The kernel may write to the memory of a request until the request has ended. Requests that are unended when their ring
is abandoned keep their memory until the kernel reports that the ring has ended (see `abandoned`). `close` waits for
that, at most a second for each ring; a move waits only if many rings are ending. If the ring's thread has ended,
nothing runs the requests, and their memory is not kept.

Cancelling
----------
A request holds its file open: a socket that is closed while a receive is in flight stays open. So the owner's
`cancel` enters the kernel and returns when the operation has ended, or after a second; other operations that ended
meanwhile are kept for the next wait. A posted cancellation is carried out when the owner gets to it.

Signals
-------
A signal ends io_uring_enter(2), but the result does not show that if anything was submitted; so after each call that
brought nothing the handlers are run. Completions that had arrived are in the queue, and come with the next wait.
Sources: io_uring(7), io_uring_enter(2), io_uring_prep_cancel(3). Thread: any, as said above; `wait` the loop's own.
"""

import errno
import os
import threading
import time
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from loopcore.errors import BackendClosedError, BackendUnavailableError
from loopcore.ports import operations
from loopcore.ports.completion import Completion
from loopcore.ports.direct import DirectPort
from loopcore.ports.readiness import Capability, ProbeResult
from loopcore_backends import _refusals
from loopcore_backends._draining import drain
from loopcore_backends._waker import Waker, make_waker
from loopcore_backends.uring import abandoned, features, report, slots, status
from loopcore_backends.uring.life import Life, child_error
from loopcore_backends.uring.requests import Requests
from loopcore_backends.uring.results import Results
from loopcore_backends.uring.ring import Ring
from loopcore_backends.uring.slots import Slot, Slots

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore_backends._native.uring import check_signals, get_ident, now_ns, to_ns
else:
    from loopcore_backends._native.uring import check_signals, get_ident, now_ns, to_ns

ROUNDS: Final = 100
ROUND_NS: Final = 10_000_000
"""`close` and `cancel` wait for the operations they have cancelled, at most a second."""
PATIENCE_STEPS: Final = 2000
"""A wait in a new thread waits for a call in the old one, at most so many milliseconds."""

_ONCE: Final = (operations.OPEN, operations.CLOSE, operations.SEND_FILE, operations.WRITE_FILE)
"""Calls that must not be made a second time."""


class Posted(NamedTuple):
    """A call that the owner has to carry out."""

    submits: bool
    """Submit the operation, or else cancel it."""
    operation: Any
    generation: int
    """Of the slot: the flight that is to be cancelled; 0 for any."""


class UringBackend(DirectPort):
    """Completions from io_uring(7)."""

    __slots__ = (
        "_waker", "_requests", "_results", "_slots", "_without", "_pid", "_life", "_owner", "_inside", "_posted",
        "_closed", "_has_ring", "_unfinished", "_ending",
    )  # fmt: skip

    name = "uring"
    backend_api = (1, 0)
    details = staticmethod(report.details)

    @classmethod
    def probe(cls) -> ProbeResult:
        """Report whether a ring can be made. Raises UsageError for an invalid LOOPCORE_URING_WITHOUT."""
        try:
            Ring(features.masked()).close()
        except BackendUnavailableError as exc:
            return ProbeResult(False, str(exc).removeprefix("backend 'uring' cannot run here: "))
        return ProbeResult(True)

    def __init__(self, without: Collection[str] = ()) -> None:
        """Make a ring, without the features in `without` (see `features.NAMES`).

        Raises BackendUnavailableError where no ring can be made, UsageError for an unknown name.
        """
        self._owner: int = get_ident()
        """The thread that waited last, or that made the port."""
        self._inside: int = 0
        """The thread that is in the middle of a call, or 0."""
        self._posted: deque[Posted] = deque()
        """What the owner has to carry out, in the order of the calls."""
        self._closed: bool = False
        """`close` was called."""
        self._unfinished: deque[Any] = deque()
        """Operations for the next `close` to return."""
        self._ending: Any = threading.Lock()
        self._without: frozenset[str] = features.masked(without)
        self._pid: int = os.getpid()
        self._life: Life = Life()
        self._slots: Slots = Slots()
        self._results: Results = Results(self._slots)
        self._waker: Waker | None = make_waker()
        ring = Ring(self._without)
        try:
            self._requests: Requests = Requests(ring)
        except OSError as exc:
            ring.close()
            raise features.unavailable(features.refusal_by_error(exc.errno or 0)) from exc
        self._has_ring: bool = True

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of this ring; fewer if features are masked."""
        found = {Capability.REGULAR_FILES, Capability.LARGE_DESCRIPTORS, Capability.FLAT_COST, Capability.CHEAP_POLLS}
        if self._requests.ring.features.files:
            found.add(Capability.FILES)
        if self._requests.ring.features.waitid:
            found.add(Capability.PROCESSES)
        return frozenset(found)

    def submit(self, operation: Any) -> None:
        if self._closed or not self._life.is_here():
            raise self._refusal()
        if operation.slot is not None:
            raise ValueError(f"{operation!r} is in flight already")
        thread = get_ident()
        if self._inside or thread != self._owner:
            self._post(True, operation, slots.POSTED)
            return
        self._inside = thread
        try:
            if self._closed:
                raise self._refusal()
            if thread == self._owner:
                self._submit(operation)
            else:
                self._post(True, operation, slots.POSTED)
        finally:
            self._inside = 0
            if self._closed:
                self._end()

    def cancel(self, operation: Any) -> None:
        if self._closed or not self._life.is_here():
            raise self._refusal()
        slot = operation.slot
        if slot is None:
            return
        thread = get_ident()
        if self._inside or slot is slots.POSTED or thread != self._owner:
            self._post(False, operation, slot)
            return
        self._inside = thread
        try:
            if self._closed:
                raise self._refusal()
            if thread == self._owner:
                self._cancel(operation)
            else:
                self._post(False, operation, slot)
        finally:
            self._inside = 0
            if self._closed:
                self._end()

    # One call at a time

    def _post(self, submits: bool, operation: Any, slot: Slot) -> None:
        posted = Posted(submits, operation, slot.generation if slot is not slots.POSTED else 0)
        if submits:
            operation.slot = slot
        self._posted.append(posted)
        self.wake()  # also in the owner's thread: it may be about to block
        if submits and self._closed:
            try:
                self._posted.remove(posted)
            except ValueError:
                return  # `close` has it, and returns it
            operation.slot = None
            raise self._refusal()

    def _await_call(self, thread: int) -> None:
        """Wait until the call in the thread that the port belonged to has returned."""
        for _ in range(PATIENCE_STEPS):
            if not self._inside:
                return
            if self._inside == thread:
                break
            time.sleep(0.001)
        raise RuntimeError("wait() was called in the middle of another call of this port; it is the loop's to call")

    def _do_posted(self) -> None:
        while self._posted:
            posted = self._posted.popleft()
            operation = posted.operation
            try:
                if posted.submits:
                    self._submit_posted(operation)
                elif posted.generation in (0, operation.slot.generation if operation.slot is not None else 0):
                    self._cancel(operation)  # of this flight, not of one that began since
            except BaseException:
                self._posted.appendleft(posted)
                raise

    def _submit_posted(self, operation: Any) -> None:
        if operation.slot is not slots.POSTED:
            return  # begun before an exception was raised
        try:
            self._submit(operation)
        except MemoryError:
            operation.slot = slots.POSTED
            raise
        except Exception as exc:  # its caller has gone on
            operation.slot = slot = self._slots.take(operation)
            self._results.end(slot, OSError(errno.EINVAL, str(exc)))

    # Carrying it out

    def _submit(self, operation: Any) -> None:
        requests = self._requests
        tail = requests.ring.tail
        slot = self._slots.take(operation)
        operation.slot = slot  # before it is begun: a finalizer may cancel it in between
        try:
            slot.code = operation.code
            slot.fd = operation.fd
            if slot.fd > 0x7FFFFFFF:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            if self._results.again or requests.ring.space() < 4:
                self._results.again.append(slot)  # the queue is full, or others are waiting already
            else:
                requests.begin(slot)
        except OSError as exc:
            if exc.errno == errno.EEXIST and slot.code == operations.RECEIVE_FROM:
                self._results.again.append(slot)  # only the ring's own thread can register buffers: it moves
            else:
                self._results.end(slot, exc)
        except BaseException:
            requests.ring.take_back(tail)  # interpreted, a signal handler may raise after the request was queued
            operation.slot = None
            self._slots.give(slot)
            raise

    def _cancel(self, operation: Any) -> None:
        slot = operation.slot
        if slot is None or slot.operation is not operation:
            return
        slot.cancelled = True
        if self._drop(slot):
            return
        if self._requests.ring.space() < 1:
            self._enter(0, 0)
            self._harvest()
        if slot.operation is operation:
            self._requests.cancel(slot)
            self._enter(0, 0)
            self._harvest()
        for _ in range(ROUNDS):
            if slot.operation is not operation:
                return
            # A kernel thread is working on it, or a send on its way to one was not found (Linux 6.18): ask again.
            if self._requests.ring.space() > 0:
                self._requests.cancel(slot)
            self._enter(1, ROUND_NS)
            self._harvest()
            check_signals()

    def _refusal(self) -> BackendClosedError:
        return _refusals.closed("uring") if self._closed else child_error()

    def _drop(self, slot: Slot) -> bool:
        """End `slot` if the kernel has not seen it yet; return whether it was ended."""
        ring = self._requests.ring
        if not slot.asked:
            pass  # among those to be begun again, where it is skipped
        elif slot.position >= ring.consumed():
            for step in range(slot.requests):
                ring.blank(slot.position + step)
            if slot.code == operations.RECEIVE:
                self._requests.receives -= 1
        else:
            return False
        self._results.end(slot, _cancelled())
        return True

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        if self._closed or not self._life.is_here():
            raise self._refusal()
        limit = -1 if timeout is None else 0
        limit = to_ns(timeout) if timeout is not None and timeout > 0.0 else limit
        thread = get_ident()
        self._owner = thread
        if self._inside:
            self._await_call(thread)
        self._inside = thread
        try:
            if self._closed:
                raise self._refusal()
            self._wait(limit)
            done: list[Completion] = self._take()
        finally:
            self._inside = 0
            if self._closed:
                self._end()
        return done

    def _wait(self, limit: int) -> None:
        results = self._results
        deadline = now_ns() + limit if limit > 0 else 0
        if not results.watching:
            self._watch()
        while not self._closed:
            if self._posted:
                self._do_posted()
            if self._requests.streams is not None and self._requests.streams.returned:
                self._requests.streams.reclaim()
            if results.again:
                self._begin_again()
            if results.ends == 0 and results.done:
                self._count_awaited()
            blocks = limit != 0 and self._may_block()
            if blocks or not self._requests.ring.idle():
                self._enter(1 if blocks else 0, limit)
            self._harvest()
            if self._posted:
                self._do_posted()  # now, so that this wait returns the completions
            if results.ends or results.woken or limit == 0:
                return
            check_signals()
            if limit > 0:
                limit = deadline - now_ns()
                if limit <= 0:
                    return

    def _take(self) -> list[Completion]:
        """Hand out the completions."""
        results = self._results
        if results.woken:
            results.woken = False
            waker = self._waker
            # A live poll of an eventfd reports every further wake itself. Otherwise drain here, where a wake that is
            # drained too still ends this wait, and not where the next poll is submitted.
            if waker is not None and not (results.watching and waker.edges):
                waker.drain()
        done: list[Completion] = results.done
        for completion in done:
            if not completion[2]:
                operation = completion[0]
                operation.slot = None
        # Last: interpreted, a signal handler that raises before this line leaves it all for the next wait.
        results.ends = 0
        results.done = []
        return done

    def _count_awaited(self) -> None:
        """Let completions that did not end a wait do so, if the operation is awaited by now: it completes only once."""
        results = self._results
        for operation, _, _ in results.done:
            if not operation.quiet:
                results.ends += 1

    def _may_block(self) -> bool:
        """Whether nothing is there, or will be after the next `enter`, that ends the wait."""
        results = self._results
        if results.ends or results.woken or results.again:
            return False
        quiet = True
        for slot in self._requests.inline:
            if slot.operation is not None and not slot.operation.quiet:
                quiet = False
        return quiet

    def _enter(self, complete: int, limit: int) -> None:
        """Enter the kernel. The result is not returned: the queues have it."""
        code = self._requests.ring.enter(complete, limit)
        if code >= 0:
            return
        if code == -errno.EEXIST and self._pid == os.getpid():
            self._move()
        elif code not in (-errno.ETIME, -errno.EINTR, -errno.EAGAIN, -errno.EBUSY):
            raise OSError(-code, os.strerror(-code))

    def _harvest(self) -> None:
        """Take the completions from the queue, and those that did not fit into it."""
        requests = self._requests
        self._results.harvest(requests)
        while requests.ring.overflows():
            self._enter(0, 0)
            requests = self._requests
            self._results.harvest(requests)
        self._results.settle(requests)

    def _watch(self) -> None:
        if self._requests.ring.space() < 1:
            self._enter(0, 0)
            self._harvest()
        waker = self._waker
        if waker is not None:
            self._requests.watch(waker.fd)
            self._results.watching = True

    def _begin_again(self) -> None:
        pending = self._results.again
        self._results.again = []
        position = 0
        requests = self._requests
        tail = requests.ring.tail
        # Begin only as many receives that found no buffer as there is room for: most others would find none again.
        portions = self._requests.streams.portions() if self._requests.streams is not None else 0
        try:
            for slot in pending:
                if self._requests.ring.space() < 4:
                    self._results.again = self._results.again + pending[position:]
                    return
                position += 1
                if slot.operation is None or slot.asked:
                    continue  # it has ended; another operation may have the slot by now
                if slot.step == slots.STARVED:
                    if portions == 0:
                        self._results.again.append(slot)
                        continue
                    portions -= 1
                try:
                    self._requests.begin(slot)
                except OSError as exc:
                    if exc.errno == errno.EEXIST and slot.code == operations.RECEIVE_FROM:
                        self._move()
                        return
                    self._results.end(slot, exc)
                except Exception as exc:
                    self._results.end(slot, OSError(errno.EINVAL, str(exc)))
        except BaseException:
            # Interpreted, a signal handler may raise anywhere. Operations not or half begun keep their place.
            if self._requests is requests and requests.ring.take_back(tail):
                for slot in self._slots.living():
                    if slot.asked and slot.position >= tail:
                        slot.asked = False
                        self._results.again.append(slot)
            again = self._results.again
            self._results.again = [slot for slot in pending if not slot.asked and slot not in again] + again
            raise

    def _move(self) -> None:
        """Replace the ring, which belongs to another thread, by one of this thread."""
        old = self._requests
        old.ring.await_owner()
        self._results.harvest(old)
        self._results.settle(old)
        ring = Ring(self._without)
        try:
            self._requests = Requests(ring)
        except BaseException:
            ring.close()
            raise
        self._results.watching = False
        self._results.again = []
        consumed = old.ring.consumed()
        living = self._slots.living()
        kept = [slot.keep for slot in living if slot.asked and slot.position < consumed]
        if kept:
            abandoned.keep(old.ring, (old.streams, old.datagrams, kept))
        for slot in living:
            begun = slot.asked and slot.position < consumed
            slot.asked = False
            if slot.cancelled:
                self._results.end(slot, _cancelled())
            elif begun and (slot.code in _ONCE or status.moves_position(slot)) and slot.step != slots.BLOCKED:
                self._results.end(slot, _cancelled("the loop moved to another thread during the operation"))
            else:
                if begun and slot.code == operations.CONNECT:
                    slot.step = slots.CONNECTING
                self._results.again.append(slot)
        old.ring.close()  # memory that is lent stays readable
        abandoned.release(abandoned.LIMIT)
        self._watch()

    def wake(self) -> None:
        # A local reference: it keeps the descriptor alive while another thread closes the backend.
        with cython.critical_section(self):
            waker = self._waker
        if waker is not None:
            waker.wake()

    def close(self) -> Sequence[operations.Operation]:
        self._closed = True
        if self._inside and self._life.is_here():
            self.wake()
            return []
        self._end()
        return drain(self._unfinished)

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    def __del__(self) -> None:
        # A port that was never closed: the kernel would keep its descriptor and write to its memory.
        if getattr(self, "_has_ring", False):
            self.close()

    def _end(self) -> None:
        if not self._has_ring or not self._ending.acquire(False):
            return  # interpreted, another thread may run between any two steps
        self._has_ring = False
        with cython.critical_section(self):
            self._waker = None
        ring = self._requests.ring
        if self._pid == os.getpid():
            self._end_everything()
        for operation, result, more in self._take():
            if operation.code in (operations.ACCEPT, operations.OPEN) and isinstance(result, int):
                os.close(result)  # no other code has it
            elif operation.code == operations.CLOSE and result is None:
                operation.fd = -1  # it is closed, and the number may be another file's: it must not be closed again
            if not more:
                self._unfinished.append(operation)
        living = self._slots.living()
        kept = [slot.keep for slot in living]
        if kept and self._pid == os.getpid():
            abandoned.keep(ring, (self._requests.streams, self._requests.datagrams, kept))
        for slot in living:
            self._unfinished.append(slot.operation)
            slot.operation.slot = None
            self._slots.give(slot)
        while self._posted:
            posted = self._posted.popleft()
            if posted.submits:
                posted.operation.slot = None
                self._unfinished.append(posted.operation)
        ring.close()
        abandoned.release(0)

    def _end_everything(self) -> None:
        """Cancel what is in flight, and wait for its end, if this thread can."""
        for slot in self._slots.living():
            slot.cancelled = True
            self._drop(slot)
        ring = self._requests.ring
        if not ring.enabled or not self._slots.in_flight:
            return
        if ring.space() < 1 and ring.enter(0, 0) < 0:
            return
        for _ in range(ROUNDS):
            if ring.space() > 0:
                self._requests.cancel_all()  # again, as in `cancel`
            code = ring.enter(1, ROUND_NS)
            if code == -errno.EEXIST:
                ring.await_owner()
            self._results.harvest(self._requests)
            self._results.settle(self._requests)
            if not self._slots.in_flight or (code < 0 and code not in (-errno.ETIME, -errno.EINTR, -errno.EBUSY)):
                return


def _cancelled(why: str = "") -> OSError:
    return OSError(errno.ECANCELED, why or os.strerror(errno.ECANCELED))
