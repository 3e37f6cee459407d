"""I/O completion ports: Windows does the I/O itself, and reports what is done in packets.

A handle is associated with a port once and for good; from then on each overlapped call on it queues one packet to the
port when it is done, also when it was cancelled. `GetQueuedCompletionStatusEx` takes many of them at a time. A packet
carries the address of the call's OVERLAPPED, which leads to the request, and the request to the operation.

**A descriptor here is what Windows calls a handle**: a SOCKET, or the HANDLE of a pipe created for overlapped I/O
(`asyncio.windows_utils.PipeHandle`), which is what their `fileno()` returns. A C library descriptor, such as
`os.pipe` returns, is not one. A handle can be associated with one port only, which has a price: a socket that another
loop's port has used cannot be used here, unless it is duplicated (`socket.share`).

POLL, which no completion port has, is sent to the driver below Winsock (afd.py). Only the end of a process is not
reported by a packet of one of our calls: a system thread posts a packet for it.

Cancelling is a request too: its packet comes later, and until then the memory stays ours. A Receive has a call in
flight only while core waits: `wait` begins the next one, so that data that was not asked for stays in the kernel, and
cancelling between waits is immediate. Connections and datagrams come in bursts: one wait takes several.

Threads: see `loopcore.ports.completion`. Sources: Microsoft's documentation of the calls. tests/windows runs it under
Wine.
"""

import importlib
import socket
import sys
from collections import deque
from collections.abc import Callable, Sequence
from math import ceil
from threading import get_ident
from time import monotonic
from typing import Any, Final, Protocol

from loopcore.errors import UsageError
from loopcore.ports.completion import Completion
from loopcore.ports.operations import ACCEPT, RECEIVE, RECEIVE_FROM, Operation
from loopcore.ports.readiness import Capability, ProbeResult
from loopcore_backends import _refusals
from loopcore_backends._draining import drain
from loopcore_backends.iocp.errors import NETNAME_DELETED, cancelled, translated

MULTISHOT: Final = frozenset({ACCEPT, RECEIVE, RECEIVE_FROM})

LONGEST: Final = 24 * 3600.0
"""Seconds that are sure to fit the call's count of milliseconds. A longer wait is split into these."""

CROWDS: Final = frozenset({ACCEPT, RECEIVE_FROM})
ROUNDS: Final = 16
"""These come in bursts: one wait takes up to this many of each that are ready."""

CLOSING_PATIENCE: Final = 5.0
"""Seconds that `close` waits for the packets of the calls it has cancelled, which are normally there at once."""

WAKE: Final = 1
"""The key of a wake's packet; it is never the address of an OVERLAPPED."""

_stranded: list[Any] = []
"""Requests whose packets never came before their port was closed: the kernel may still write into their memory."""


class Call(Protocol):
    """A request, as the backend needs it (requests.py, afd.py)."""

    key: int

    def result(self) -> Any: ...

    def cancel(self) -> None: ...

    def drop(self) -> None: ...


class System(Protocol):
    """The layer below the backend: Windows (windows.py), or a test's stand-in."""

    def knows(self, operation: Operation) -> bool:
        """Tell whether there is a call for `operation`."""
        ...

    def begin(self, operation: Operation, before: Any) -> tuple[Call | None, Any]:
        """Begin; return the call whose packet will come, or None and the result. `before` is the previous call.

        Raises OSError.
        """
        ...

    def take(self, timeout_ms: int) -> list[int]:
        """Wait for packets, and return their keys; the wake's is WAKE.

        It is always the same list: keys left in it are returned again, without waiting. So are the packets of a
        call that an exception interrupted.
        """
        ...

    def wake(self) -> None:
        """Post a packet. Thread: any."""
        ...

    def close(self) -> None: ...


class Lent:
    """Received bytes, lent. Here each has separate memory, so giving it back only releases the view."""

    __slots__ = ("view",)

    def __init__(self, received: bytes) -> None:
        self.view = memoryview(received)

    def give_back(self) -> None:
        self.view.release()


class _Flight:
    """The backend's record of an operation in flight."""

    __slots__ = ("before", "call", "is_cancelled", "operation")

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.call: Call | None = None  # None: between two calls of a multishot operation, or ended
        self.before: Any = None
        self.is_cancelled = False


