"""Broken completion backends, over the proactor."""

import errno
import os
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

from loopcore.errors import BackendClosedError
from loopcore.ports.completion import Completion
from loopcore.ports.operations import ACCEPT, CONNECT, POLL, RECEIVE, RECEIVE_FROM, SEND, Operation
from loopcore_backends.poll_ import PollBackend
from loopcore_backends.proactor import ProactorBackend
from tests.testing.mutants.readiness import is_in_a_finalizer


def is_cancelled(result: Any) -> bool:
    return isinstance(result, OSError) and result.errno == errno.ECANCELED


class DoubleCompletion(ProactorBackend):
    """A cancelled operation ends twice: once for the cancel, once for itself."""

    breaks = "one-end"
    again: Sequence[Completion] = ()

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        if self.again:
            told, self.again = self.again, ()
            return told
        told = super().wait(timeout)
        self.again = [each for each in told if is_cancelled(each[1])]
        return told


class LostCompletion(ProactorBackend):
    """A cancelled operation never ends."""

    breaks = "one-end"

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        return [each for each in super().wait(timeout) if not is_cancelled(each[1])]


class WrongErrno(ProactorBackend):
    """A cancelled operation ends with a time-out."""

    breaks = "one-end"

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        told = super().wait(timeout)
        return [
            (operation, TimeoutError(errno.ETIMEDOUT, "timed out") if is_cancelled(result) else result, more)
            for operation, result, more in told
        ]


class MoreAfterTheEnd(ProactorBackend):
    """An error does not end a multishot operation: `more` is true."""

    breaks = "one-end"

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        told = super().wait(timeout)
        return [(op, result, more or (op.code == RECEIVE and is_cancelled(result))) for op, result, more in told]


class CalledBack(ProactorBackend):
    """An operation that completes at once is reported from inside `submit`, through the operation's target."""

    breaks = "submission"

    def submit(self, operation: Operation) -> None:
        super().submit(operation)
        if operation.code == SEND and callable(operation.target):
            operation.target(operation)


class TakesTwice(ProactorBackend):
    """An operation in flight is accepted again."""

    breaks = "submission"

    def submit(self, operation: Operation) -> None:
        try:
            super().submit(operation)
        except ValueError:
            pass


class LosesBytes(ProactorBackend):
    """A cancelled receive has already read, and drops the bytes."""

    breaks = "cancel-loses-nothing"

    def cancel(self, operation: Operation) -> None:
        super().cancel(operation)
        if operation.code == RECEIVE:
            try:
                os.read(operation.fd, 100)
            except OSError:
                pass


class KeepsTheFile(ProactorBackend):
    """An operation holds a copy of its descriptor until the port is closed."""

    breaks = "cancel-frees"

    def __init__(self) -> None:
        super().__init__()
        self.copies: list[int] = []

    def submit(self, operation: Operation) -> None:
        super().submit(operation)
        try:
            self.copies.append(os.dup(operation.fd))
        except OSError:
            pass

    def close(self) -> Sequence[Operation]:
        while self.copies:
            os.close(self.copies.pop())
        return super().close()


class RaisesErrors(ProactorBackend):
    """`submit` checks the descriptor, and raises the system's error."""

    breaks = "errors-complete"

    def submit(self, operation: Operation) -> None:
        if operation.fd >= 0 and operation.code != POLL:
            os.fstat(operation.fd)
        super().submit(operation)


class BufferReleased(ProactorBackend):
    """The buffers of a send are released when it has been submitted."""

    breaks = "buffers"

    def submit(self, operation: Any) -> None:
        if operation.code == SEND:
            operation.buffers = [bytes(buffer) for buffer in operation.buffers]
        super().submit(operation)


class BufferKept(ProactorBackend):
    """Ended operations are kept, together with their buffers."""

    breaks = "buffers"

    def __init__(self) -> None:
        super().__init__()
        self.history: list[Any] = []

    def submit(self, operation: Any) -> None:
        super().submit(operation)
        self.history += [operation, *getattr(operation, "buffers", ())]


