"""`kqueue`: changes are applied, then what is ready is gathered from the channels, or waited for."""

import errno
import math
import os
import select
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from threading import RLock
from time import monotonic
from typing import Any, ClassVar, Final

from tests.backends.fake_kqueue.channel import Channel
from tests.backends.fake_kqueue.descriptors import RDHUP, identify
from tests.backends.fake_kqueue.dialects import DIALECTS, Dialect
from tests.backends.fake_kqueue.faults import Faults, failed
from tests.backends.fake_kqueue.knotes import Knote, User, make_knote
from tests.backends.fake_kqueue.records import (
    EV_ADD,
    EV_CLEAR,
    EV_DELETE,
    EV_DISABLE,
    EV_DISPATCH,
    EV_ENABLE,
    EV_EOF,
    EV_ERROR,
    EV_ONESHOT,
    EV_RECEIPT,
    NOTE_EXIT,
    NOTE_TRIGGER,
    kevent,
)

LONGEST_SLICE: Final = 1e6
"""Seconds that poll(2) takes."""
FILE_INTERVAL: Final = 0.01
"""Seconds after which the size of a regular file is looked up again."""
LONGEST_TIMEOUT: Final = 2.0**63 / 1e9
"""Seconds that fit the nanoseconds of `select.kqueue.control`."""

OWNED: Final = 0
"""The channel of knotes with a descriptor of their own; the others are named by what they ask of epoll."""

_open: "weakref.WeakSet[kqueue]" = weakref.WeakSet()