class IocpBackend:
    """Completions from an I/O completion port. `system` is for tests."""

    name: str = "iocp"
    capabilities: frozenset[Capability] = frozenset(
        {
            Capability.LARGE_DESCRIPTORS,
            Capability.FLAT_COST,
            Capability.HANDLES,
            Capability.PROCESSES,
            Capability.SEND_FILE,
        }
    )
    backend_api = (1, 0)

    @classmethod
    def probe(cls) -> ProbeResult:
        if sys.platform != "win32":
            return ProbeResult(False, "I/O completion ports exist on Windows only; use 'auto' for the best one here")
        try:
            _windows().probe()
        except (ImportError, OSError) as exc:
            return ProbeResult(False, f"{exc}; use select here")
        return ProbeResult(True)

    def __init__(self, system: Callable[[], System] | None = None) -> None:
        if system is None:
            system = _windows().WindowsSystem
        self._system: System | None = system()
        self._to_close: list[System] = [self._system]  # empty as soon as a call has begun to take it apart
        self._flights: dict[int, _Flight] = {}
        self._done: list[Completion] = []
        self._to_begin: dict[_Flight, None] = {}
        self._wake_is_posted = False
        self._asked: deque[_Flight] = deque()  # cancellations to carry out between two steps of a wait
        self._owner = 0  # the thread that waited last; 0: none has yet
        self._is_busy = False  # a call is working on the queues, in whichever thread
        self._unfinished: deque[Operation] = deque()  # what the next `close` returns

    def submit(self, operation: Operation) -> None:
        was_busy, self._is_busy = self._is_busy, True
        try:
            self._submit(self._open(), operation)
        finally:
            self._leave(was_busy)

    def _submit(self, system: System, operation: Operation) -> None:
        if operation.slot is not None:
            raise ValueError(f"{operation!r} is in flight already")
        if not system.knows(operation):
            raise UsageError(f"the iocp backend cannot do {operation!r}")
        operation.slot = flight = _Flight(operation)
        try:
            self._begin(system, flight)
        except BaseException:
            operation.slot = None
            raise

    def cancel(self, operation: Operation) -> None:
        self._open()
        flight: _Flight | None = operation.slot
        if flight is None or flight.is_cancelled:
            return
        if self._is_busy or self._owner not in (0, get_ident()):
            # A finalizer, a signal handler or another thread: between two steps the queues are consistent.
            self._asked.append(flight)
            self.wake()
            return
        self._is_busy = True
        try:
            self._open()
            self._cancel(flight)
        finally:
            self._leave(False)

    def _cancel(self, flight: _Flight) -> None:
        if flight.is_cancelled or flight.operation.slot is not flight:
            return  # it has ended since
        flight.is_cancelled = True
        if flight in self._to_begin:
            del self._to_begin[flight]
            self._end(flight, cancelled())
        elif flight.call is not None:
            flight.call.cancel()

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        self._owner = get_ident()
        self._is_busy = True
        try:
            self._wait(self._open(), timeout)
            done, self._done = self._done, []
            return done
        finally:
            self._leave(False)

    def _wait(self, system: System, timeout: float | None) -> None:
        self._cancel_what_was_asked_for()
        self._begin_again(system, MULTISHOT)
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            left = 0.0 if self._done else LONGEST if deadline is None else min(deadline - monotonic(), LONGEST)
            woken = self._packets(system.take(max(ceil(left * 1000.0), 0)))
            self._cancel_what_was_asked_for()
            if self._done or woken or (deadline is not None and monotonic() >= deadline):
                break
        for _ in range(ROUNDS):
            if not self._begin_again(system, CROWDS):
                break
            self._packets(system.take(0))

    def _cancel_what_was_asked_for(self) -> None:
        while self._asked:
            self._cancel(self._asked[0])
            self._asked.popleft()  # afterwards: an exception in the line above must not lose it

    def _leave(self, is_busy: bool) -> None:
        """End a call; then do what `close` has left to it."""
        self._is_busy = is_busy
        if not is_busy and self._system is None:
            self._take_apart()

    def _take_apart(self) -> None:
        """Close the system, and note what is unfinished. Once, and while no call is at work."""
        try:
            system = self._to_close.pop()
        except IndexError:
            return
        ended = dict.fromkeys(self._drop_done())  # an operation that is just ending may be in two places
        for flight in [*self._to_begin, *self._flights.values()]:
            ended[flight.operation] = None
        for operation in ended:
            operation.slot = None
        self._drain(system)
        system.close()
        self._unfinished.extend(ended)

    def wake(self) -> None:
        # A local reference: another thread may close the backend meanwhile.
        system = self._system
        if system is not None and not self._wake_is_posted:
            self._wake_is_posted = True
            system.wake()

    def close(self) -> Sequence[Operation]:
        """As in the port. During a call that call does the work, when it ends; the next `close` returns the rest."""
        system, self._system = self._system, None
        if not self._is_busy:
            self._take_apart()
        elif system is not None:
            system.wake()
        return drain(self._unfinished)

    def _drop_done(self) -> list[Operation]:
        """Drop completions that will never be handed out; return the operations that ended with them."""
        done, self._done = self._done, []
        for operation, result, _ in done:
            if operation.code == ACCEPT and isinstance(result, int):
                socket.close(result)
        return [operation for operation, _, more in done if not more]

    def _drain(self, system: System) -> None:
        """Cancel what is in flight, and wait until the kernel has released its memory."""
        self._to_begin.clear()
        for each in [*self._flights.values()]:
            if each.call is not None and not each.is_cancelled:
                each.call.cancel()
        deadline = monotonic() + CLOSING_PATIENCE
        while self._flights and monotonic() < deadline:
            keys = system.take(100)
            while keys:
                flight = self._flights.pop(keys.pop(), None)
                if flight is not None and flight.call is not None:
                    flight.call.drop()
        _stranded.extend(self._flights.values())
        self._flights.clear()

    def _begin_again(self, system: System, codes: frozenset[int]) -> int:
        """Begin the next call of multishot operations; return how many were begun."""
        waiting = [flight for flight in [*self._to_begin] if flight.operation.code in codes]
        for flight in waiting:
            self._begin(system, flight)
            self._to_begin.pop(flight, None)  # afterwards: an exception in the line above must not lose it
        return len(waiting)

    def _begin(self, system: System, flight: _Flight) -> None:
        try:
            call, result = system.begin(flight.operation, flight.before)
        except OSError as exc:
            self._end(flight, translated(exc))
            return
        if call is None:
            self._end(flight, result)
        else:
            flight.call = call
            self._flights[call.key] = flight

    def _packets(self, keys: list[int]) -> bool:
        """Handle completed calls; tell whether one of the packets was a wake's."""
        woken = False
        while keys:
            # Removed afterwards: an exception here, from a signal handler for one, must not lose a packet.
            if keys[0] == WAKE:
                woken = True
                self._wake_is_posted = False
            else:
                self._packet(keys[0])
            del keys[0]
        return woken

    def _packet(self, key: int) -> None:
        flight = self._flights.pop(key, None)
        if flight is None or flight.call is None:
            return
        call, flight.call = flight.call, None
        operation = flight.operation
        try:
            result = call.result()
        except OSError as exc:
            if flight.is_cancelled:
                self._end(flight, cancelled())
            elif operation.code == ACCEPT and getattr(exc, "winerror", None) == NETNAME_DELETED:
                self._to_begin[flight] = None  # the client has gone again: no reason to stop accepting
            else:
                self._end(flight, translated(exc))
            return
        if operation.code == RECEIVE and result and getattr(operation, "lend", False):
            result = Lent(result)
        if operation.code not in MULTISHOT or flight.is_cancelled or (operation.code == RECEIVE and not result):
            self._end(flight, result)
            return
        flight.before = call
        self._to_begin[flight] = None
        self._done.append((operation, result, True))

    def _end(self, flight: _Flight, result: Any) -> None:
        flight.operation.slot = None
        self._done.append((flight.operation, result, False))

    def _open(self) -> System:
        if self._system is None:
            raise _refusals.closed(self.name)
        return self._system


def _windows() -> Any:
    """Return the module `windows`, which only Windows can import."""
    return importlib.import_module("loopcore_backends.iocp.windows")
