"""SimBackend: the completion port of a simulated host."""

import errno
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from loopcore.errors import UsageError
from loopcore.ports.completion import Completion
from loopcore.ports.interest import READ, WRITE
from loopcore.ports.operations import (
    ACCEPT,
    CLOSE,
    CONNECT,
    OPEN,
    POLL,
    READ_FILE,
    RECEIVE,
    RECEIVE_FROM,
    SEND,
    SEND_TO,
    SHUTDOWN,
    STAT,
    SYNC,
    WRITE_FILE,
    Close,
    Operation,
    name_of,
)
from loopcore.ports.readiness import Capability, ProbeResult
from loopcore.sim import current
from loopcore.sim.tape import Tape
from loopcore_backends import _refusals
from loopcore_backends.sim import names
from loopcore_backends.sim.clock import WorldClock
from loopcore_backends.sim.datagrams import DatagramSocket
from loopcore_backends.sim.descriptors import Description, error, is_simulated
from loopcore_backends.sim.files.calls import perform
from loopcore_backends.sim.files.descriptor import OpenFile
from loopcore_backends.sim.installing import installed
from loopcore_backends.sim.replacing import real_functions
from loopcore_backends.sim.socket_base import Socket
from loopcore_backends.sim.world import SECOND, Event, Loops, World, the_world

_MULTISHOT: Final = frozenset((ACCEPT, RECEIVE, RECEIVE_FROM))
_FILE_CODES: Final = frozenset((OPEN, SYNC, STAT, CLOSE))
_OF_SOCKETS: Final = frozenset((ACCEPT, CONNECT, RECEIVE_FROM, SEND_TO, SHUTDOWN))
_SHOTS: Final = 16
"""The most results of one operation in one wait."""


class _Flight:
    """An operation in flight: kept in `operation.slot`."""

    __slots__ = ("port", "operation", "description", "address", "begun", "data", "is_over")

    def __init__(self, port: "SimBackend", operation: Operation, description: Description) -> None:
        self.port = port
        self.operation = operation
        self.description = description
        self.address: Any = None
        """Where it connects or sends to, with the host's name resolved."""
        self.begun: int = 0
        """Bytes sent so far, or 1 once a connect has been sent out."""
        self.data = b""
        """What it sends: the program may resize its buffers meanwhile."""
        self.is_over = False

    def changed(self, description: Description) -> None:
        """Try again in the next wait."""
        if not self.is_over:
            self.port.try_again(self)


class _LentBytes:
    """Received data as a piece of memory. `view` is no longer valid after `give_back`."""

    __slots__ = ("view",)

    def __init__(self, data: bytes) -> None:
        self.view: memoryview = memoryview(data)

    def give_back(self) -> None:
        """Release the memory. A second call has no effect."""
        try:
            self.view.release()
        except BufferError:
            pass  # another view of it still exists


