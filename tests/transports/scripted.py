"""A completion port that does as it is told: what an operation ends with, and when, is a test's to say.

Descriptors are real; only what the port would do with them is left undone. `complete` queues what the next wait
returns. A wait that nothing would end fails the test that let it come to that.
"""

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest

import loopcore
from loopcore.ports.completion import Completion
from loopcore.ports.operations import NAMES, Operation
from loopcore.ports.readiness import Capability, ProbeResult
from tests.coroutines import Run
from tests.transports.recorder import settle, unix_pair


class ScriptedPort:
    """Records what is submitted and cancelled."""

    name = "scripted"

    def __init__(self, capabilities: frozenset[Capability] = frozenset()) -> None:
        self.capabilities = capabilities
        self.submitted: list[Operation] = []
        """Everything, in order; an operation that was submitted again is in here again."""
        self.in_flight: list[Operation] = []
        self.cancelled: list[Operation] = []
        self.script: list[Completion] = []
        self.waits = 0
        self.is_woken = False
        self.is_closed = False

    @classmethod
    def probe(cls) -> ProbeResult:
        return ProbeResult(True)

    def submit(self, operation: Operation) -> None:
        assert operation not in self.in_flight, f"{operation!r} is in flight"
        self.submitted.append(operation)
        self.in_flight.append(operation)

    def cancel(self, operation: Operation) -> None:
        if operation in self.in_flight:
            self.cancelled.append(operation)

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        self.waits += 1
        told, self.script = self.script, []
        assert told or self.is_woken or timeout is not None, f"nothing will ever end this wait; {self.in_flight}"
        self.is_woken = False
        return told

    def wake(self) -> None:
        self.is_woken = True

    def close(self) -> Sequence[Operation]:
        self.is_closed = True
        ended, self.in_flight = self.in_flight, []
        return ended

    # For tests

    def complete(self, operation: Operation, result: Any, more: bool = False) -> None:
        """Let the next wait say that `operation` has ended with `result`, or has brought it if there is `more`."""
        assert operation in self.in_flight, f"{operation!r} is not in flight"
        if not more:
            self.in_flight.remove(operation)
        self.script.append((operation, result, more))

    def end_cancelled(self) -> None:
        """End everything that was cancelled and is in flight still."""
        for operation in self.cancelled:
            if operation in self.in_flight:
                self.complete(operation, OSError(errno.ECANCELED, os.strerror(errno.ECANCELED)))
        self.cancelled.clear()

    def only(self, kind: type[Any]) -> Any:
        """Return the one operation of `kind` that is in flight."""
        (found,) = [operation for operation in self.in_flight if isinstance(operation, kind)]
        return found

    def kinds(self) -> list[str]:
        """Return what is in flight, by name."""
        return [NAMES[operation.code] for operation in self.in_flight]


def loop_over(port: ScriptedPort) -> Any:
    """Return a loop over `port` that polls in every tick."""
    loop = loopcore.EventLoop(port)
    loop.poll_skip_ticks = 0
    return loop


def scripted_loop(capabilities: frozenset[Capability] = frozenset()) -> tuple[Any, ScriptedPort]:
    """Return a loop that polls in every tick, and the port that it stands on."""
    port = ScriptedPort(capabilities)
    return loop_over(port), port


class Piece:
    """Memory of the port's that is lent out."""

    def __init__(self, data: bytes) -> None:
        self.memory = bytearray(data)
        self.view = memoryview(self.memory)
        self.returns = 0

    def give_back(self) -> None:
        self.view.release()
        self.memory[:] = b"?" * len(self.memory)  # whoever still looks at it is found out
        self.returns += 1


def scripted_fixtures(capabilities: frozenset[Capability] = frozenset()) -> tuple[Any, Any, Any]:
    """Return the fixtures `port`, `loop` and `run` of a module: its coroutine tests run on a loop over a scripted port.

    They have no limit of time, which would be a timeout of the waits.
    """

    @pytest.fixture
    def port() -> ScriptedPort:
        return ScriptedPort(capabilities)

    @pytest.fixture
    def loop(port: ScriptedPort) -> Iterator[Any]:
        made = loop_over(port)
        yield made
        made.close()

    @pytest.fixture
    def run(loop: Any) -> Run:
        return loop.run_until_complete  # type: ignore[no-any-return]

    return port, loop, run


def content(send: Any) -> bytes:
    """Return what a Send offers."""
    return b"".join(bytes(buffer) for buffer in send.buffers)[send.head :]


def running(main: Any, capabilities: frozenset[Capability] = frozenset()) -> None:
    """Run `main(loop, port)` on a loop over a scripted port, and close that."""
    loop, port = scripted_loop(capabilities)
    try:
        loop.run_until_complete(main(loop, port))
    finally:
        loop.close()
        asyncio.set_event_loop(None)


@contextlib.asynccontextmanager
async def connection(
    port: ScriptedPort, protocol: Any, make_pair: Callable[[], tuple[socket.socket, socket.socket]] = unix_pair
) -> AsyncIterator[tuple[Any, socket.socket]]:
    """Yield a transport that receives, and the peer's socket."""
    near, far = make_pair()
    with far:
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, near)
        await settle()
        yield transport, far
        transport.abort()
        await settle()
        port.end_cancelled()
        await settle()
        assert port.in_flight == []
