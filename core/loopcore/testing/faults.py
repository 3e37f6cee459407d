"""Backends that do every rare thing that the contract allows, and that a loop must cope with.

`FaultyReadiness` and `FaultyCompletions` wrap a backend that keeps the contract, and still keep it, barely. A
program that runs on one has met spurious readiness (its read gets EAGAIN), events of unregistered descriptors,
reused numbers, spurious ends of waits, events in any order and one at a time, short reads and short
writes. They are chosen at random from a seed, so that a failure can be reproduced:

    loop = EventLoop(FaultyReadiness(PollBackend(), seed=7))

`injected` counts the faults of each kind. Thread: as for any backend.

`Interruptions` works with any backend, faulty or not: while it is active, system calls of a thread end with EINTR.

    with Interruptions() as interruptions:
        loop.run_until_complete(main())
"""

import random
import signal
import threading
from collections import Counter
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any, Final

from loopcore.errors import UsageError
from loopcore.ports.completion import Completion, CompletionBackend
from loopcore.ports.interest import ERROR, HANGUP
from loopcore.ports.operations import RECEIVE, SEND, SEND_FILE, Operation
from loopcore.ports.readiness import Capability, ProbeResult, ReadinessBackend, ReadyEvent

REMEMBERED: Final = 8
"""How many recently unregistered descriptors may still get stale events."""
INTERVAL: Final = 0.0005
"""Seconds between two interruptions."""


class Interruptions:
    """Sends a signal repeatedly while it is entered: a system call that waits is interrupted, and must continue.

    The signal goes to the thread that enters. Its Python handler counts and returns, and must have no other effect
    (PEP 475). It is SIGUSR2, or `number`; the previous handler is restored at the end. Enter it in the main thread, the
    only one that may set handlers; in another thread, and where threads cannot get signals (Windows), entering raises
    UsageError.
    """

    def __init__(self, number: int | None = None) -> None:
        self.count = 0
        self._number = number
        self._handler: "signal._HANDLER" = None
        self._over: threading.Event
        self._sender: threading.Thread | None = None

    def __enter__(self) -> "Interruptions":
        if not hasattr(signal, "pthread_kill"):
            raise UsageError("Interruptions needs pthread_kill(3), which this platform does not have")
        if threading.current_thread() is not threading.main_thread():
            raise UsageError("Interruptions sets a handler of a signal: enter it in the main thread")
        self._number = self._number or signal.SIGUSR2
        self._over = threading.Event()
        self._handler = signal.signal(self._number, self._interrupted)
        self._sender = threading.Thread(target=self._send, args=(threading.get_ident(),), name="interruptions")
        try:
            self._sender.start()
        except BaseException:  # no thread could be started
            signal.signal(self._number, self._handler or signal.SIG_DFL)  # None: it was set by C code
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._sender is not None
        self._over.set()
        self._sender.join()  # the last signal has arrived; `signal` runs pending handlers before it sets another
        signal.signal(self._number or 0, self._handler or signal.SIG_DFL)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        self.count += 1

    def _send(self, thread: int) -> None:
        while not self._over.wait(INTERVAL):
            signal.pthread_kill(thread, self._number or 0)


class _Faulty:
    """A backend over another one, which it owns, and the chance of each fault."""

    name = "faulty"
    backend_api = (1, 0)

    def __init__(self, inner: Any, seed: int, rate: float) -> None:
        self.inner = inner
        self.capabilities: frozenset[Capability] = inner.capabilities
        self.injected: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self._rate = rate

    @classmethod
    def probe(cls) -> ProbeResult:
        """It runs wherever its inner backend does."""
        return ProbeResult(True)

    def wake(self) -> None:
        self.inner.wake()

    def _happens(self, what: str) -> bool:
        happens = self._chance.random() < self._rate
        self.injected[what] += happens
        return happens


