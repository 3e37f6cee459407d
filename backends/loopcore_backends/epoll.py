"""epoll(7): Linux's own multiplexer. One system call a wait, whose cost does not grow with idle descriptors.

What the kernel's table is keyed by
-----------------------------------
An epoll instance keeps a table inside the kernel, and `wait` asks which of its rows are ready. The key of
a row is a pair: the number of a descriptor, *and* the open file description behind it (created by open(2) or
socket(2); it holds the offset, the flags, the buffers). dup(2) and fork(2) make new numbers, or the same
number in another process, for the same description. Everything odd about epoll follows from this pair:

- A row is removed by EPOLL_CTL_DEL, or automatically when the *description* goes, which is when the last
  descriptor that refers to it is closed, in any process. Closing a number that has no copy is therefore enough;
  closing one that was duplicated, or that a forked child still holds, is not.
- Such a left-over row is still reported, under a number that is closed by now or means another file. It cannot
  be deleted either: EPOLL_CTL_DEL must name the pair, and the number no longer leads to that
  description (EBADF, ENOENT). We call that a ghost. The cure is to unregister first and close
  afterwards, which core does. If a program closes first, `unregister` succeeds as the port promises and
  remembers the number; when the ghost is reported, the instance is replaced by a new one that holds the
  registered descriptors. When a number is reused and registered before that, its events and its ghost's look
  the same. So now and then poll(2), which has no ghosts, is asked whether the events are true.
- A number that was closed and reused has no row, while our table still says "registered". The contract is
  about numbers, so that is right: `register` refuses it until it is unregistered, `modify` gives it a row again.
- The instance is itself a description. After a fork parent and child share one table: a child that
  unregisters removes the row from its parent's table. A child may only `close`, which gives up its copy of the
  number and touches no row.

Refused files
-------------
Only files that can report readiness can be watched. Regular files and directories cannot (EPERM):
reading them never fails with EAGAIN, it just takes its time.

Level, edge, and the waker
--------------------------
Registrations are level-triggered, as the port requires: an unread byte is reported by every wait. The waker alone
is edge-triggered, on an eventfd: each write is one edge, so a wake ends one wait and the counter need not be
read, which saves a system call a wake. Consequence: the edge is spent once epoll_wait(2) returned, even if
an exception from a signal handler then keeps the events from the caller. `wake` promised to end the
current wait, and did; but code that catches that exception should look for work before waiting again.

Facts: epoll(7), epoll_ctl(2), epoll_wait(2), eventfd(2). Threads: see `loopcore.ports.readiness`.
"""

import errno
import os
import select
from collections.abc import Sequence
from typing import Final

from loopcore.ports.direct import DirectPort
from loopcore.ports.readiness import Capability, ProbeResult, ReadyEvent
from loopcore_backends import _refusals
from loopcore_backends._settings import event_batch
from loopcore_backends._waker import REFUSED, Waker, make_waker

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore_backends.epoll import wait
else:
    from loopcore_backends._native.epoll import wait

MAX_EVENTS: Final = 1024
"""Events a wait returns at most. The kernel returns ready rows in rotation, so that the rest of a larger batch comes
first in the next wait and none starves; meanwhile the loop gets to its timers. 1024 need 12 KiB of
buffer, which select.epoll allocates for each call: small enough for malloc to reuse, never a fresh mapping."""

NOTES: Final = {
    errno.EPERM: (
        "epoll cannot watch a regular file or a directory, which are always ready: read it in a thread with "
        "loop.run_in_executor(), or use a backend that accepts it (backend='poll' or 'select')"
    ),
    errno.ENOSPC: "the limit of watches for one user is reached; see /proc/sys/fs/epoll/max_user_watches",
}

_AVAILABLE: Final = ProbeResult(True)
_WHO_FORBIDS: Final = "by seccomp or a security module; allow it there, or use backend='poll'"

FIRST_DOUBT: Final = 4
"""At which event of a number that may have a ghost the first check is made."""


