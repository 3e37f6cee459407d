"""epoll(7): Linux's own multiplexer. One system call a wait, at a price that ignores idle descriptors.

What the kernel's table is keyed by
-----------------------------------
An epoll instance keeps a table inside the kernel, and `wait` asks which of its rows are ready. The key of
a row is a pair: the number of a descriptor, *and* the open file description behind it (what open(2) or
socket(2) made; it holds the offset, the flags, the buffers). dup(2) and fork(2) make new numbers, or the same
number in another process, for the same description. Everything odd about epoll follows from this pair:

- A row ends by EPOLL_CTL_DEL, or by itself when the *description* goes, which is when the last descriptor
  that refers to it is closed, in any process. Closing a number that has no copy is therefore enough;
  closing one that was duplicated, or that a forked child still holds, is not.
- Such a left-over row is still reported, under a number that is closed by now or means another file. It cannot
  be deleted either: EPOLL_CTL_DEL must name the pair, and the number no longer leads to that
  description (EBADF, ENOENT). We call that a ghost. The cure is to unregister first and
  close afterwards, which core does. If somebody else closed first, `unregister` succeeds as the port promises and
  remembers the number; when it is reported nevertheless, the instance is replaced by a new one that
  holds what is registered. A number that is reused and registered before that cannot be told from its ghost by
  its events. So poll(2), which knows nothing of ghosts, is asked now and then whether they are true.
- A number that was closed and reused has no row, while our table still says "registered". The contract is
  about numbers, so that is right: `register` refuses it until it is unregistered, `modify` makes it a row again.
- The instance is itself a description. After a fork parent and child share one table: a child that
  unregisters takes the row away from its parent. A child may only `close`, which gives up its copy of the number
  and touches no row.

What is refused
---------------
Only what can tell somebody that it became ready can be watched. Regular files and directories cannot (EPERM):
reading them never says "later", it just takes its time.

Level, edge, and the waker
--------------------------
Registrations are level-triggered, as the port wants it: an unread byte is reported by every wait. The waker alone
is edge-triggered, on an eventfd: each write is one edge, so a wake ends one wait and nobody needs to read the
counter, which saves a system call a wake. Consequence: the edge is spent once epoll_wait(2) returned, even if
an exception from a signal handler then keeps the events from the caller. `wake` promised an end to the
current wait and that happened, but whoever catches that exception should look for work before waiting again.

Facts: epoll(7), epoll_ctl(2), epoll_wait(2), eventfd(2). Threads: see `loopcore.backend`.
"""

import errno
import os
import select
from collections.abc import Sequence
from typing import Final

from loopcore.backend import Capability, ProbeResult, ReadyEvent
from loopcore.direct import DirectPort
from loopcore_backends import _refusals
from loopcore_backends._settings import event_batch
from loopcore_backends._waker import Waker, make_waker
from loopcore_backends.native.interpreted_epoll_wait import LONGEST, MAX_EVENTS

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore_backends.epoll import wait_again
    from cython.cimports.loopcore_backends.native.epoll_ctl import add_row, take_row
else:
    from loopcore_backends.native.interpreted_epoll_wait import wait_for_long

NOTES: Final = {
    errno.EPERM: (
        "epoll cannot watch a regular file or a directory, which are always ready: read it in a thread with "
        "loop.run_in_executor(), or use a backend that accepts it (backend='poll' or 'select')"
    ),
    errno.ENOSPC: "the limit of watches for one user is reached; see /proc/sys/fs/epoll/max_user_watches",
}

_AVAILABLE: Final = ProbeResult(True)

FIRST_DOUBT: Final = 4
"""Which event of a number that a ghost may have is the first to be looked into."""


