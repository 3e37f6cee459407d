"""Broken readiness backends, over poll(2) or epoll(7)."""

import math
import os
import socket
import sys
import time
from collections.abc import Sequence

from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore.ports.readiness import Capability, ReadyEvent
from loopcore_backends.epoll import EpollBackend
from loopcore_backends.poll_ import PollBackend
from loopcore_backends.select_ import SelectBackend


class LostWake(PollBackend):
    """A wake that arrives while no wait is under way is dropped."""

    breaks = "wakes"
    waiting = False

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        self.waiting = True
        try:
            return super().wait(timeout)
        finally:
            self.waiting = False

    def wake(self) -> None:
        if self.waiting:
            super().wake()


class UnspentWake(PollBackend):
    """The wake descriptor is not drained, so every wait after the first wake ends at once."""

    breaks = "wakes-coalesce"
    woken = False

    def wake(self) -> None:
        self.woken = True
        super().wake()

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        events = super().wait(timeout)
        if self.woken:
            super().wake()
        return events


class CountedWakes(PollBackend):
    """Wakes are counted: three end three waits."""

    breaks = "wakes-coalesce"
    count = 0

    def wake(self) -> None:
        self.count += 1
        super().wake()

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        events = super().wait(timeout)
        if self.count:
            self.count -= 1
        if self.count:
            super().wake()
        return events


class BlockingWake(PollBackend):
    """The pipe of wakes blocks when it is full: a thread that wakes often enough hangs."""

    breaks = "wakes-coalesce"

    def __init__(self) -> None:
        super().__init__()
        self.pipe = socket.socketpair()
        self.pipe[0].setblocking(True)

    def wake(self) -> None:
        if self.pipe[0].fileno() >= 0:
            self.pipe[0].send(bytes(64))
        super().wake()

    def close(self) -> None:
        super().close()
        for end in self.pipe:
            end.close()


class WakeHidesEvents(PollBackend):
    """A wait that was woken reports nothing else."""

    breaks = "wakes-hide-nothing"
    woken = False

    def wake(self) -> None:
        self.woken = True
        super().wake()

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        woken, self.woken = self.woken, False
        events = super().wait(timeout)
        return [] if woken else events


class WakeIsAnEvent(PollBackend):
    """A wake is reported as an event of the backend's own descriptor."""

    breaks = "wakes-hide-nothing"
    woken = False

    def wake(self) -> None:
        self.woken = True
        super().wake()

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        woken, self.woken = self.woken, False
        events = [*super().wait(timeout)]
        return [*events, (self._wake_fd, READ)] if woken else events


class WakeFailsAfterClose(PollBackend):
    """A late wake raises, in a thread that does not know of the close."""

    breaks = "wakes-after-close"

    def wake(self) -> None:
        self._must_be_open()
        super().wake()


class EarlyTimeout(PollBackend):
    """Timeouts are rounded down to whole milliseconds."""

    breaks = "timeouts"

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        return super().wait(None if timeout is None else math.floor(min(timeout, 1e6) * 1000.0) / 1000.0)


class LateTimeout(PollBackend):
    """Timeouts are rounded up to the tick of a coarse clock, 120 ms."""

    breaks = "timeouts"

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        return super().wait(None if timeout is None else math.ceil(min(timeout, 1e6) / 0.12) * 0.12)


class CollectsEvents(PollBackend):
    """A wait that has found events sleeps for 120 ms, to report more of them at once."""

    breaks = "timeouts"

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        events = super().wait(timeout)
        if events:
            time.sleep(0.12)
        return events


class ZeroBlocks(PollBackend):
    """A timeout of 0.0 is treated as None: `timeout or None`."""

    breaks = "timeouts"

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        return super().wait(timeout or None)


class TimeoutOverflows(PollBackend):
    """A timeout that the system call cannot represent raises OverflowError."""

    breaks = "timeouts"

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        if timeout is not None and timeout > 2**31 / 1000.0:
            raise OverflowError("timeout is too large")
        return super().wait(timeout)


class EdgeTriggered(PollBackend):
    """A descriptor that stays ready is reported once."""

    breaks = "level-triggered"

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[int, int] = {}

    def register(self, fd: int, interest: int) -> None:
        super().register(fd, interest)
        self.told.pop(fd, None)

    def modify(self, fd: int, interest: int) -> None:
        super().modify(fd, interest)
        self.told.pop(fd, None)

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        events = dict(super().wait(timeout))
        fresh = [(fd, ready) for fd, ready in events.items() if self.told.get(fd) != ready]
        self.told = events
        return fresh


class TwoEvents(PollBackend):
    """Reading and writing are two events of one descriptor."""

    breaks = "one-event"

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        events = super().wait(timeout)
        return [(fd, ready & bit) for fd, ready in events for bit in (READ, WRITE, ERROR, HANGUP) if ready & bit]


class Unasked(PollBackend):
    """Both directions are watched, whatever the interest."""

    breaks = "events"

    def register(self, fd: int, interest: int) -> None:
        super().register(fd, READ | WRITE)


