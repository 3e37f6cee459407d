"""Completions: the loop's side of a completion port, and the readiness port played over it.

`Completions` stands between those who ask (drivers, through `submit` and `cancel`) and the backend. `Polls` has the
methods of a readiness backend that the readiness table calls, and makes Poll operations of them. So the table, with all
who use it, works over either port, and the rules about stale events are in one place.

A Poll ends with its first event, the table is level-triggered: what has fired is asked for again before the next
wait, after the callbacks that took the event have run. Nothing is lost in between, for a Poll of what is ready already
completes at once.
"""

import errno
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

from loopcore.backend import Capability
from loopcore.completion import Completion, CompletionBackend
from loopcore.interest import ERROR, READ, WRITE
from loopcore.operations import ACCEPT, CLOSE, OPEN, SEND, Operation, Poll

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.direct import listed, wait_in

_SEND = SEND
_UNFINISHED: Final = object()

CHECKS_NUMBERS = os.name == "posix"
"""Whether fcntl(2) knows every descriptor that can be watched; a SOCKET of Windows it does not."""


class Completions:
    """What is in flight in a completion port. Thread: the loop's own."""

    __slots__ = ("backend", "polls", "late", "handed", "submitted", "is_used", "polls_cheaply", "_is_closed")

    def __init__(self, backend: CompletionBackend) -> None:
        self.backend: CompletionBackend = backend
        self.polls: Polls = Polls(self)
        self.late: list[Completion] = []
        """Taken from the port in a tick that ended early; they come first in the next one."""
        self.handed: list[Completion] | None = None
        """What the last wait has returned, until the io phase takes it over. A tick may end before it gets there, or
        another may begin in its middle; unlike readiness, a completion is told once."""
        self.submitted: bool = False
        """Something was submitted since the last wait: the next tick must not skip its poll."""
        self.is_used: bool = False
        """Something was submitted, at any time: a wait may find a completion."""
        self.polls_cheaply: bool = Capability.CHEAP_POLLS in backend.capabilities
        """A Poll and a receive of one's own cost little more than a Receive."""
        self._is_closed: bool = False

    def submit(self, operation: Operation) -> None:
        """Hand `operation` to the port; its target runs once for each completion, in the io phase of a tick."""
        if operation is None:  # compiled, None would be taken for one: its fields are memory that is not ours
            raise TypeError("submit() takes an operation of loopcore.operations, not None")
        operation.pending = True
        operation.result = None
        self.submitted = self.is_used = True
        try:
            self.backend.submit(operation)
        except BaseException:
            operation.pending = False
            raise

    def cancel(self, operation: Operation) -> None:
        """End `operation` early; its target still runs once more. One that is not pending is left alone."""
        if operation is None:
            raise TypeError("cancel() takes an operation of loopcore.operations, not None")
        if operation.pending and not self._is_closed:
            self.submitted = True
            self.backend.cancel(operation)

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        """Wait in the port; what is left over of an earlier tick comes first."""
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
        # Lowered before: what a signal handler submits inside the wait begins with the next one.
        submitted, self.submitted = self.submitted, False
        try:
            if cython.compiled:
                return self._noted(listed(wait_in(self.backend, timeout)))
            return self._noted([*self.backend.wait(timeout)])  # not `list()`: a call more, and signals are looked at
        except BaseException:
            # It may have begun and even be done, but nobody was told: the wait is to be made up for.
            self.submitted = self.submitted or submitted
            raise

    def _noted(self, completions: list[Completion]) -> list[Completion]:
        """Return `completions` without the Sends that nobody wants a turn for."""
        # What is ready runs first, and may ask a driver to send at once: that must know that nothing is in flight.
        wanted: list[Completion] | None = None  # as long as all are
        position = 0
        try:
            for completion in completions:
                operation = completion[0]
                if operation.code == _SEND:
                    operation.pending = False
                    operation.result = completion[1]
                    target = operation.target
                    if target is not None and not target._takes_note(operation.result):
                        if wanted is None:
                            wanted = completions[:position]
                        position += 1
                        continue
                if wanted is not None:
                    wanted.append(completion)
                position += 1
        except BaseException:
            # Interpreted, a signal handler may raise anywhere. Unlike readiness, a completion is told once: what was
            # not noted has its turn.
            noted = completions[:position] if wanted is None else wanted
            rest = completions[position:]
            if noted and rest and rest[0] is noted[len(noted) - 1]:
                rest = rest[1:]
            self.late.extend(noted)
            self.late.extend(rest)
            raise
        return completions if wanted is None else wanted

    def begin(self) -> None:
        """Have the port begin what was submitted, without a wait that brings anything.

        For a loop that stops or forks, and for a Connect, which has to be under way when its task waits. What has
        completed comes with the next wait.
        """
        if self.submitted:
            self.late.extend(self._dequeue(0.0))

    def begin_at_once(self, report: Callable[[dict[str, Any]], object]) -> None:
        """After a run that an exception has ended: note what was sent, or a write would wait behind it for ever."""
        try:
            self.begin()
        except Exception as exc:  # told, but not in place of what has ended the run
            report({"message": "Exception in a tick of the loop", "exception": exc})

    def close(self) -> None:
        """Close the port. What it has ended or was in the middle of runs nobody any more; no descriptor stays open."""
        self._is_closed = True
        self.polls.clear()
        late = [*(self.handed or ()), *self.late]
        self.handed, self.late = None, []
        for operation, result, more in late:
            operation.pending = more
            _drop(operation, result)
        for operation in self.backend.close():
            operation.pending = False
            _drop(operation, _UNFINISHED)


