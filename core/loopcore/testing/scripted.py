"""Scripted backends: a wait returns the events that a test has put into `script`, and every call is recorded.

They never block and know no descriptors, so any number will do. For tests of code above a backend: the kernel,
a plugin, a policy.
"""

import errno
from collections import deque
from collections.abc import Sequence

from loopcore.ports.completion import Completion
from loopcore.ports.operations import Operation, Poll
from loopcore.ports.readiness import Capability, ProbeResult, ReadyEvent
from loopcore.testing.clock import VirtualClock


class ScriptedBackend:
    """A readiness port. A wait returns the next item of `script`; without one, it advances `clock` by its timeout.

    `calls` has the registrations, modifications and unregistrations, `timeouts` the timeouts of waits. `refuse` is
    raised by the next registrations. A wait without limit that nothing would end is an AssertionError.
    """

    name = "scripted"
    capabilities: frozenset[Capability] = frozenset()

    def __init__(self, clock: VirtualClock | None = None) -> None:
        self.clock = clock
        self.calls: list[tuple[str | int, ...]] = []
        self.timeouts: list[float | None] = []
        self.script: deque[Sequence[ReadyEvent]] = deque()
        self.refuse: BaseException | None = None
        self.wakes = 0
        self.is_closed = False

    @classmethod
    def probe(cls) -> ProbeResult:
        return ProbeResult(True)

    def register(self, fd: int, interest: int) -> None:
        self._record("register", fd, interest)

    def modify(self, fd: int, interest: int) -> None:
        self._record("modify", fd, interest)

    def unregister(self, fd: int) -> None:
        self._record("unregister", fd)

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        self.timeouts.append(timeout)
        events = self.script.popleft() if self.script else ()
        if timeout is None and not events and not self.wakes:
            raise AssertionError("a wait without limit that nothing would ever end")
        if timeout and self.clock is not None and not events:
            self.clock.at += timeout
        return events

    def wake(self) -> None:
        self.wakes += 1

    def close(self) -> None:
        self.is_closed = True

    def _record(self, *call: str | int) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.calls.append(call)


class ScriptedPort:
    """A completion port. A wait returns the cancelled operations, then the next item of `script`, a list.

    `calls` has the submissions and cancellations, `in_flight` the operations that have not ended. `refuse` is raised by
    `submit`, `interrupt` once by the next wait.
    """

    name = "scripted"
    capabilities: frozenset[Capability] = frozenset()

    def __init__(self) -> None:
        self.calls: list[tuple[str, Operation]] = []
        self.in_flight: list[Operation] = []
        self.script: deque[Sequence[Completion]] = deque()
        self.cancelled: list[Operation] = []
        self.timeouts: list[float | None] = []
        self.refuse: BaseException | None = None
        self.interrupt: BaseException | None = None

    @classmethod
    def probe(cls) -> ProbeResult:
        return ProbeResult(True)

    def submit(self, operation: Operation) -> None:
        if self.refuse is not None:
            raise self.refuse
        assert operation not in self.in_flight
        self.calls.append(("submit", operation))
        self.in_flight.append(operation)

    def cancel(self, operation: Operation) -> None:
        self.calls.append(("cancel", operation))
        if operation in self.in_flight and operation not in self.cancelled:
            self.cancelled.append(operation)

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        self.timeouts.append(timeout)
        if self.interrupt is not None:
            exc, self.interrupt = self.interrupt, None
            raise exc
        told: list[Completion] = [(operation, OSError(errno.ECANCELED, ""), False) for operation in self.cancelled]
        self.cancelled.clear()
        told += self.script.popleft() if self.script else ()
        for operation, _, more in told:
            if not more:
                self.in_flight.remove(operation)
        assert told or timeout is not None, "a wait without limit that nothing would ever end"
        return told

    def wake(self) -> None:
        pass

    def close(self) -> Sequence[Operation]:
        unfinished, self.in_flight = self.in_flight, []
        return unfinished

    def polls(self, fd: int) -> list[Poll]:
        """The Polls of `fd` that are in flight."""
        return [each for each in self.in_flight if isinstance(each, Poll) and each.fd == fd]