class ModifyAdds(PollBackend):
    """`modify` adds to the interest instead of replacing it."""

    breaks = "interest"

    def __init__(self) -> None:
        super().__init__()
        self.interests: dict[int, int] = {}

    def register(self, fd: int, interest: int) -> None:
        super().register(fd, interest)
        self.interests[fd] = interest

    def modify(self, fd: int, interest: int) -> None:
        self.interests[fd] = self.interests.get(fd, 0) | interest
        super().modify(fd, self.interests[fd])


class StaleEvent(PollBackend):
    """An unregistered descriptor stays in the kernel's table, and is reported to the next owner of its number."""

    breaks = "reused-numbers"

    def unregister(self, fd: int) -> None:
        super().unregister(fd)
        self._list.register(fd, READ | WRITE)

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        return [event for event in super().wait(timeout) if not event[1] & 32]


class ClosedIsUnknown(PollBackend):
    """`unregister` asks the kernel, which no longer knows the closed descriptor."""

    breaks = "closed-descriptors"

    def unregister(self, fd: int) -> None:
        os.fstat(fd)
        super().unregister(fd)


class ClosedHidesTheRest(PollBackend):
    """One closed descriptor makes every wait fail, and nothing else is reported."""

    breaks = "closed-descriptors"

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        events = super().wait(timeout)
        return [event for event in events if event[1] == ERROR][:1] or events


class HangupSwallowed(PollBackend):
    """Only the registered interest is reported: the loss of a peer is not."""

    breaks = "hang-up"

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        return [(fd, ready) for fd, ready in super().wait(timeout) if not ready & (HANGUP | ERROR)]


class WrongError(PollBackend):
    """An unregistered descriptor raises KeyError."""

    breaks = "errors"

    def modify(self, fd: int, interest: int) -> None:
        if fd not in self._registered:
            raise KeyError(fd)
        super().modify(fd, interest)


class SecondRegistrationWins(PollBackend):
    """A second `register` silently replaces the first."""

    breaks = "errors"

    def register(self, fd: int, interest: int) -> None:
        if fd in self._registered:
            self.modify(fd, interest)
        else:
            super().register(fd, interest)


class FirstComeFirst(EpollBackend):
    """A wait reports one descriptor, always the first that is ready."""

    breaks = "fairness"

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        return sorted(super().wait(timeout))[:1]


class BoastsOfFiles(EpollBackend):
    """Claims to accept regular files, which epoll(7) refuses."""

    breaks = "regular-files"
    capabilities = EpollBackend.capabilities | {Capability.REGULAR_FILES}


class BoastsOfNumbers(SelectBackend):
    """Claims to accept large numbers, which select(2) does not."""

    breaks = "large-descriptors"
    capabilities = SelectBackend.capabilities | {Capability.LARGE_DESCRIPTORS}


class KeepsLooking(PollBackend):
    """A wait keeps watching the descriptors with which it began, even one that is unregistered meanwhile."""

    breaks = "any-thread"

    def unregister(self, fd: int) -> None:
        waiting, self._waker.waiting = self._waker.waiting, False
        super().unregister(fd)
        self._waker.waiting = waiting


class ClosedUnderTheWait(EpollBackend):
    """`close` does not wake another thread that waits."""

    breaks = "any-thread"
    closing = False

    def close(self) -> None:
        self.closing = True
        super().close()

    def wake(self) -> None:
        if not self.closing:
            super().wake()


class ModifyRegisters(SelectBackend):
    """`modify` writes the interest without looking again: a descriptor that is unregistered meanwhile is watched."""

    breaks = "any-thread"

    def modify(self, fd: int, interest: int) -> None:
        self._must_be_open()
        if fd not in self._registered:
            raise FileNotFoundError(fd)
        time.sleep(0.005)  # another thread runs
        self._watch(fd, interest)


class ClosedIsNotRegistered(PollBackend):
    """`modify` takes a table that was just emptied by `close` for one without this descriptor."""

    breaks = "closed"

    def modify(self, fd: int, interest: int) -> None:
        self._must_be_open()
        time.sleep(0.005)  # another thread runs
        if fd not in self._registered:
            raise FileNotFoundError(fd)


class EmptiedUnderTheWait(PollBackend):
    """`close` empties a table that the wait under way still reads: KeyError."""

    breaks = "any-thread"

    def __init__(self) -> None:
        super().__init__()
        self.interests: dict[int, int] = {}

    def register(self, fd: int, interest: int) -> None:
        super().register(fd, interest)
        self.interests[fd] = interest

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        watched = list(self.interests)
        ready = dict(super().wait(timeout))
        wanted = {fd: self.interests[fd] | ERROR | HANGUP for fd in watched}
        return [(fd, ready[fd] & wanted[fd]) for fd in watched if fd in ready]

    def close(self) -> None:
        super().close()
        self.interests.clear()


class RefusesFinalizers(EpollBackend):
    """`close` refuses a call from a finalizer in the middle of `wait`."""

    breaks = "any-thread"
    inside = False

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        self.inside = True
        try:
            events = super().wait(timeout)
            _ = [[] for _ in range(100)]  # the collector runs at one of these, if it has not before
            return events
        finally:
            self.inside = False

    def close(self) -> None:
        if self.inside and is_in_a_finalizer():
            raise RuntimeError("the backend is waiting")
        super().close()


def is_in_a_finalizer() -> bool:
    """Tell whether a `__del__` is among the callers."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_name == "__del__":
            return True
    return False