class EpollBackend(DirectPort):
    """Readiness from epoll(7), whose bits are those of `loopcore.ports.interest`: they are passed on unchanged."""

    __slots__ = (
        "_waker", "_wake_fd", "_registered", "_interests", "_sift", "_ghosts", "_doubts", "_epoll", "_fd", "_batch",
        "_waiting", "_owner", "_is_closed",
    )  # fmt: skip

    name = "epoll"
    capabilities: frozenset[Capability] = frozenset({Capability.LARGE_DESCRIPTORS, Capability.FLAT_COST})
    backend_api = (1, 0)

    @classmethod
    def probe(cls) -> ProbeResult:
        """Report whether an instance can be made. Raises UsageError for an invalid LOOPCORE_EVENT_BATCH."""
        if not hasattr(select, "epoll"):
            return ProbeResult(False, "epoll(7) exists on Linux only; use kqueue, poll or select here")
        event_batch(None, MAX_EVENTS)
        try:
            select.epoll().close()
        except OSError as exc:
            if exc.errno in REFUSED:  # any other error, as a lack of descriptors, is the constructor's to raise
                return ProbeResult(False, f"epoll_create1(2) fails: {exc.strerror}, {_WHO_FORBIDS}")
        return _AVAILABLE

    def __init__(self, batch: int | None = None) -> None:
        """`batch`: the most events that a wait returns; default: LOOPCORE_EVENT_BATCH, or as many as fit."""
        self._batch: int = event_batch(batch, MAX_EVENTS)
        self._waker: Waker | None = make_waker()
        self._wake_fd: int = self._waker.fd
        self._registered: set[int] = set()
        self._interests: dict[int, int] = {}  # the last interest of each number, also of those no longer registered
        self._sift: bool = False  # the next events include some that are not for the caller
        self._ghosts: set[int] = set()  # numbers that were closed before they were unregistered
        self._doubts: dict[int, int] = {}  # ghosts' numbers that are registered again, with their counts of events
        self._epoll: select.epoll
        self._fd: int  # -1 when closed
        self._use(self._open(self._waker))
        self._waiting: bool = False
        self._owner: int = os.getpid()
        self._is_closed: bool = False

    def _use(self, instance: "select.epoll") -> None:
        """Wait in `instance` from now on."""
        number = instance.fileno()
        self._epoll = instance
        self._fd = number

    def _open(self, waker: Waker) -> "select.epoll":
        """Return a new instance that watches the waker."""
        made = select.epoll()
        made.register(waker.fd, select.EPOLLIN | (select.EPOLLET if waker.edges else 0))
        return made

    def register(self, fd: int, interest: int) -> None:
        if fd in self._registered:
            raise _refusals.registered_already(fd)
        try:
            self._epoll.register(fd, interest)
        except FileExistsError:
            if not isinstance(fd, int) or fd == self._wake_fd:
                raise
            # A row without a note: an exception in a signal handler came between the two, or the number was closed,
            # unregistered, and dup2(2) has given it the same description again.
            self._change_row(fd, interest)
        except OSError as exc:
            self._must_be_open()
            if exc.errno in NOTES:
                exc.add_note(NOTES[exc.errno])
            raise
        except (ValueError, OverflowError):
            self._must_be_open()
            raise _refusals.not_a_number_of_files(fd) from None
        self._interests[fd] = interest
        self._registered.add(fd)
        if fd in self._ghosts:
            self._ghosts.remove(fd)
            self._doubts[fd] = 0

    def modify(self, fd: int, interest: int) -> None:
        if fd not in self._registered:
            raise self._unknown(fd)
        try:
            self._change_row(fd, interest)
        except FileNotFoundError:
            self._watch_again(fd, interest)
        self._interests[fd] = interest

    def _change_row(self, fd: int, interest: int) -> None:
        try:
            self._epoll.modify(fd, interest)
        except (OSError, ValueError):
            self._must_be_open()
            raise

    def _watch_again(self, fd: int, interest: int) -> None:
        """Add a row for a number that was closed and reused: its registration survives until `unregister`.

        The old row may still be there, for an open copy of the descriptor.
        """
        if fd in self._registered:
            try:
                self._epoll.register(fd, interest)
            except (OSError, ValueError):
                self._must_be_open()
                raise
            self._doubts[fd] = 0
            self._sift = True
            if fd in self._registered:  # looked at last: another thread may unregister it at any moment
                return
            self._doubts.pop(fd, None)
            self._ghosts.add(fd)
            self._take_row(fd)
        raise self._unknown(fd) from None

    def unregister(self, fd: int) -> None:
        try:
            self._registered.remove(fd)
        except KeyError:
            raise self._unknown(fd) from None
        if self._waiting:  # by a finalizer, a signal handler or another thread: the kernel may have reported it already
            self._sift = True
        if self._doubts.pop(fd, None) is not None:
            self._ghosts.add(fd)  # still a ghost: the row that goes now is another file's
        self._take_row(fd)

    def _take_row(self, fd: int) -> None:
        try:
            self._epoll.unregister(fd)
        except ValueError:
            self._must_be_open()
            raise
        except OSError:
            self._must_be_open()
            # It was closed. Whether the error is EBADF, ENOENT, EPERM or EINVAL depends on what has the number now:
            # no file, another file, a regular file, or the epoll instance itself.
            self._ghosts.add(fd)
            self._sift = True

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        self._waiting = True
        try:
            if self._fd < 0:
                raise _refusals.closed("epoll")
            limit = -1.0 if timeout is None else timeout
            events: list[ReadyEvent] = wait(self, limit)
            if self._sift:
                events = self._sifted(events)
        finally:
            self._waiting = False
            if self._fd < 0:  # closed during the wait, by a finalizer or another thread
                self.close()
        if self._fd < 0:
            raise _refusals.closed("epoll")
        return events

    def _sifted(self, events: list[ReadyEvent]) -> list[ReadyEvent]:
        """Return `events` without the waker, ghosts, and descriptors that were unregistered during the wait."""
        # Lowered before the drain: a wake from now on raises it again; at worst the next wait sifts needlessly.
        self._sift = len(self._ghosts) > 0 or len(self._doubts) > 0
        waker = self._waker
        if waker is not None:
            if not waker.edges:
                waker.drain()
            if self._doubts:
                self._ghosts.update([fd for fd, _ in events if fd in self._doubts and self._is_haunted(fd)])
            if not self._ghosts.isdisjoint([fd for fd, _ in events]):
                events = [event for event in events if event[0] not in self._ghosts]
                self._replace(waker)
        return [event for event in events if event[0] in self._registered]

    def _is_haunted(self, fd: int) -> bool:
        """Tell whether the events of `fd` are a ghost's: the file that has the number now is not ready at all.

        The check is made at the fourth event, the eighth, the sixteenth: seldom, and before the ghost has been
        reported more often than the file was ready.
        """
        count = self._doubts.get(fd, 0) + 1
        if fd not in self._registered:
            return False  # unregistered by another thread just now
        self._doubts[fd] = count
        if count < FIRST_DOUBT or count & (count - 1):
            return False
        asked = select.poll()
        asked.register(fd, self._interests[fd])
        return not asked.poll(0)

    def _replace(self, waker: Waker) -> None:
        """Start again with a new instance, the only way to remove a ghost. Raises OSError if not all fits into it."""
        waker.drain()  # earlier wakes ended their waits; left undrained, they would be an edge for the new instance
        try:
            fresh = self._open(waker)
        except OSError:
            return  # no descriptor left for now: the ghost will be reported again, and the replacement tried again
        if self._fd < 0:  # closed in the meantime
            fresh.close()
            return
        haunted = self._epoll
        self._use(fresh)
        if self._is_closed:  # between the check and the assignment
            self._fd = -1
        haunted.close()
        refusal: OSError | None = None
        for fd in [*self._registered]:  # a finalizer may unregister
            try:
                fresh.register(fd, self._interests[fd])
                if fd not in self._registered:
                    self._take_row(fd)
            except OSError as exc:
                if exc.errno in (errno.ENOMEM, errno.ENOSPC):
                    refusal = exc
                # Otherwise it was closed and not yet unregistered: the old instance would not report it either.
        self._ghosts.clear()
        self._doubts.clear()
        if refusal is not None:
            try:
                raise refusal
            finally:
                del refusal  # its traceback refers to this frame

    def wake(self) -> None:
        # A local reference: it keeps the descriptor alive while another thread closes the backend.
        with cython.critical_section(self):
            waker = self._waker
        if waker is not None:
            # In this order. A flag set first could be used up by a wait that returns before the write.
            waker.wake()
            self._sift = True

    def close(self) -> None:
        self._is_closed = True
        self._fd = -1  # first: the error for a number that is then not in the table depends on it
        self._registered.clear()
        if self._waiting and os.getpid() == self._owner:
            self.wake()  # the epoll instance is closed when the wait under way has ended
        else:
            with cython.critical_section(self):
                self._waker = None
            self._epoll.close()

    def _unknown(self, fd: int) -> Exception:
        return _refusals.closed(self.name) if self._fd < 0 else _refusals.not_registered(fd)

    def _must_be_open(self) -> None:
        if self._fd < 0:
            raise _refusals.closed(self.name) from None
