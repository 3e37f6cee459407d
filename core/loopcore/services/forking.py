"""Forks: gives a child process its own copies of the state that it shares with its parent's loops.

After fork(2) both processes hold the same kernel objects. A child that unregisters a descriptor from the epoll instance
takes it away from its parent; one that reads the waker swallows the parent's wake; a signal sent to the child is
written into the pipe that the parent reads. So in the child, before fork returns, every inherited loop releases its
backend and its executor, whose threads stayed with the parent, and gets a new channel for signals; a new backend, with
the same registrations, follows when the loop is used. So nothing that is done with an inherited loop affects the
parent: it may be closed, left alone or, if it was not running, run. A running loop cannot be continued, as in asyncio;
the child makes a new one.

In the parent, data that was written and waits for the end of the tick is sent before the fork: otherwise a child that
ends the tick by leaving with an exception, or that closes or runs a stopped loop, would send it a second time. Data
written in a loop that runs in another thread is not sent: the child cannot continue that loop.

Starting a program (subprocess without preexec_fn, posix_spawn) runs none of this.

Facts: fork(2), epoll(7), gh-66285. Thread: the one that forks, which is the only one in the child.
"""

import asyncio
import errno
import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from loopcore.kernel.completions import Completions
from loopcore.kernel.probes import Probes
from loopcore.kernel.readiness import Readiness
from loopcore.kernel.runnable import Runnable, run
from loopcore.ports.completion import Backend, Completion, CompletionBackend, is_completion_backend
from loopcore.ports.operations import CONNECT, Operation
from loopcore.ports.readiness import ProbeResult, ReadinessBackend, ReadyEvent
from loopcore.services.parts import created


class ForkHost(Protocol):
    """The loop as this module uses it."""

    @property
    def backend(self) -> Backend: ...

    @property
    def _completions(self) -> Completions | None: ...

    _readiness: Readiness
    _parts: dict[str, Any]
    probes: Probes

    def is_closed(self) -> bool: ...

    def is_running(self) -> bool: ...

    def unfinished_jobs(self) -> list[Callable[..., Any]]: ...

    def flush(self) -> None: ...

    def _use_backend(self, backend: Backend) -> None: ...


class AtForkState:
    """One loop's handling of forks; lives as long as the loop."""

    __slots__ = ("__weakref__", "_host", "_make_backend")

    def __init__(self, host: ForkHost, make_backend: Callable[[], Backend]) -> None:
        self._host = host
        self._make_backend = make_backend
        _all[weakref.ref(self, _all.pop)] = None

    def settle(self) -> None:
        """Send written data. Thread: the one that forks; if another thread runs the loop, nothing is done."""
        running: object = asyncio._get_running_loop()
        if running is self._host or not self._host.is_running():
            self._host.flush()

    def renew(self) -> None:
        """In the child, give up the state that is shared with the parent."""
        host = self._host
        if not host.is_closed():
            host.probes.renew()
            made_later: Backend
            if is_completion_backend(host.backend):  # no close changes a table of the kernel, as the ports demand
                made_later = _LazyPort(self, host.backend, host.backend.close())
            else:
                made_later = _LazyReadiness(self, host.backend)
                host.backend.close()
            # Not created for this: another thread of the parent may have held the lock of a module to be imported.
            signals = created(host, "_signals")
            if signals is not None:
                signals.renew()
            executors = created(host, "_executors")
            if executors is not None:
                executors.forget()
            host._use_backend(made_later)
            host.probes.cold("loopcore_fork_child", loop=host)

    def move(self) -> Any:
        """Make a backend, and register with it every descriptor that the loop watches."""
        made = self._make_backend()
        self._host._use_backend(made)
        if self._host._completions is None:
            self._host._readiness.register_all()
        return made


class _Lazy:
    """A backend that is made at its first use: most children never use the loops that they inherit."""

    def __init__(self, state: AtForkState, before: Backend) -> None:
        self._at_fork_state = state
        self._made: Backend | None = None
        self._woken = False
        self.name = before.name
        self.capabilities = before.capabilities

    @classmethod
    def probe(cls) -> ProbeResult:
        return ProbeResult(True)

    def wake(self) -> None:
        """End the first wait, which may be about to begin in another thread."""
        self._woken = True
        if self._made is not None:
            self._made.wake()


class _LazyReadiness(_Lazy):
    """A readiness backend; the table keeps the registrations until it is made."""

    def register(self, fd: int, interest: int) -> None:
        self._at_fork_state.move().register(fd, interest)

    def modify(self, fd: int, interest: int) -> None:
        self._at_fork_state.move().modify(fd, interest)

    def unregister(self, fd: int) -> None:
        """Do nothing: the descriptor has left the table already, and so will not be registered."""

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        made: ReadinessBackend = self._at_fork_state.move()
        self._made = made
        if self._woken:
            made.wake()
        return made.wait(timeout)

    def close(self) -> None:
        """Do nothing: the backend was not made yet."""


class _LazyPort(_Lazy):
    """A completion port: until its first wait it keeps submitted operations, and those in flight.

    An operation that was in flight at the fork continues in both processes, as a registration does. A send among them
    is one for which the kernel had no room. A connection that was being made is made once, for both.
    """

    def __init__(self, state: AtForkState, before: CompletionBackend, in_flight: Sequence[Operation]) -> None:
        _Lazy.__init__(self, state, before)
        self._in_flight = in_flight
        self._to_submit = list(in_flight)
        self._cancelled: list[Operation] = []

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
        if self._cancelled:  # reported at once: a wait might be interrupted, and this list is returned only here
            error = os.strerror(errno.ECANCELED)
            return [(operation, OSError(errno.ECANCELED, error), False) for operation in self._cancelled]
        return made.wait(timeout)

    def close(self) -> Sequence[Operation]:
        return [*self._to_submit, *self._cancelled]


class _Connecting(Runnable):
    """The target of a Connect that the parent began: connect(2) fails with EISCONN once the parent's succeeded."""

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
"""The states of all loops, in order of creation. A WeakSet would do the same in Python code for each new loop."""


def _living() -> list[AtForkState]:
    # Copied in one step: other threads may be creating loops.
    return [state for reference in list(_all) if (state := reference()) is not None]


def _before() -> None:
    for state in _living():
        state.settle()


def _after_in_child() -> None:
    for state in _living():
        state.renew()


if hasattr(os, "register_at_fork"):
    # For the life of the process: this registration cannot be undone.
    os.register_at_fork(before=_before, after_in_child=_after_in_child)