class SimBackend:
    """A completion port over the descriptors of a simulation, for one host's loop."""

    name: str = "sim"
    capabilities: frozenset[Capability] = frozenset(
        {Capability.FILES, Capability.LARGE_DESCRIPTORS, Capability.FLAT_COST}
    )
    backend_api = (1, 0)

    @classmethod
    def probe(cls) -> ProbeResult:
        """Say that it runs in simulations only."""
        if current.is_running():
            return ProbeResult(True)
        return ProbeResult(False, "it runs in simulations only: loopcore.sim.run(main), or loopcore sim run FILE")

    @classmethod
    def new_world(cls, tape: Tape, loops: Loops) -> World:
        """Return a new simulation whose choices come from `tape`, and whose hosts run loops of `loops`."""
        return World(tape, loops)

    @classmethod
    def inside(cls, world: World) -> AbstractContextManager[None]:
        """Return a context manager: within it Python's functions are those of `world`."""
        return installed(world)

    @classmethod
    def outside(cls) -> AbstractContextManager[None]:
        """Return a context manager: within it Python's functions are the real ones, in this thread."""
        return real_functions()

    def __init__(self) -> None:
        """Wait for what happens in the simulation that runs. Raises UsageError outside one."""
        self._world = the_world()
        self._host = self._world.host
        self.clock = WorldClock(self._world, self._host)
        """The simulated clock; the loop uses it."""
        self._done: list[Completion] = []
        self._to_try: list[_Flight] = []
        self._in_flight: dict[int, _Flight] = {}
        self._files: dict[Operation, Event] = {}
        """Operations of files that have not happened yet, and their events. They cannot be cancelled."""
        self._woken = False
        self._is_closed = False
        self._is_main = self._host is self._world.main
        self._calls: dict[int, Callable[[_Flight], Any]] = {
            ACCEPT: self._accept,
            CONNECT: self._connect,
            RECEIVE: _receive,
            SEND: self._send,
            RECEIVE_FROM: self._receive_from,
            SEND_TO: self._send_to,
            SHUTDOWN: self._shutdown,
            POLL: self._poll,
            READ_FILE: lambda flight: flight.description.read(flight.operation.limit),  # type: ignore[attr-defined]
            WRITE_FILE: self._send,
        }

    # --- the port -----------------------------------------------------------------------------------

    def submit(self, operation: Operation) -> None:
        """Accept `operation`; it is tried in the next wait. An address that sockets refuse raises what they raise."""
        self._must_be_open()
        if operation.slot is not None:
            raise ValueError(f"{operation!r} is in flight; submit it again after its terminal completion")
        code = operation.code
        if code in _FILE_CODES or (code in (READ_FILE, WRITE_FILE) and self._is_file(operation.fd)):
            operation.slot = self
            label = f"{name_of(code).lower()} of {self._host.name}"
            self._files[operation] = self._world.after(0.0, lambda: self._perform(operation), label)
            return
        if code not in self._calls:
            raise UsageError(f"the sim backend does not support {name_of(code)}; see its `capabilities`")
        try:
            flight = self._flight_of(operation)
        except OSError as exc:
            operation.slot = self
            self._done.append((operation, exc.with_traceback(None), False))
            return
        operation.slot = flight
        if code in (SEND, WRITE_FILE):
            flight.data = b"".join(operation.buffers)[operation.head :]  # type: ignore[attr-defined]
        elif code == SEND_TO:
            flight.data = bytes(operation.buffer)  # type: ignore[attr-defined]
        self._in_flight[id(flight)] = flight
        if code == SEND and not self._is_behind(flight):
            self._try(flight)  # as a program that calls send(2) itself does
        else:
            self._to_try.append(flight)

    def _flight_of(self, operation: Any) -> _Flight:
        description = self._world.descriptors.get(operation.fd)
        flight = _Flight(self, operation, description)
        if operation.code in _OF_SOCKETS:
            if not isinstance(description, Socket):
                raise error(errno.ENOTSOCK)
            if operation.code == CONNECT or (operation.code == SEND_TO and operation.address is not None):
                flight.address = names.numeric(self._world, description.family, operation.address)
        return flight

    def cancel(self, operation: Operation) -> None:
        """End `operation`; its terminal completion comes with the next wait."""
        self._must_be_open()
        flight = operation.slot
        if isinstance(flight, _Flight) and flight.port is self and not flight.is_over:
            taken = flight.begun if operation.code in (SEND, WRITE_FILE) else 0
            self._end(flight, taken or OSError(errno.ECANCELED, "the operation was cancelled"))

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        """Let the simulation go on until something completes, the timeout passes in simulated time, or `wake`."""
        self._must_be_open()
        world = self._world
        if world.threads.running is None and (world.host is not self._host or not self._is_main):
            return self._look(timeout)
        world.steps += 1
        self._try_all()
        if timeout is not None and timeout <= 0.0:
            world.poll()
            self._try_all()
        elif not self._is_ready():
            deadline = None if timeout is None else self._moment(timeout)
            world.wait(self._is_ready, deadline)
            self._must_be_open()
            self._try_all()
        self._woken = False
        return self._taken()

    def _look(self, timeout: float | None) -> Sequence[Completion]:
        """The wait of a host whose ticks the world makes: never block, but say when to come back."""
        self._try_all()
        if not self._woken and not self._has_news() and timeout != 0.0:
            self._host.has_stirred = False
            self._host.wakes_at = None if timeout is None else self._moment(timeout)
        elif timeout == 0.0:
            self._world.pass_a_moment()
        self._woken = False
        return self._taken()

    def wake(self) -> None:
        """End the current wait, or else the next."""
        self._woken = True
        self._host.has_stirred = True

    def close(self) -> Sequence[Operation]:
        """Close the port; return the operations that had not ended."""
        if self._is_closed:
            return ()
        self._is_closed = True
        unfinished = dict.fromkeys(flight.operation for flight in self._in_flight.values())
        for operation, result, more in self._done:
            if not more:
                unfinished[operation] = None
            if operation.code in (ACCEPT, OPEN) and isinstance(result, int):
                perform(self._world, Close(result))
        for operation, event in self._files.items():
            event.cancel()
            unfinished[operation] = None
        for flight in self._in_flight.values():
            flight.is_over = True
            flight.description.stop_listening(flight)
        self._done = []
        self._in_flight.clear()
        self._files.clear()
        self._to_try.clear()
        for operation in unfinished:
            operation.slot = None
        return [*unfinished]

    def _moment(self, timeout: float) -> int:
        """Return when the world's clock has gone on so far that `timeout` has passed on this host's, rounded up."""
        return self._world.now_ns + math.ceil(timeout / self._host.clock_rate * SECOND)

    # --- operations ---------------------------------------------------------------------------------

    def try_again(self, flight: _Flight) -> None:
        """Have `flight` tried in the next wait: its descriptor has changed."""
        self._to_try.append(flight)
        self._host.has_stirred = True

    def _is_ready(self) -> bool:
        if self._is_closed or self._woken:
            return True
        if self._to_try:
            self._try_all()
        return self._has_news()

    def _has_news(self) -> bool:
        """Return whether something has completed that ends a wait; the success of a quiet operation does not."""
        return any(not operation.quiet or isinstance(result, OSError) for operation, result, _ in self._done)

    def _is_behind(self, flight: _Flight) -> bool:
        """Return whether another operation waits to write to the same descriptor."""
        return any(
            other.description is flight.description and other.operation.code == SEND and other is not flight
            for other in self._in_flight.values()
        )

    def _try_all(self) -> None:
        while self._to_try:
            flights, self._to_try = self._to_try, []
            for flight in flights:
                if not flight.is_over:
                    self._try(flight)

    def _try(self, flight: _Flight) -> None:
        operation = flight.operation
        call = self._calls[operation.code]
        description = flight.description
        if not description.references:
            self._end(flight, error(errno.EBADF))
            return
        for _ in range(_SHOTS):
            changes = description.changes
            try:
                result = call(flight)
            except BlockingIOError:
                if description.changes == changes:
                    description.listen_for_change(flight)
                else:  # meanwhile: it may not block any more
                    self._to_try.append(flight)
                return
            except OSError as exc:
                self._end(flight, exc.with_traceback(None))
                return
            if operation.code not in _MULTISHOT or result == b"":
                self._end(flight, result)
                return
            self._done.append((operation, result, True))
        self._world.after(0.0, lambda: flight.changed(description), f"more for {self._host.name}")

    def _end(self, flight: _Flight, result: Any) -> None:
        flight.is_over = True
        flight.description.stop_listening(flight)
        self._in_flight.pop(id(flight), None)
        self._done.append((flight.operation, result, False))

    def _taken(self) -> list[Completion]:
        done, self._done = self._done, []
        for operation, _, more in done:
            if not more:
                operation.slot = None
        return done

    def _must_be_open(self) -> None:
        if self._is_closed:
            raise _refusals.closed(self.name)

    def _is_file(self, fd: int) -> bool:
        return not is_simulated(fd) or isinstance(self._world.descriptors.find(fd), OpenFile)

    def _perform(self, operation: Operation) -> None:
        del self._files[operation]
        host, self._world.host = self._world.host, self._host
        try:
            self._done.append((operation, perform(self._world, operation), False))
        finally:
            self._world.host = host
        self._host.has_stirred = True

    # --- what the operations do ---------------------------------------------------------------------

    def _accept(self, flight: _Flight) -> int:
        fd: int = self._world.descriptors.install(flight.description.accept())  # type: ignore[attr-defined]
        self._world.descriptors.get(fd).blocking = False
        return fd

    def _connect(self, flight: _Flight) -> OSError | None:
        sock: Any = flight.description
        if not flight.begun:
            flight.begun = 1
            try:
                sock.connect(flight.address)
                return None
            except BlockingIOError as exc:
                if exc.errno != errno.EINPROGRESS:
                    return exc.with_traceback(None)  # the queue of a Unix socket is full
        if sock.state == "connecting":
            raise error(errno.EAGAIN)
        sock.connect(flight.address)  # reports how it ended
        return None

    def _send(self, flight: _Flight) -> int:
        data = flight.data
        taken = flight.begun
        while taken < len(data) or not data:
            try:
                taken += flight.description.write(memoryview(data)[taken:])
            except BlockingIOError:
                flight.begun = taken
                raise
            except OSError:
                if taken:
                    break
                raise
            if not data:
                break
        return taken

    def _receive_from(self, flight: _Flight) -> Any:
        sock: Any = flight.description
        limit: int = flight.operation.limit  # type: ignore[attr-defined]
        if not isinstance(sock, DatagramSocket):
            return sock.read(limit), None
        data, address = sock.receive(limit)
        return data[:limit], address

    def _send_to(self, flight: _Flight) -> int:
        sock: Any = flight.description
        return int(sock.write(flight.data) if flight.address is None else sock.send_to(flight.data, flight.address))

    def _shutdown(self, flight: _Flight) -> None:
        flight.description.shutdown(flight.operation.how)  # type: ignore[attr-defined]

    def _poll(self, flight: _Flight) -> int:
        operation: Any = flight.operation
        bits = flight.description.poll()
        found = bits & operation.interest & (READ | WRITE) | bits & ~(READ | WRITE)
        if not found:
            raise error(errno.EAGAIN)
        return int(found)


def _receive(flight: _Flight) -> Any:
    operation: Any = flight.operation
    data = flight.description.read(operation.limit)
    return _LentBytes(data) if operation.lend and data else data
