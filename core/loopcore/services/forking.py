"""Forks: what a child inherits of its parent's loops, made its own.

After fork(2) both processes hold the same kernel objects. A child that unregisters a descriptor from the epoll
instance takes it away from its parent; one that reads the waker swallows the parent's wake; a signal sent to the
child is written into the pipe that the parent reads. So in the child, before fork returns, every loop that it
inherited lets go of its backend and of its executor, whose threads stayed with the parent, and gets a channel of its
own for signals; a backend of its own, with the same registrations, follows when the loop is used. So nothing that is
done with an inherited loop is felt by the parent: it may be closed, left alone or, if it was not running, run. A
running one cannot be run on, as in asyncio; the child makes a new one.

In the parent, what was written and waits for the end of the tick is sent before the fork: otherwise a child that leaves
by an exception and so ends the tick, or that closes or runs a loop that stood still, would send it a second time. Not
what was written in a loop that runs in another thread: the child cannot go on with that one.

Starting a program (subprocess without preexec_fn, posix_spawn) runs none of this.

Facts: fork(2), epoll(7), gh-66285. Thread: the one that forks, which in the child is the only one.
"""

import asyncio
import errno
import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from loopcore.backend import ProbeResult, ReadinessBackend, ReadyEvent
from loopcore.completion import Completion, CompletionBackend
from loopcore.kernel.inbox import Inbox
from loopcore.kernel.probes import Probes
from loopcore.kernel.readiness import Readiness
from loopcore.kernel.runnable import Runnable, run
from loopcore.operations import CONNECT, Operation
from loopcore.services.executor import Executors
from loopcore.services.signals import Signals


class ForkHost(Protocol):
    """What is looked after of a loop."""

    backend: Any
    readiness: Readiness
    completions: Any
    inbox: Inbox
    probes: Probes
    _signals: Signals
    _executors: Executors

    def is_closed(self) -> bool: ...

    def is_running(self) -> bool: ...

    def flush(self) -> None: ...

    def use_backend(self, backend: ReadinessBackend | CompletionBackend) -> None: ...


class AtForkState:
    """One loop's share in what a child inherits; lives as long as the loop."""

    __slots__ = ("__weakref__", "_host", "_make_backend")

    def __init__(self, host: ForkHost, make_backend: Callable[[], Any]) -> None:
        self._host = host
        self._make_backend = make_backend
        _all[weakref.ref(self, _all.pop)] = None

    def settle(self) -> None:
        """Send what was written. Thread: the one that forks; if another one runs the loop, nothing is done."""
        running: object = asyncio._get_running_loop()
        if running is self._host or not self._host.is_running():
            self._host.flush()

    def renew(self) -> None:
        """Give up what is shared with the parent."""
        host = self._host
        if not host.is_closed():
            host.probes.renew()
            in_flight = host.backend.close()  # changes no table, as the port demands
            host._signals.renew()
            host._executors.forget()
            if host.completions is None:
                host.use_backend(_Unmade(self, host.backend))
            else:
                host.use_backend(_UnmadePort(self, host.backend, in_flight))
            host.probes.cold("loopcore_fork_child", loop=host)

    def move(self) -> Any:
        """Make a backend, and register with it whatever the loop watches."""
        made = self._make_backend()
        self._host.use_backend(made)
        if self._host.completions is None:
            self._host.readiness.register_all()
        return made


class _Unmade:
    """A backend that is made when somebody uses it: most children never touch the loops they inherit."""

    def __init__(self, state: AtForkState, before: ReadinessBackend) -> None:
        self._at_fork_state = state
        self._made: ReadinessBackend | None = None
        self._woken = False
        self.name = before.name
        self.capabilities = before.capabilities

    @classmethod
    def probe(cls) -> ProbeResult:
        return ProbeResult(True)

    def register(self, fd: int, interest: int) -> None:
        self._at_fork_state.move().register(fd, interest)

    def modify(self, fd: int, interest: int) -> None:
        self._at_fork_state.move().modify(fd, interest)

    def unregister(self, fd: int) -> None:
        """Do nothing: it has left the table already, and so will not be registered."""

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        self._made = self._at_fork_state.move()
        if self._woken:
            self._made.wake()
        return self._made.wait(timeout)

    def wake(self) -> None:
        """End the first wait; it may be about to begin, in another thread."""
        self._woken = True
        if self._made is not None:
            self._made.wake()

    def close(self) -> None:
        """Do nothing: there is nothing yet."""


class _UnmadePort:
    """The same over a completion port: keeps what is submitted, and what was in flight at the fork, until then.

    An operation that was in flight goes on in both processes, as a registration does. A send among them is one that the
    kernel had no room for. A connection that is being made is made once, for both.
    """

    def __init__(self, state: AtForkState, before: CompletionBackend, in_flight: Sequence[Operation]) -> None:
        self._at_fork_state = state
        self._made: CompletionBackend | None = None
        self._woken = False
        self._in_flight = in_flight
        self._to_submit = list(in_flight)
        self._cancelled: list[Operation] = []
        self.name = before.name
        self.capabilities = before.capabilities

    @classmethod
    def probe(cls) -> ProbeResult:
        return ProbeResult(True)

    def submit(self, operation: Operation) -> None:
        self._to_submit.append(operation)

    def cancel(self, operation: Operation) -> None:
        if operation in self._to_submit:
            self._to_submit.remove(operation)
            self._cancelled.append(operation)

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        made: CompletionBackend = self._at_fork_state.move()
        self._made = made
        for operation in self._to_submit:
            if operation.code == CONNECT and operation in self._in_flight:
                operation.target = _Connecting(operation)
            made.submit(operation)
        if self._woken:
            made.wake()
        if self._cancelled:  # told at once: a wait could be interrupted, and nobody would tell it again
            error = os.strerror(errno.ECANCELED)
            return [(operation, OSError(errno.ECANCELED, error), False) for operation in self._cancelled]
        return made.wait(timeout)

    def wake(self) -> None:
        """End the first wait; it may be about to begin, in another thread."""
        self._woken = True
        if self._made is not None:
            self._made.wake()

    def close(self) -> Sequence[Operation]:
        return [*self._to_submit, *self._cancelled]


class _Connecting(Runnable):
    """The target of a Connect that the parent has begun: connect(2) says EISCONN once the parent's has succeeded."""

    __slots__ = ("_operation", "_target")

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self._target = operation.target

    def _run(self) -> None:
        operation, target = self._operation, self._target
        operation.target = target
        if isinstance(operation.result, OSError) and operation.result.errno == errno.EISCONN:
            operation.result = None
        if target is not None:
            run(target)


_all: Final[dict[weakref.ref[AtForkState], None]] = {}
"""Those of all loops, in the order of their making. A WeakSet does the same in Python, for each loop that is made."""


def _living() -> list[AtForkState]:
    # Taken at one moment: other threads may be making loops.
    return [state for reference in list(_all) if (state := reference()) is not None]


def _before() -> None:
    for state in _living():
        state.settle()


def _after_in_child() -> None:
    for state in _living():
        state.renew()


if hasattr(os, "register_at_fork"):
    # For the life of the process: what was registered here cannot be taken back.
    os.register_at_fork(before=_before, after_in_child=_after_in_child)
