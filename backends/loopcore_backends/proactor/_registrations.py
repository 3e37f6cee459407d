"""Registrations: which descriptors the multiplexer watches, and when that changes.

The table changes only before a wait, so that interest that comes and goes in between costs nothing. One exception: when
the last operation of a descriptor is cancelled, or ends with an error or the end of a stream, the registration is
removed at once, because the descriptor is about to be closed. A descriptor that has become idle otherwise stays
registered for a few waits (GRACE), because a task that has read once will read again. Two things follow. It may fire
with no operation in flight: then it is dropped. And it may be closed and its number reused: so the registration of a
descriptor that has been idle is *modified* when it is used again, which by the readiness port's contract survives that.
"""

import errno
from collections import OrderedDict
from typing import Final

from loopcore.ports.interest import READ
from loopcore.ports.readiness import ReadinessBackend
from loopcore_backends.proactor._associations import Association

GRACE: Final = 8
"""Waits for which an idle descriptor stays registered: the task that read from it resumes in the next tick, sends in
the one after that, and then reads again."""


class Registrations:
    """The associations of a port, by descriptor, and their registrations with `multiplexer`. Thread: the loop's own."""

    __slots__ = ("table", "refused", "_multiplexer", "_dirty", "_idle", "_waits")

    def __init__(self, multiplexer: ReadinessBackend) -> None:
        self.table: dict[int, Association] = {}
        self.refused: list[tuple[Association, OSError | None]] = []
        """Associations that could not be registered, with the error, or None if the descriptor is always ready and
        cannot be watched. The port removes them."""
        self._multiplexer: ReadinessBackend = multiplexer
        self._dirty: list[Association] = []
        """The associations whose registration may have to change before the next wait."""
        self._idle: OrderedDict[Association, None] = OrderedDict()
        """Associations that became idle and stay registered for a while; some may be in use again. Oldest first."""
        self._waits: int = 0

    def associate(self, fd: int) -> Association:
        """Return the association of `fd`, made if there is none. Raises OSError if `fd` is not an open descriptor."""
        association = self.table.get(fd)
        if association is None:
            try:
                association = Association(fd)
            except OverflowError:
                raise OSError(errno.EBADF, f"descriptor {fd} is larger than the number of any open file") from None
            self.table[fd] = association
            self.note(association)
        elif association.is_idle():
            association.rested = -1
            association.suspect = True
            association.is_same_file()
            self.note(association)
        return association

    def note(self, association: Association) -> None:
        """Update the registration of `association` before the next wait."""
        if not association.dirty:
            self._dirty.append(association)
            association.dirty = True

    def update(self) -> None:
        """Register with the multiplexer what the operations wait for, and drop descriptors that have long been idle.

        Call once before each wait; see `refused`.
        """
        self._waits += 1
        dirty = self._dirty
        while dirty:
            place = len(dirty) - 1
            association = dirty[place]
            association.dirty = False  # first: what a finalizer submits meanwhile is noted behind this one
            self._adjust(association)
            del dirty[place]
        idle = self._idle
        while idle:
            oldest = next(iter(idle))
            if oldest.rested > self._waits - GRACE:
                break
            del idle[oldest]
            if oldest.rested >= 0:
                self.drop(oldest)

    def drop(self, association: Association) -> None:
        """Drop an idle descriptor."""
        association.rested = -1
        if self.table.get(association.fd) is association:
            del self.table[association.fd]
        association.forget_socket()
        if association.registered:
            association.registered = 0
            self._multiplexer.unregister(association.fd)

    def clear(self) -> None:
        """Drop all. Nothing is unregistered: in a forked child that would change the parent's table."""
        table, self.table = self.table, {}
        self.refused = []
        self._dirty = []
        self._idle = OrderedDict()
        for association in table.values():
            association.forget_socket()

    def _adjust(self, association: Association) -> None:
        fd = association.fd
        if self.table.get(fd) is not association:
            return  # it was dropped
        wanted = association.wanted()
        if not wanted:
            self._let_rest(association)
            return
        if wanted == association.registered and not association.suspect:
            return
        try:
            if association.registered:
                self._multiplexer.modify(fd, wanted)
            else:
                self._watch(fd, wanted)
        except PermissionError:
            # epoll(7)'s error for a file that cannot report readiness.
            association.unwatchable = True
            self.refused.append((association, None))
        except OSError as exc:
            self.refused.append((association, exc))
        except (ValueError, OverflowError) as exc:
            self.refused.append((association, OSError(errno.EINVAL, str(exc))))
        else:
            association.registered = wanted
            association.suspect = False

    def _watch(self, fd: int, wanted: int) -> None:
        try:
            self._multiplexer.register(fd, wanted)
        except FileExistsError:
            # An exception in a signal handler came between a registration and its note.
            self._multiplexer.modify(fd, wanted)

    def _let_rest(self, association: Association) -> None:
        """Keep an idle association for a while, unless it would fire all the time."""
        if association.registered & ~READ:
            self.drop(association)
        elif association.rested < 0:
            self._idle[association] = None
            self._idle.move_to_end(association)  # it may be there from an earlier idle period
            association.rested = self._waits
