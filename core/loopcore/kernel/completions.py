"""Completions: the loop's side of a completion port, and the readiness port played over it.

`Completions` stands between the drivers, which call `submit` and `cancel`, and the backend. `Polls` has the methods of
a readiness backend that the readiness table calls, and turns them into Poll operations. So the table and everything
built on it work over either port, and the rules about stale events are in one place.

A Poll ends with its first event, but the table is level-triggered: a Poll that has fired is submitted again before the
next wait, after the callbacks for its event have run. No event is lost in between: a Poll of a descriptor that is
already ready completes at once.
"""

import errno
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

from loopcore.errors import BackendError
from loopcore.ports.completion import Completion, CompletionBackend
from loopcore.ports.interest import ERROR, READ, WRITE
from loopcore.ports.operations import ACCEPT, CLOSE, OPEN, SEND, Operation, Poll
from loopcore.ports.readiness import Capability

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.ports.direct import wait_in
else:
    from loopcore.ports.direct import wait_in

_SEND = SEND
_UNFINISHED: Final = object()

CHECKS_NUMBERS = os.name == "posix"
"""Whether fcntl(2) accepts every descriptor that can be watched. It does not accept a SOCKET of Windows."""


class Completions:
    """The operations in flight in a completion port. Thread: the loop's own."""

    __slots__ = ("backend", "polls", "late", "handed", "submitted", "is_used", "polls_cheaply", "_is_closed")

    def __init__(self, backend: CompletionBackend) -> None:
        self.backend: CompletionBackend = backend
        self.polls: Polls = Polls(self)
        self.late: list[Completion] = []
        """Completions taken from the port in a tick that ended early; they come first in the next tick."""
        self.handed: list[Completion] | None = None
        """The completions of the last wait, until the io phase takes them over. The tick may end before its io phase,
        and a nested tick may begin in the middle of it; unlike readiness, a completion is reported only once."""
        self.submitted: bool = False
        """An operation was submitted since the last wait: the next tick must not skip its poll."""
        self.is_used: bool = False
        """An operation was submitted at some time: a wait may find a completion."""
        self.polls_cheaply: bool = Capability.CHEAP_POLLS in backend.capabilities
        """A Poll followed by a plain receive costs little more than a Receive."""
        self._is_closed: bool = False

    def submit(self, operation: Operation) -> None:
        """Hand `operation` to the port; its target runs once for each completion, in the io phase of a tick."""
        if operation is None:  # compiled, None would pass as an Operation, and its fields would be foreign memory
            raise TypeError("submit() takes an operation of loopcore.ports.operations, not None")
        operation.pending = True
        operation.result = None
        self.submitted = self.is_used = True
        try:
            self.backend.submit(operation)
        except BaseException:
            operation.pending = False
            raise

    def cancel(self, operation: Operation) -> None:
        """End `operation` early; its target still runs once more. Does nothing if the operation is not pending."""
        if operation is None:
            raise TypeError("cancel() takes an operation of loopcore.ports.operations, not None")
        if operation.pending and not self._is_closed:
            self.submitted = True
            self.backend.cancel(operation)

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        """Wait in the port. Completions left over from an earlier tick come first."""
        self.polls.rearm()
        if self.handed:
            self.late = [*self.handed, *self.late]
            self.handed = None
        if self.late:
            self.late.extend(self._dequeue(0.0))
            self.handed, self.late = self.late, []
        else:
            self.handed = self._dequeue(timeout)
        return self.handed

    def _dequeue(self, timeout: float | None) -> list[Completion]:
        # Cleared before the wait: an operation that a signal handler submits inside the wait begins with the next one.
        submitted, self.submitted = self.submitted, False
        try:
            found = wait_in(self.backend, timeout)
            return self._noted(found if type(found) is list else [*found])  # `list()` is a call, which checks signals
        except BaseException:
            # The operations may have begun or even completed, but nothing was reported: the next tick must poll.
            self.submitted = self.submitted or submitted
            raise

    def _noted(self, completions: list[Completion]) -> list[Completion]:
        """Return `completions` without the Sends whose targets need no turn."""
        # Ready callbacks run first and may ask a driver to send at once: the driver must know that nothing is in
        # flight.
        wanted: list[Completion] | None = None  # None while all of them are wanted
        position = 0
        try:
            for completion in completions:
                operation = completion[0]
                if operation.code == _SEND:
                    operation.pending = False
                    operation.result = completion[1]
                    target = operation.target
                    if target is not None and not target._needs_turn_after(operation.result):
                        if wanted is None:
                            wanted = completions[:position]
                        position += 1
                        continue
                if wanted is not None:
                    wanted.append(completion)
                position += 1
        except BaseException as exc:
            # Interpreted, a signal handler may raise anywhere. Unlike readiness, a completion is reported only once:
            # those that were not noted get a turn.
            noted = completions[:position] if wanted is None else wanted
            rest = completions[position:]
            if noted and rest and rest[0] is noted[len(noted) - 1]:
                rest = rest[1:]
            self.keep([*noted, *rest], exc)
            raise
        return completions if wanted is None else wanted

    def keep(self, completions: list[Completion], error: BaseException) -> None:
        """Keep completions whose turn did not come because of `error` for the next tick.

        Raises BackendError if one of them is malformed: it is dropped, or every tick would fail in the same way.
        """
        if isinstance(error, MemoryError) or not isinstance(error, Exception):
            self.late.extend(completions)
            return
        self.late.extend([each for each in completions if _is_completion(each)])
        broken = [each for each in completions if not _is_completion(each)]
        if broken:
            raise BackendError(
                f"backend {self.backend.name!r} returned a malformed completion from its "
                f"wait: {broken[0]!r} is not a tuple (operation, result, more)"
            ) from error

    def begin(self) -> None:
        """Make the port begin the submitted operations, without waiting for completions.

        For a loop that stops or forks, and for a Connect, which must be under way while its task waits. Operations that
        have completed are returned by the next wait.
        """
        if self.submitted:
            self.late.extend(self._dequeue(0.0))

    def begin_or_report(self, report: Callable[[dict[str, Any]], object]) -> None:
        """Do as `begin`, but report an error: it must not replace an exception that ended the run, or end an abort.

        It also notes the Sends that have finished: once the run has ended, a write would wait behind one for ever.
        """
        try:
            self.begin()
        except Exception as exc:
            report({"message": "Exception in a tick of the loop", "exception": exc})

    def close(self) -> None:
        """Close the port. Finished and interrupted operations run no target any more; no descriptor stays open."""
        self._is_closed = True
        self.polls.clear()
        late = [*(self.handed or ()), *self.late]
        self.handed, self.late = None, []
        try:
            for operation, result, more in late:
                operation.pending = more
                _drop(operation, result)
        finally:
            for operation in self.backend.close():
                operation.pending = False
                _drop(operation, _UNFINISHED)