class SharedMemory(ProactorBackend):
    """There is one piece of memory to lend, even while it is still in use."""

    breaks = "lending"

    def __init__(self) -> None:
        super().__init__()
        self.memory = bytearray(1 << 16)

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        told = []
        for operation, result, more in super().wait(timeout):
            if hasattr(result, "view"):
                size = len(result.view)
                self.memory[:size] = result.view
                result.give_back()
                result = Borrowed(memoryview(self.memory)[:size])
            told.append((operation, result, more))
        return told


class Borrowed:
    """A piece that is never given back."""

    def __init__(self, view: memoryview) -> None:
        self.view = view

    def give_back(self) -> None:
        pass


class QuietFailure(ProactorBackend):
    """The failure of a quiet operation is treated as a success."""

    breaks = "quiet"

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        told = super().wait(timeout)
        return [(op, 0 if op.quiet and isinstance(result, OSError) else result, more) for op, result, more in told]


class OneAtATime(ProactorBackend):
    """A wait reports one completion, and keeps the rest for the next wait."""

    breaks = "batches"

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Completion] = []

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        self.kept += super().wait(0.0 if self.kept else timeout)
        told, self.kept = self.kept[:1], self.kept[1:]
        return told


class PollGoesOn(ProactorBackend):
    """A Poll is reported again and again while the descriptor is ready."""

    breaks = "polls"

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        told = super().wait(timeout)
        return [(op, result, more or (op.code == POLL and not is_cancelled(result))) for op, result, more in told]


class EdgesForgotten(ProactorBackend):
    """A Poll for edges continues after its first result, as declared, but never reports another arrival."""

    breaks = "edges"

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        told = super().wait(timeout)
        return [
            (op, result, more or (op.code == POLL and op.edges and not is_cancelled(result)))
            for op, result, more in told
        ]


class NoSender(ProactorBackend):
    """A datagram comes without its sender's address."""

    breaks = "datagrams"

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        told = super().wait(timeout)
        return [
            (op, (result[0], None) if op.code == RECEIVE_FROM and isinstance(result, tuple) else result, more)
            for op, result, more in told
        ]


class AcceptedIsInherited(ProactorBackend):
    """An accepted connection is inherited by every child program."""

    breaks = "accepting"

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        told = super().wait(timeout)
        for operation, result, _ in told:
            if operation.code == ACCEPT and isinstance(result, int):
                os.set_inheritable(result, True)
        return told


class LimitIgnored(ProactorBackend):
    """A receive returns more bytes than its limit."""

    breaks = "receiving"

    def submit(self, operation: Any) -> None:
        if operation.code == RECEIVE:
            operation.limit *= 2
        super().submit(operation)


class SaysTooMuch(ProactorBackend):
    """A send reports that it took every byte."""

    breaks = "sending"

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        told = super().wait(timeout)
        return [
            (op, sum(map(len, op.buffers)) if op.code == SEND and isinstance(result, int) else result, more)
            for op, result, more in told
        ]


class ForgetsAtClose(ProactorBackend):
    """`close` does not return the operations that had not ended."""

    breaks = "close-returns"

    def close(self) -> Sequence[Operation]:
        super().close()
        return []


class ConnectLies(ProactorBackend):
    """A refused connection is reported as established."""

    breaks = "errors-complete"

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        return [(op, None if op.code == CONNECT else result, more) for op, result, more in super().wait(timeout)]


class CompletionsAreLists(ProactorBackend):
    """A completion is a list, which compiled code does not take for a tuple."""

    breaks = "shape"

    def wait(self, timeout: float | None) -> Sequence[Any]:
        return [[*each] for each in super().wait(timeout)]


class MoreIsANumber(ProactorBackend):
    """`more` is 1 or 0."""

    breaks = "shape"

    def wait(self, timeout: float | None) -> Sequence[Any]:
        return [(operation, result, int(more)) for operation, result, more in super().wait(timeout)]


class CollectsCompletions(ProactorBackend):
    """A wait that has found completions sleeps for 120 ms, to report more of them at once."""

    breaks = "timeouts"

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        told = super().wait(timeout)
        if told:
            time.sleep(0.12)
        return told