class EpollBackend(DirectPort):
    """Readiness from epoll(7), whose bits are those of `loopcore.interest`: nothing is translated."""

    __slots__ = (
        "_waker", "_wake_fd", "_registered", "_sift", "_ghosts", "_doubts", "_epoll", "_fd", "_batch", "_events",
        "_waiting", "_owner",
    )  # fmt: skip

    name = "epoll"
    capabilities: frozenset[Capability] = frozenset({Capability.LARGE_DESCRIPTORS, Capability.FLAT_COST})
    backend_api = (1, 0)

    @classmethod
    def probe(cls) -> ProbeResult:
        """Say whether this platform has it. Raises UsageError for a wrong LOOPCORE_EVENT_BATCH."""
        if hasattr(select, "epoll"):
            event_batch(None, MAX_EVENTS)
            return _AVAILABLE
        return ProbeResult(False, "epoll(7) belongs to Linux; use kqueue, poll or select here")

    def __init__(self, batch: int | None = None) -> None:
        """`batch`: events that a wait brings at most; default: LOOPCORE_EVENT_BATCH, or what there is room for."""
        self._batch: int = event_batch(batch, MAX_EVENTS)
        self._waker: Waker | None = make_waker()
        self._wake_fd: int = self._waker.fd
        self._registered: dict[int, int] = {}
        self._sift: bool = False  # the next events hold something that is not for the caller
        self._ghosts: set[int] = set()  # numbers that were closed before they were unregistered
        self._doubts: dict[int, int] = {}  # of those, the numbers that are registered again: how many events each had
        self._epoll: select.epoll = self._open(self._waker)
        self._fd: int = self._epoll.fileno()  # -1 when closed
        self._waiting: bool = False
        self._owner: int = os.getpid()

    def __cinit__(self) -> None:
        # Compiled only, once in its life: a wait goes on without a reference of its own.
        self._events: list[ReadyEvent] = []

    def _open(self, waker: Waker) -> "select.epoll":
        """Return a new instance that watches the waker."""
        made = select.epoll()
        made.register(waker.fd, select.EPOLLIN | (select.EPOLLET if waker.edges else 0))
        return made

    def register(self, fd: int, interest: int) -> None:
        if fd in self._registered:
            raise _refusals.registered_already(fd)
        try:
            if not cython.compiled or not add_row(self._fd, fd, interest):
                self._epoll.register(fd, interest)
        except FileExistsError:
            if not isinstance(fd, int) or fd == self._wake_fd:
                raise
            # A row that is not noted: an exception in a signal handler came between the two, or the number was closed,
            # unregistered, and is by dup2(2) once more what it was.
            self._epoll.modify(fd, interest)
        except OSError as exc:
            if exc.errno in NOTES:
                exc.add_note(NOTES[exc.errno])
            raise
        except (ValueError, OverflowError):
            raise self._refusal(fd) from None
        self._registered[fd] = interest
        if fd in self._ghosts:
            self._ghosts.remove(fd)
            self._doubts[fd] = 0

    def modify(self, fd: int, interest: int) -> None:
        if fd not in self._registered:
            raise self._unknown(fd)
        try:
            self._epoll.modify(fd, interest)
        except FileNotFoundError:
            # The number was closed and reused: a registration survives until `unregister`, so it gets a row again. The
            # old one may still be there, for a copy of the descriptor that is open.
            self._epoll.register(fd, interest)
            self._doubts[fd] = 0
            self._sift = True
        self._registered[fd] = interest

    def unregister(self, fd: int) -> None:
        if self._registered.pop(fd, None) is None:
            raise self._unknown(fd)
        if self._waiting:  # by a finalizer, a signal handler or another thread: the kernel may have told of it already
            self._sift = True
        if self._doubts.pop(fd, None) is not None:
            self._ghosts.add(fd)  # still: it was another file's row that goes now
        try:
            if not cython.compiled or not take_row(self._fd, fd):
                self._epoll.unregister(fd)
        except OSError:
            # It was closed. Whether EBADF, ENOENT, EPERM or EINVAL depends on who has the number now: nobody,
            # somebody, a regular file, or the epoll instance itself.
            self._ghosts.add(fd)
            self._sift = True

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        self._waiting = True
        try:
            if self._fd < 0:
                raise _refusals.closed("epoll")
            if cython.compiled:
                events: list[ReadyEvent] = wait_again(self, -1.0 if timeout is None else timeout)
            elif timeout is not None and timeout > LONGEST:
                events = wait_for_long(self._epoll, timeout, self._batch)
            else:
                events = self._epoll.poll(timeout, self._batch)
            if self._sift:
                events = self._sifted(events)
        finally:
            self._waiting = False
            if self._fd < 0:  # perhaps meanwhile, by a finalizer or another thread
                self.close()
        if self._fd < 0:
            raise _refusals.closed("epoll")
        return events

    def _sifted(self, events: list[ReadyEvent]) -> list[ReadyEvent]:
        """Return `events` without the waker, ghosts, and what was unregistered inside the wait."""
        # Lowered before the drain: a wake from now on raises it again, and at worst the next wait sifts in vain.
        self._sift = bool(self._ghosts or self._doubts)
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

        It is asked at the fourth event, the eighth, the sixteenth: seldom, and before a ghost has come more often
        in vain than that file was ready.
        """
        count = self._doubts.get(fd, 0) + 1
        interest = self._registered.get(fd)
        if interest is None:
            return False  # unregistered by another thread in this moment
        self._doubts[fd] = count
        if count < FIRST_DOUBT or count & (count - 1):
            return False
        asked = select.poll()
        asked.register(fd, interest)
        return not asked.poll(0)

    def _replace(self, waker: Waker) -> None:
        """Start afresh with a new instance, the only way to be rid of a ghost."""
        waker.drain()  # what is left of earlier wakes, which ended their waits, would be an edge for a new watcher
        try:
            fresh = self._open(waker)
        except OSError:
            return  # no descriptor left for it now: the ghost shows itself again, and so does this chance
        if self._fd < 0:  # closed meanwhile
            fresh.close()
            return
        haunted = self._epoll
        self._epoll = fresh
        self._fd = fresh.fileno()
        haunted.close()
        for fd in [*self._registered]:  # a finalizer may unregister
            try:
                fresh.register(fd, self._registered[fd])
            except (OSError, KeyError):
                pass  # closed and not yet unregistered: the old instance would not report it either
        self._ghosts.clear()
        self._doubts.clear()

    def wake(self) -> None:
        # A local reference: it keeps the descriptor alive while another thread closes the backend.
        waker = self._waker
        if waker is not None:
            # In this order. The flag first could be spent by a wait that the write has not reached.
            waker.wake()
            self._sift = True

    def close(self) -> None:
        self._registered.clear()
        self._fd = -1
        if self._waiting and os.getpid() == self._owner:
            self.wake()  # what the kernel has of the wait that is under way is closed when that has ended
        else:
            self._waker = None
            self._epoll.close()

    def _unknown(self, fd: int) -> Exception:
        return _refusals.closed(self.name) if self._fd < 0 else _refusals.not_registered(fd)

    def _refusal(self, fd: int) -> Exception:
        return _refusals.closed(self.name) if self._fd < 0 else _refusals.not_a_number_of_files(fd)