def _is_completion(reported: Any) -> bool:
    return type(reported) is tuple and len(reported) == 3 and isinstance(reported[0], Operation)


def _drop(operation: Operation, result: object) -> None:
    """Release an operation whose target will not run; `result` is its result, _UNFINISHED if it has none."""
    operation.target = None  # the target is a driver, which refers to the operation
    if operation.code == ACCEPT and isinstance(result, int):
        socket.close(result)
    elif operation.code == OPEN and isinstance(result, int):
        os.close(result)
    elif operation.code == CLOSE and result is _UNFINISHED:
        try:
            os.close(operation.fd)
        except OSError:
            pass  # the close had already happened, but was not reported
    elif hasattr(result, "give_back"):
        result.give_back()


class Polls:
    """The readiness table's backend over a completion port: at most one Poll per descriptor."""

    __slots__ = ("_completions", "_fired", "_table", "_gone")

    def __init__(self, completions: Completions) -> None:
        self._completions: Completions = completions
        self._table: dict[int, Poll] = {}
        self._fired: list[Operation] = []
        self._gone: set[int] = set()
        """Descriptors in the table that the program has closed: they are not polled any more."""

    def register(self, fd: int, interest: int) -> None:
        """Watch `fd`. Raises OSError if `fd` is not a descriptor."""
        if CHECKS_NUMBERS:
            os.get_inheritable(fd)  # fcntl(F_GETFD): the cheapest call that checks a descriptor
        self._watch(fd, interest)

    def modify(self, fd: int, interest: int) -> None:
        """Change the interest in `fd`. With an `interest` of 0 nothing stays in flight for it."""
        poll = self._table[fd]
        if interest == 0:
            self._park(fd, poll)
            return
        if fd in self._gone:  # the number was reused, or else the Poll fails with EBADF again
            self._gone.discard(fd)
            self._watch(fd, interest)
            return
        if poll.interest == interest:
            return
        if poll.pending:
            self._completions.cancel(poll)
            self._watch(fd, interest)
        else:
            poll.interest = interest
            self._fired.append(poll)  # may be in the list twice: `rearm` skips a Poll that is pending

    def _park(self, fd: int, poll: Poll) -> None:
        if poll.pending:
            self._table[fd] = Poll(fd, 0)
            self._completions.cancel(poll)
        else:
            poll.interest = 0

    def unregister(self, fd: int) -> None:
        """Forget `fd`, which may be closed already."""
        self._gone.discard(fd)
        self._completions.cancel(self._table.pop(fd))

    def take(self, poll: Operation) -> int:
        """Return the bits that `poll`, which has ended, reports for its descriptor: 0 if it is stale or spurious."""
        if poll is None or self._table.get(poll.fd) is not poll:
            return 0
        result = poll.result
        if isinstance(result, OSError):
            # Report the error to the waiter, which tries the operation and gets it. A closed descriptor is not watched
            # any more, as with epoll(7): polling it again would fail in the same way in every tick.
            if result.errno == errno.EBADF:
                self._gone.add(poll.fd)
            else:
                self._fired.append(poll)
            return ERROR
        self._fired.append(poll)
        bits: int = result
        return bits

    def rearm(self) -> None:
        """Submit again the Polls that have fired and are still wanted."""
        if self._fired:
            fired, self._fired = self._fired, []
            for operation in fired:
                poll = self._table.get(operation.fd)
                if poll is operation and not poll.pending and poll.interest:
                    self._completions.submit(poll)

    def clear(self) -> None:
        """Forget everything; the port is being closed."""
        self._table.clear()
        self._fired.clear()
        self._gone.clear()

    def _watch(self, fd: int, interest: int) -> None:
        poll = Poll(fd, interest & (READ | WRITE))
        self._table[fd] = poll
        self._completions.submit(poll)