class EarlyCompletionTimeout(ProactorBackend):
    """A wait ends a little early, and the loop spins until the deadline."""

    breaks = "timeouts"

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        return super().wait(timeout if timeout is None else timeout * 0.5)


class LostCompletionWake(ProactorBackend):
    """A wake that arrives while no wait is under way is dropped."""

    breaks = "wakes"
    waiting = False

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        self.waiting = True
        try:
            return super().wait(timeout)
        finally:
            self.waiting = False

    def wake(self) -> None:
        if self.waiting:
            super().wake()


class ForgetsForeignCancels(ProactorBackend):
    """A cancel from another thread is ignored: the operation continues."""

    breaks = "any-thread"
    owner = 0

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        self.owner = threading.get_ident()
        return super().wait(timeout)

    def cancel(self, operation: Operation) -> None:
        if self.owner in (0, threading.get_ident()):
            super().cancel(operation)


class Deaf(PollBackend):
    """Does not hear the wakes of a `cancel`."""

    is_deaf = False

    def wake(self) -> None:
        if not self.is_deaf:
            super().wake()


class CancelWakesNobody(ProactorBackend):
    """An operation cancelled in the middle of a wait has ended, but the wait keeps blocking."""

    breaks = "any-thread"

    def __init__(self) -> None:
        self.deaf = Deaf()
        super().__init__(self.deaf)

    def cancel(self, operation: Operation) -> None:
        self.deaf.is_deaf = True
        super().cancel(operation)
        self.deaf.is_deaf = False


class ReportsAndReturns(ProactorBackend):
    """An operation that `close` returns is also reported by the wait that was under way."""

    breaks = "any-thread"
    returned: Sequence[Operation] = ()

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        try:
            return super().wait(timeout)
        except BackendClosedError:
            told, self.returned = self.returned, ()
            if not told:
                raise
            return [(operation, OSError(errno.ECANCELED, "closed"), False) for operation in told]

    def close(self) -> Sequence[Operation]:
        returned = super().close()
        self.returned = self.returned or returned
        return returned


class SubmitInWaitIsLost(ProactorBackend):
    """An operation that a finalizer or a signal handler submits in the middle of `wait` is dropped."""

    breaks = "any-thread"
    inside = False

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        self.inside = True
        try:
            return super().wait(timeout)
        finally:
            self.inside = False

    def submit(self, operation: Operation) -> None:
        if not self.inside:
            super().submit(operation)


class CloseRefusesFinalizers(ProactorBackend):
    """`close` refuses a call from a finalizer in the middle of `wait`."""

    breaks = "any-thread"
    inside = False

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        self.inside = True
        try:
            events = super().wait(timeout)
            _ = [[] for _ in range(100)]  # the collector runs at one of these, if it has not before
            return events
        finally:
            self.inside = False

    def close(self) -> Sequence[Operation]:
        if self.inside and is_in_a_finalizer():
            raise RuntimeError("the backend is waiting")
        return super().close()


class LateSubmitIsLost(ProactorBackend):
    """`submit` looks for `close` first only: a Receive that it queues afterwards is never returned."""

    breaks = "close-returns"
    has_lost = False

    def submit(self, operation: Operation) -> None:
        try:
            super().submit(operation)
        except BackendClosedError:
            if operation.code != RECEIVE or self.has_lost:
                raise
            self.has_lost = True


class ResultsAreLost(ProactorBackend):
    """A wait during which the port is closed drops the completions that it has taken."""

    breaks = "any-thread"
    is_closed = False

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        told = super().wait(timeout)
        time.sleep(0.005)  # another thread runs
        return [] if self.is_closed else told

    def close(self) -> Sequence[Operation]:
        self.is_closed = True
        return super().close()


class AcceptedIsLost(ProactorBackend):
    """An accepted connection that was never reported stays open when the port is closed."""

    breaks = "descriptors"

    def close(self) -> Sequence[Operation]:
        self.extra = socket.socket()
        return super().close()
