"""Knotes: what a kqueue waits for. Each says which descriptor Linux tells its state by, and what its events say."""

import ctypes
import errno
import os
import select
import stat
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.backends.fake_kqueue import descriptors
from tests.backends.fake_kqueue.dialects import Dialect
from tests.backends.fake_kqueue.records import EV_CLEAR, EV_DISABLE, EV_EOF, EV_ONESHOT, NOTE_EXIT, kevent

CLOCK_MONOTONIC: Final = 1
MILLISECOND_NS: Final = 1_000_000

Report = tuple[int, int, int]
"""Flags, fflags and data of an event."""


@dataclass(eq=False)
class Knote(ABC):
    """What EV_ADD makes; `source` is the descriptor whose state is its own, `owned` if nobody else has it."""

    change: kevent
    source: int
    identity: descriptors.Identity | None
    bits: int
    owned: bool = False
    enabled: bool = True
    muted: bool = False
    """Reported by epoll for what is nothing to a kqueue: only an edge counts from there on."""
    polled: bool = False
    """Regular files, which epoll refuses: their state is looked up."""

    def row(self) -> int:
        edge = select.EPOLLET if self.muted or (self.change.flags & EV_CLEAR and not self.owned) else 0
        return self.bits | edge

    def is_current(self) -> bool:
        """Tell whether the number is still that of the file."""
        return self.owned or descriptors.identify(self.source) == self.identity

    @abstractmethod
    def report(self, bits: int) -> Report | None:
        """Return what there is to tell, None if nothing."""

    def discard(self) -> None:
        if self.owned:
            os.close(self.source)


class Reading(Knote):
    """READ."""

    def report(self, bits: int) -> Report | None:
        mode = os.fstat(self.source).st_mode
        if self.polled:
            if not stat.S_ISREG(mode):
                return 0, 0, 0
            left = os.fstat(self.source).st_size - os.lseek(self.source, 0, os.SEEK_CUR)
            return (0, 0, left) if left else None
        if descriptors.is_unconnected(mode, bits):
            return None
        ended = EV_EOF if bits & descriptors.ENDED else 0
        return (
            ended,
            descriptors.likely_error(self.source, mode, bits, self.bits),
            descriptors.to_read(self.source, mode),
        )


class Writing(Knote):
    """WRITE."""

    def report(self, bits: int) -> Report | None:
        if self.polled:
            return 0, 0, 0
        mode = os.fstat(self.source).st_mode
        if descriptors.is_unconnected(mode, bits):
            return None
        ended = bits & (select.EPOLLHUP | select.EPOLLERR) or descriptors.has_finished_sending(self.source, mode)
        if not ended and not bits & select.EPOLLOUT:
            return None  # RDHUP alone, which is asked for to know a socket that never was connected
        error = descriptors.likely_error(self.source, mode, bits, self.bits)
        return EV_EOF if ended else 0, error, descriptors.to_write(self.source, mode)


class Exit(Knote):
    """PROC with NOTE_EXIT, by pidfd_open(2). Fires once."""

    def report(self, bits: int) -> Report | None:
        try:
            found = os.waitid(os.P_PIDFD, self.source, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            found = None  # reaped, or not ours
        status = 0 if found is None else found.si_status << 8 if found.si_code == os.CLD_EXITED else found.si_status
        return EV_EOF | EV_ONESHOT, NOTE_EXIT, status


class Timer(Knote):
    """TIMER, by timerfd_create(2): every `data` milliseconds; tells how many have passed."""

    def report(self, bits: int) -> Report | None:
        return EV_CLEAR, 0, struct.unpack("Q", os.read(self.source, 8))[0]


class User(Knote):
    """USER, by eventfd(2): fires when a change says NOTE_TRIGGER."""

    def report(self, bits: int) -> Report | None:
        if self.change.flags & EV_CLEAR:
            os.eventfd_read(self.source)
        return 0, 0, 0

    def trigger(self) -> None:
        os.eventfd_write(self.source, 1)


def make_knote(change: kevent, dialect: Dialect) -> Knote:
    """Return a knote for `change`. Raises the OSError that EV_ADD fails with."""
    makers: dict[int, Callable[[kevent, Dialect], Knote]] = {
        dialect.filters["READ"]: _reading,
        dialect.filters["WRITE"]: _writing,
        dialect.filters["PROC"]: _exit,
        dialect.filters["TIMER"]: _timer,
        dialect.user_filter: lambda change, _: _owned(User, change, os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)),
    }
    maker = makers.get(change.filter)
    if maker is None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    knote = maker(change, dialect)
    knote.enabled = not change.flags & EV_DISABLE
    return knote


def _reading(change: kevent, dialect: Dialect) -> Knote:
    return _of_file(Reading, change, select.EPOLLIN | descriptors.RDHUP, dialect)


def _writing(change: kevent, dialect: Dialect) -> Knote:
    if dialect.broken_pipe and descriptors.has_lost_its_reader(change.ident, os.fstat(change.ident).st_mode):
        raise OSError(dialect.broken_pipe, os.strerror(dialect.broken_pipe))
    return _of_file(Writing, change, select.EPOLLOUT | descriptors.RDHUP, dialect)


def _of_file(kind: type[Knote], change: kevent, bits: int, dialect: Dialect) -> Knote:
    try:
        mode = os.fstat(change.ident).st_mode
    except OverflowError:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF)) from None
    device = stat.S_ISCHR(mode) and not os.isatty(change.ident)
    if device and dialect.device:
        raise OSError(dialect.device, os.strerror(dialect.device))
    knote = kind(change, change.ident, descriptors.identify(change.ident), bits)
    knote.polled = device or stat.S_ISREG(mode) or stat.S_ISDIR(mode)
    return knote


def _exit(change: kevent, dialect: Dialect) -> Knote:
    pidfd = os.pidfd_open(change.ident)
    if dialect.zombie and select.select((pidfd,), (), (), 0)[0]:
        os.close(pidfd)
        raise OSError(dialect.zombie, os.strerror(dialect.zombie))
    return _owned(Exit, change, pidfd)


def _timer(change: kevent, dialect: Dialect) -> Knote:
    libc: Any = ctypes.CDLL(None, use_errno=True)
    source = libc.timerfd_create(CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
    seconds, milliseconds = divmod(max(change.data, 1), 1000)
    first = (seconds, milliseconds * MILLISECOND_NS)
    period = (0, 0) if change.flags & EV_ONESHOT else first
    libc.timerfd_settime(source, 0, struct.pack("4q", *period, *first), None)
    return _owned(Timer, change, source)


def _owned(kind: type[Knote], change: kevent, source: int) -> Knote:
    return kind(change, source, descriptors.identify(source), select.EPOLLIN, owned=True)
