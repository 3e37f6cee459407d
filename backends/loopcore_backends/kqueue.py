"""kqueue(2): the multiplexer of macOS and the BSDs. One system call a wait, whose cost ignores idle descriptors.

What the kernel's table is keyed by
-----------------------------------
A kqueue holds knotes, and the key of a knote is a pair: an identifier, here the number of a descriptor, and a *filter*,
the kind of event that is waited for. So reading and writing are two knotes that are added, deleted and fire
separately. A wait may report both, one event each, and we join them. What follows from the pair:

- A knote is removed by EV_DELETE, or automatically when the *number* is closed, whatever other descriptors refer to
  the file, so ghosts as in epoll cannot occur. `unregister` therefore treats ENOENT and EBADF as "gone already".
- A number that was closed and reused has no knotes, while our table still says "registered". The contract is about
  numbers, so `modify` adds every filter that is wanted, not only the new ones. Adding twice is harmless.
- A change that fails is an event flagged EV_ERROR while there is room for events, and otherwise the error of the call,
  which then stops there. We leave no room, so that `register` can raise; when a call of several changes has failed,
  they are made one by one. Waits carry no changes: one that is resumed after a signal repeats none.

What events mean
----------------
EV_EOF means that this direction has ended. For READ the peer has finished sending, which the reader will find out; for
WRITE the reading end is gone, which is a HANGUP too. The error of a connection comes in `fflags`, which we check
first: nonzero is an ERROR. The port carries no number and needs none, as the kernel keeps SO_ERROR for the caller.

Descriptors that are always ready
---------------------------------
poll(2) and select(2) always report some descriptors as ready. A kqueue fires for a regular file only until its end,
refuses some devices (/dev/null, depending on the system), and refuses to watch a pipe for writing that has lost its
reader (EPIPE). Descriptors without a knote are noted here, and every wait reports them. But a terminal that is refused,
as by some versions of macOS, is an error: it is not always ready, and reporting it would spin.

The waker is that of the other backends, a pair of sockets (docs/adr/0008). After a fork the child has no
kqueue: see `close`.

Facts: kqueue(2) of FreeBSD, macOS, OpenBSD and NetBSD. Threads: see `loopcore.ports.readiness`.
"""

import errno
import os
import select as _select
import stat
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore.ports.readiness import Capability, ProbeResult, ReadyEvent
from loopcore_backends import _refusals
from loopcore_backends._settings import event_batch
from loopcore_backends._waker import FlaggedWaker

select: Final[Any] = _select  # mypy checks as on Linux, where select has no kqueue

EV_ADD: Final = 0x0001
EV_DELETE: Final = 0x0002
EV_ERROR: Final = 0x4000
EV_EOF: Final = 0x8000
"""The same on every system; the numbers of filters are not."""

MAX_EVENTS: Final = 512
"""Events a wait returns at most. The kernel returns ready knotes in rotation, so that the rest comes first in the next
wait. select.kqueue allocates 64 bytes (FreeBSD) for each of them in each call: 32 KiB."""

LONGEST: Final = 24 * 3600.0
"""Seconds that every system accepts; some raise EINVAL above 100,000,000. A longer wait ends then, with no event."""

_inherited: Final[list[object]] = []
"""A parent's kqueue objects, whose numbers mean nothing here; kept, because deallocation would close the number."""


def ready_for(direction: int, flags: int, fflags: int) -> int:
    """Translate an event of the filter for `direction`, READ or WRITE, into what the descriptor is ready for."""
    if flags & EV_ERROR:
        return ERROR
    if not flags & EV_EOF:
        return direction
    ended = direction | HANGUP if direction == WRITE else direction
    return ended | ERROR if fflags else ended