class FaultyReadiness(_Faulty):
    """A readiness port over `inner`, which it owns. `rate` is the probability of each fault, from 0 to 1."""

    inner: ReadinessBackend

    def __init__(self, inner: ReadinessBackend, seed: int = 0, rate: float = 0.3) -> None:
        super().__init__(inner, seed, rate)
        self._interests: dict[int, int] = {}
        self._given_up: list[int] = []

    def register(self, fd: int, interest: int) -> None:
        self.inner.register(fd, interest)
        self._interests[fd] = interest

    def modify(self, fd: int, interest: int) -> None:
        self.inner.modify(fd, interest)
        self._interests[fd] = interest

    def unregister(self, fd: int) -> None:
        self.inner.unregister(fd)
        del self._interests[fd]
        self._given_up = [*self._given_up, fd][-REMEMBERED:]

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        """Wait, and report more, fewer or other events than there are. Omitted ones are still ready next time."""
        if self._happens("early end"):
            timeout = 0.0
        events = dict(self.inner.wait(timeout))
        if len(events) > 1 and self._happens("one at a time"):
            fd = self._chance.choice([*events])
            events = {fd: events[fd]}
        if self._interests and self._happens("spurious event"):
            fd = self._chance.choice([*self._interests])
            events[fd] = events.get(fd, 0) | self._interests[fd]
        if self._given_up and self._happens("stale event"):
            events.setdefault(self._chance.choice(self._given_up), ERROR | HANGUP)
        told = [*events.items()]
        self._chance.shuffle(told)
        return told

    def close(self) -> None:
        self.inner.close()


class FaultyCompletions(_Faulty):
    """A completion port over `inner`, which it owns. `rate` is the probability of each fault, from 0 to 1."""

    inner: CompletionBackend

    def __init__(self, inner: CompletionBackend, seed: int = 0, rate: float = 0.3) -> None:
        super().__init__(inner, seed, rate)
        self._whole: dict[Operation, tuple[str, object]] = {}
        self._late: list[Completion] = []

    def submit(self, operation: Any) -> None:
        """Submit the operation, perhaps for only a part of its size."""
        if operation.code == RECEIVE and operation.limit > 1 and self._happens("short read"):
            whole, operation.limit = operation.limit, self._chance.randint(1, min(operation.limit, 16))
            self._submit_instead(operation, "limit", whole)
        elif operation.code == SEND_FILE and operation.count > 1 and self._happens("short sendfile"):
            whole, operation.count = operation.count, self._chance.randint(1, operation.count)
            self._submit_instead(operation, "count", whole)
        elif operation.code == SEND and len(operation.buffers) > 1 and self._happens("short write"):
            whole, operation.buffers = operation.buffers, [operation.buffers[0]]
            self._submit_instead(operation, "buffers", whole)
        else:
            self.inner.submit(operation)

    def _submit_instead(self, operation: Operation, attribute: str, whole: object) -> None:
        try:
            self.inner.submit(operation)
        except BaseException:
            setattr(operation, attribute, whole)
            raise
        self._whole[operation] = (attribute, whole)

    def cancel(self, operation: Operation) -> None:
        if not any(each is operation for each, _, more in self._late if not more):
            self.inner.cancel(operation)

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        """Wait, and keep some of the completions for the next wait, which then does not wait."""
        kept, self._late = self._late, []
        if kept or self._happens("early end"):
            timeout = 0.0
        told = [*kept, *self.inner.wait(timeout)]
        if len(told) > 1 and self._happens("late completion"):
            self._late = told[1:]
            del told[1:]
        for operation, _, _ in told:
            if operation in self._whole:  # only the first result is short; megabytes in tiny pieces would take minutes
                attribute, whole = self._whole.pop(operation)
                setattr(operation, attribute, whole)
        return told

    def close(self) -> Sequence[Operation]:
        unfinished = [*self.inner.close(), *(operation for operation, _, more in self._late if not more)]
        self._late = []
        return unfinished