class kqueue:
    """As `select.kqueue`."""

    dialect: ClassVar[Dialect] = DIALECTS["freebsd"]
    faults: ClassVar[Faults] = Faults()

    def __init__(self) -> None:
        self.closed = False
        self._lost = False  # in a forked child
        self._lock = RLock()  # of the tables: one thread may change them while another waits
        self._busy = False  # the thread that holds the lock is at work on the tables
        self._posted: deque[list[kevent]] = deque()
        self._outer = select.epoll()
        self._number = self._outer.fileno()
        self._channels = {group: Channel() for group in (select.EPOLLIN, select.EPOLLOUT, OWNED)}
        self._polled: dict[tuple[int, int], Knote] = {}
        self._knotes: dict[tuple[int, int], Knote] = {}
        _open.add(self)

    def fileno(self) -> int:
        self._must_be_open()
        # Now only: Linux lets no more than 500 descriptors of one file be watched by instances that are nested.
        for channel in self._channels.values():
            channel.nest(self._outer)
        return self._number

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            if self._lost:
                os.close(self._number)  # whoever has it by now: the object knows no better
            else:
                with self._lock:  # as in the kernel, a change that another thread makes is over first
                    self._release()

    def __del__(self) -> None:
        try:
            self.close()
        except OSError:
            pass  # as CPython's deallocator ignores it

    def _release(self) -> None:
        for knote in self._knotes.values():
            knote.discard()
        self._knotes.clear()
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
        self._outer.close()

    def lose(self) -> None:
        """In a forked child: the descriptor is not inherited."""
        if not self.closed and not self._lost:
            self._lost = True
            self._release()

    def control(
        self, changelist: Iterable[kevent] | None, max_events: int, timeout: float | None = None, /
    ) -> list[kevent]:
        self._must_be_open()
        if max_events < 0:
            raise ValueError(f"Length of eventlist must be 0 or positive, got {max_events}")
        if timeout is not None:
            _check_timeout(timeout, self.dialect)
        if self._lost:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        failures = self._change(list(changelist or ()), max_events)
        if failures or not max_events:
            return failures
        return self._wait(self.faults.room(max_events), timeout)

    def _must_be_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed kqueue object")

    def _change(self, changes: list[kevent], room: int) -> list[kevent]:
        """Apply `changes`; post them if a finalizer or a signal handler makes them in the middle of other work."""
        with self._lock:
            self._must_be_open()
            if self._busy:
                self._posted.append(changes)
                return []
            return self._undisturbed(partial(self._apply, changes, room))

    def _undisturbed(self, work: Callable[[], Iterable[kevent]]) -> list[kevent]:
        """Apply what was posted, then do `work`. Each is one step, as in the kernel, where no Python runs."""
        self._busy = True
        try:
            while self._posted:
                with suppress(OSError):  # the call has already returned success
                    self._apply(self._posted.popleft(), 0)
            return list(work())
        finally:
            self._busy = False

    def _apply(self, changes: list[kevent], room: int) -> list[kevent]:
        """Apply `changes` in order; return the failures, or raise the first for which there is no room."""
        told: list[kevent] = []
        for change in changes:
            problem = self.faults.refusal(change)
            if problem is None:
                try:
                    self._apply_one(change)
                except OSError as exc:
                    problem = exc
            if problem is None and not change.flags & EV_RECEIPT:
                continue
            if len(told) < room:
                told.append(failed(change, problem))
            elif problem is not None:
                raise problem
        return told

    def _apply_one(self, change: kevent) -> None:
        key = change.ident, change.filter
        names_a_file = change.filter in (self.dialect.filters["READ"], self.dialect.filters["WRITE"])
        if names_a_file and (change.ident > 0x7FFFFFFF or identify(change.ident) is None):
            self._drop(key)
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        knote = self._knotes.get(key)
        if knote is not None and not knote.is_current():
            self._drop(key)
            knote = None
        if knote is None:
            if not change.flags & EV_ADD:
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
            self._knotes[key] = knote = make_knote(change, self.dialect)
        elif change.flags & EV_DELETE:
            self._drop(key)
            return
        elif change.flags & EV_ADD:
            knote.change = change
        if change.flags & (EV_ENABLE | EV_DISABLE):
            knote.enabled = bool(change.flags & EV_ENABLE)
        if change.fflags & NOTE_TRIGGER and isinstance(knote, User):
            knote.trigger()
        self._show(key, knote)

    def _show(self, key: tuple[int, int], knote: Knote) -> None:
        """Have the knote looked at by waits, or not."""
        if knote.polled:
            self._polled.pop(key, None)
            if knote.enabled:
                self._polled[key] = knote
            return
        channel = self._channels[OWNED if knote.owned else knote.bits & ~RDHUP]
        if knote.enabled:
            channel.add(knote)
        else:
            channel.remove(knote)

    def _drop(self, key: tuple[int, int]) -> None:
        knote = self._knotes.pop(key, None)
        if knote is not None:
            knote.enabled = False
            self._show(key, knote)
            knote.discard()

    def _wait(self, room: int, timeout: float | None) -> list[kevent]:
        end = math.inf if timeout is None else monotonic() + timeout
        while True:
            events = self.faults.spontaneous()
            with self._lock:
                events += self._undisturbed(partial(self._gather, room - len(events)))
            left = end - monotonic()
            if events or left <= 0:
                return events
            ready = select.poll()
            for channel in self._channels.values():
                ready.register(channel, select.POLLIN)
            ready.poll(min(left, FILE_INTERVAL if self._polled else LONGEST_SLICE) * 1000)

    def _gather(self, room: int) -> Iterator[kevent]:
        """Return at most `room` events. Who was asked first is asked last by the next call."""
        for key, knote in list(self._polled.items())[:room]:
            if not knote.is_current():
                self._drop(key)
                continue
            self._polled[key] = self._polled.pop(key)
            event = self._event(key, knote, 0)
            if event is not None:
                room -= 1
                yield event
        for group, channel in list(self._channels.items()):
            if room <= 0:
                return
            self._channels[group] = self._channels.pop(group)
            for knote, bits in list(channel.poll(room)):
                event = self._event((knote.change.ident, knote.change.filter), knote, bits)
                if event is not None:
                    room -= 1
                    yield event

    def _event(self, key: tuple[int, int], knote: Knote, bits: int) -> kevent | None:
        """Return the event of a knote that shows `bits`, None if there is none or its file was closed meanwhile."""
        try:
            return self._deliver(key, knote, bits)
        except OSError:
            if knote.is_current():
                raise
            self._drop(key)
            return None

    def _deliver(self, key: tuple[int, int], knote: Knote, bits: int) -> kevent | None:
        """Return the event of a knote that shows `bits`, and do to the knote what delivery does."""
        report = knote.report(bits)
        muted = report is None
        if muted != knote.muted and not knote.polled:
            knote.muted = muted
            self._show(key, knote)
        if report is None:
            return None
        change = knote.change
        flags, fflags, data = report
        if (change.flags | flags) & EV_ONESHOT:
            self._drop(key)
        elif change.flags & EV_DISPATCH:
            knote.enabled = False
            self._show(key, knote)
        elif change.flags & EV_CLEAR and knote.polled:
            del self._polled[key]
        return kevent(change.ident, change.filter, change.flags | flags, fflags, data, change.udata)


def _check_timeout(timeout: float, dialect: Dialect) -> None:
    if timeout < 0:
        raise ValueError("timeout must be positive or None")
    if not timeout < LONGEST_TIMEOUT:
        raise OverflowError("timestamp too large to convert to C PyTime_t")
    if timeout > dialect.longest_timeout:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


def _after_fork() -> None:
    for each in list(_open):
        each.lose()


os.register_at_fork(after_in_child=_after_fork)


def names(dialect: Dialect) -> dict[str, Any]:
    """Return what `select` has where `dialect` is spoken."""
    constants = {f"KQ_FILTER_{name}": number for name, number in dialect.filters.items()}
    flags = {"ADD": EV_ADD, "DELETE": EV_DELETE, "ENABLE": EV_ENABLE, "DISABLE": EV_DISABLE, "ONESHOT": EV_ONESHOT}
    flags |= {"CLEAR": EV_CLEAR, "EOF": EV_EOF, "ERROR": EV_ERROR}
    constants |= {f"KQ_EV_{name}": number for name, number in flags.items()}
    constants |= {"KQ_NOTE_EXIT": NOTE_EXIT, "user_filter": dialect.user_filter}  # which CPython does not name
    spoken = type("kqueue", (kqueue,), {"dialect": dialect, "faults": Faults(), "__doc__": kqueue.__doc__})
    return {"kqueue": spoken, "kevent": kevent} | constants