class KqueueBackend:
    """Readiness from kqueue(2)."""

    name: str = "kqueue"
    capabilities: frozenset[Capability] = frozenset(
        {Capability.REGULAR_FILES, Capability.LARGE_DESCRIPTORS, Capability.FLAT_COST}
    )
    backend_api = (1, 0)

    @classmethod
    def probe(cls) -> ProbeResult:
        """Report whether this platform has kqueue. Raises UsageError for an invalid LOOPCORE_EVENT_BATCH."""
        if hasattr(select, "kqueue"):
            event_batch(None, MAX_EVENTS)
            return ProbeResult(True)
        return ProbeResult(False, "kqueue(2) exists on macOS and the BSDs only; use epoll, poll or select here")

    def __init__(self, batch: int | None = None) -> None:
        """`batch`: the most events that a wait returns; default: LOOPCORE_EVENT_BATCH, or as many as fit."""
        self._batch = event_batch(batch, MAX_EVENTS)
        self._filters: dict[int, int] = {READ: select.KQ_FILTER_READ, WRITE: select.KQ_FILTER_WRITE}
        self._directions = {number: direction for direction, number in self._filters.items()}
        self._registered: set[int] = set()
        self._interests: dict[int, int] = {}  # the last interest of each number, also of those no longer registered
        self._always: dict[int, int] = {}  # reported by every wait, without asking the kernel
        self._waker = FlaggedWaker()
        self._owner = os.getpid()
        self._kqueue = select.kqueue()
        self._control: Callable[..., list[Any]] = self._kqueue.control
        self._change(self._waker.fd, READ, EV_ADD)

    def register(self, fd: int, interest: int) -> None:
        self._must_be_open()
        if fd in self._registered:
            raise _refusals.registered_already(fd)
        if fd < 0:
            raise _refusals.not_a_number_of_files(fd)
        self._watch(fd, interest)
        self._interests[fd] = interest
        self._registered.add(fd)

    def modify(self, fd: int, interest: int) -> None:
        self._must_be_open()
        if fd not in self._registered:
            raise self._unknown(fd)
        before = self._interests[fd]
        if fd in self._always or not self._adjust(fd, before, interest):
            self._unwatch(fd, before | interest)
            self._watch(fd, interest)
        self._interests[fd] = interest
        if fd not in self._registered:  # looked at last: another thread may unregister it at any moment
            self._unwatch(fd, before | interest)
            raise self._unknown(fd)

    def unregister(self, fd: int) -> None:
        self._must_be_open()
        try:
            self._registered.remove(fd)
        except KeyError:
            raise self._unknown(fd) from None
        self._unwatch(fd, self._interests[fd])
        self._waker.disturb()

    def _adjust(self, fd: int, before: int, interest: int) -> bool:
        """Change the knotes of `fd` in one call; return whether that worked."""
        additions = [select.kevent(fd, number, EV_ADD) for bit, number in self._filters.items() if interest & bit]
        gone = before & ~interest
        deletions = [select.kevent(fd, number, EV_DELETE) for bit, number in self._filters.items() if gone & bit]
        try:
            self._apply(additions + deletions)
        except OSError:
            return False
        return True

    def _apply(self, changes: Sequence[Any]) -> None:
        try:
            self._control(changes, 0, 0)
        except ValueError:
            self._must_be_open()  # closed by another thread, or by a finalizer, since this call began
            raise

    def _watch(self, fd: int, interest: int) -> None:
        """Add knotes for `interest`, one by one, and note directions that have no knote. All or nothing."""
        try:
            mode = os.fstat(fd).st_mode
        except OverflowError:
            raise _refusals.not_a_number_of_files(fd) from None
        always = interest if stat.S_ISREG(mode) else 0
        for bit in self._filters:
            if interest & bit & ~always:
                try:
                    self._change(fd, bit, EV_ADD)
                except OSError as exc:
                    if exc.errno == errno.EPIPE:
                        always |= bit | HANGUP
                    elif exc.errno != errno.EBADF and stat.S_ISCHR(mode) and not os.isatty(fd):
                        always |= bit
                    else:
                        self._unwatch(fd, interest)
                        raise
        if always:
            self._always[fd] = always

    def _unwatch(self, fd: int, interest: int) -> None:
        """Delete the knotes for `interest`, whether they exist or not."""
        always = self._always.pop(fd, 0)
        for bit in self._filters:
            if interest & bit & ~always:
                try:
                    self._change(fd, bit, EV_DELETE)
                except OSError:
                    pass  # EBADF: closed; ENOENT: the number belongs to another file by now. The knote is gone

    def _change(self, fd: int, direction: int, flags: int) -> None:
        self._apply((select.kevent(fd, self._filters[direction], flags),))

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        if self._always:
            timeout = 0.0
        elif timeout is not None and timeout > LONGEST:
            timeout = LONGEST
        # select.kqueue.control rounds up to whole nanoseconds itself.
        ready = dict(self._always)
        waker = self._waker
        waker.waiting = True
        try:
            events = self._control(None, self._batch, timeout)
        finally:
            waker.waiting = False
            if waker.closed:  # during the wait, by a finalizer or another thread
                self._give_back()
        for event in events:
            fd = event.ident
            ready[fd] = ready.get(fd, 0) | ready_for(self._directions[event.filter], event.flags, event.fflags)
        if waker.raised or waker.fd in ready:  # readable a moment before the waking thread raises the flag
            self._must_be_open()
            waker.absorb()
            return [event for event in ready.items() if event[0] in self._registered]
        return list(ready.items())

    def wake(self) -> None:
        self._waker.wake()

    def close(self) -> None:
        """Release the backend's own descriptors. In a forked child the kqueue is not one: it is not inherited.

        Its number is free there, or by now another file's, which the object must not close; Python itself handles
        this only from 3.11.8 and 3.12.2 on (gh-110395).
        """
        if self._waker.closed:
            return
        self._control = _refuse  # first: a wait that begins after the next line could not be woken
        self._waker.close()
        self._registered.clear()
        self._always.clear()
        if os.getpid() != self._owner:
            _inherited.append(self._kqueue)
        elif not self._waker.is_in_use():
            self._kqueue.close()

    def _give_back(self) -> None:
        """Do the part of `close` that had to wait for the end of the wait under way."""
        self._waker.close()
        if os.getpid() == self._owner:
            self._kqueue.close()

    def _unknown(self, fd: int) -> Exception:
        return _refusals.closed(self.name) if self._waker.closed else _refusals.not_registered(fd)

    def _must_be_open(self) -> None:
        if self._waker.closed:
            raise _refusals.closed(self.name)


def _refuse(*_: object) -> NoReturn:
    raise _refusals.closed("kqueue")