def _drop(operation: Operation, result: Any) -> None:
    """Let go of an operation whose target will not run; `result` is what it has brought, _UNFINISHED if nothing."""
    operation.target = None  # a driver, which keeps the operation
    if operation.code == ACCEPT and isinstance(result, int):
        socket.close(result)
    elif operation.code == OPEN and isinstance(result, int):
        os.close(result)
    elif operation.code == CLOSE and result is _UNFINISHED:
        try:
            os.close(operation.fd)
        except OSError:
            pass  # it had ended, and nobody was told
    elif hasattr(result, "give_back"):
        result.give_back()


class Polls:
    """The readiness table's backend over a completion port: one Poll a descriptor, at most."""

    __slots__ = ("_completions", "_fired", "_table", "_gone")

    def __init__(self, completions: Completions) -> None:
        self._completions: Completions = completions
        self._table: dict[int, Poll] = {}
        self._fired: list[Operation] = []
        self._gone: set[int] = set()
        """Numbers in the table that somebody has closed: nothing is asked of them any more."""

    def register(self, fd: int, interest: int) -> None:
        """Watch `fd`. Raises OSError for what is no descriptor."""
        if CHECKS_NUMBERS:
            os.get_inheritable(fd)  # fcntl(F_GETFD): the cheapest call that knows them
        self._watch(fd, interest)

    def modify(self, fd: int, interest: int) -> None:
        """Watch `fd` for something else; for nothing, if `interest` is 0: then nothing of it stays in flight."""
        poll = self._table[fd]
        if interest == 0:
            self._park(fd, poll)
            return
        if fd in self._gone:  # somebody has the number again, or else there is another EBADF
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
            self._fired.append(poll)  # perhaps a second time: who was asked for is passed over

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
        """Return what `poll`, which has ended, reports of its descriptor: 0 if it is stale or was for nothing."""
        if poll is None or self._table.get(poll.fd) is not poll:
            return 0
        result = poll.result
        if isinstance(result, OSError):
            # An error is for who waits: he tries, and finds out. A descriptor that somebody has closed is not watched
            # any more, as with epoll(7): to ask again would bring the same error, in every tick.
            if result.errno == errno.EBADF:
                self._gone.add(poll.fd)
            else:
                self._fired.append(poll)
            return ERROR
        self._fired.append(poll)
        bits: int = result
        return bits

    def rearm(self) -> None:
        """Ask again for what has fired and is still wanted."""
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
