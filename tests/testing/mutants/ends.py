"""Backends that wait as they should, and are broken in what they leave behind, or in what surrounds a wait."""

import os
import signal
import socket
from collections.abc import Sequence
from typing import Any, ClassVar

from loopcore.ports.readiness import ProbeResult, ReadyEvent
from loopcore_backends.epoll import EpollBackend
from loopcore_backends.poll_ import PollBackend


class LeakedDescriptor(PollBackend):
    """`close` leaves one of the backend's descriptors open."""

    breaks = "descriptors"

    def __init__(self) -> None:
        super().__init__()
        self.leaked = os.dup(self._wake_fd)


class ClosesOthers(PollBackend):
    """`close` closes the registered descriptors."""

    breaks = "descriptors"

    def close(self) -> None:
        mine, self.mine = getattr(self, "mine", set(self._registered)), set[int]()
        for fd in mine:
            os.close(fd)
        super().close()


class Inherited(PollBackend):
    """Child programs inherit its descriptors."""

    breaks = "descriptors"

    def __init__(self) -> None:
        super().__init__()
        os.set_inheritable(self._wake_fd, True)


class WaitsAfterClose(PollBackend):
    """A wait on a closed backend returns as if nothing had happened."""

    breaks = "closed"
    is_over = False

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        return [] if self.is_over else super().wait(timeout)

    def close(self) -> None:
        self.is_over = True
        super().close()


class SharedTable(PollBackend):
    """Two backends share one table, kept on the class."""

    breaks = "independence"
    everything: ClassVar[set[int]] = set()

    def __init__(self) -> None:
        super().__init__()
        self._registered = self.everything

    def close(self) -> None:
        super().close()
        self.everything.clear()


class EndsParents(EpollBackend):
    """`close` takes every registration out of the kernel's table, which a forked child shares with its parent."""

    breaks = "fork"

    def __init__(self) -> None:
        super().__init__()
        self.mine: set[int] = set()

    def register(self, fd: int, interest: int) -> None:
        super().register(fd, interest)
        self.mine.add(fd)

    def unregister(self, fd: int) -> None:
        super().unregister(fd)
        self.mine.discard(fd)

    def close(self) -> None:
        while self.mine:
            super().unregister(self.mine.pop())
        super().close()


class SignalEndsWait(PollBackend):
    """A signal ends the wait although its handler returned: EINTR is treated as "nothing is ready"."""

    breaks = "signals"

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        before: Any = signal.getsignal(signal.SIGALRM)
        if not callable(before):
            return super().wait(timeout)

        def interrupt(signum: int, frame: Any) -> None:
            before(signum, frame)
            self.wake()

        signal.signal(signal.SIGALRM, interrupt)
        try:
            return super().wait(timeout)
        finally:
            signal.signal(signal.SIGALRM, before)


class SwallowsInterrupts(PollBackend):
    """The exception of a signal handler is caught with the errors of the system call."""

    breaks = "signals"

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        try:
            return super().wait(timeout)
        except KeyboardInterrupt:
            return []


class FutureVersion(PollBackend):
    """Written for a port that does not exist yet."""

    breaks = "shape"
    backend_api = (2, 0)


class ProbeLeaves(PollBackend):
    """`probe` makes a trial object, and leaves its descriptor open."""

    breaks = "probe"
    tried: ClassVar[list[socket.socket]] = []

    @classmethod
    def probe(cls) -> ProbeResult:
        cls.tried.append(socket.socket())
        return ProbeResult(True)


class EventsAreGenerated(PollBackend):
    """`wait` returns a generator, which a caller can read once."""

    breaks = "shape"

    def wait(self, timeout: float | None) -> Any:
        return (event for event in super().wait(timeout))
