"""One program that uses a bit of everything, and its stream of hook calls, as text.

The stream of a backend is compared with that of a built-in one, recorded in the same run: `select` for readiness
ports, `proactor` for completion ports, where sends are events, too. Both are the same because of how the program is
made:

- Polls are skipped without limit while there is work, so every wait of the program's is for exactly one event: the
  peer's bytes, a child's end, a signal. Two descriptors are never ready at the same time.
- The clock stands still except for waits that end without an event, which advance it by their timeout.
- A job has finished before `submit` returns, so its thread and the loop's never run at the same time.
- The child does nothing until it receives a line, and then one thing.

Differences that ports are free to make are removed from the text: the order of events that one wait returned, and polls
with a timeout of 0 that found nothing (core polls once after each submission, and ports differ in which of them they
need).
"""

import asyncio
import os
import signal
import socket
import sys
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import loopcore
from loopcore.ports.completion import Backend, is_completion_backend
from loopcore.ports.readiness import Capability
from loopcore.selection.discovery import choose_backend
from loopcore.testing.clock import VirtualClock
from loopcore.testing.hooks.recorder import Recorder

CHILD = 'read word; echo "$word"; read word; exec 1>&-; read word; exec 0<&-; read word <&2'
"""Echoes a line; closes its output when it gets another, its input at the third; ends when descriptor 2 closes."""

VAIN_POLL = [
    "phase_begin loop=loop phase=poll",
    "poll_begin loop=loop timeout=0.000000",
    "poll_end loop=loop events=0 waited_ns=ns",
    "phase_end loop=loop phase=poll count=0",
]
"""The lines of a poll that does not wait and finds nothing."""


class Passing:
    """Advances the clock by the timeout of a wait without events."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.timeout: float | None = None

    @loopcore.hookimpl
    def loopcore_poll_begin(self, timeout: float | None) -> None:
        self.timeout = timeout

    @loopcore.hookimpl
    def loopcore_poll_end(self, events: int) -> None:
        if not events and self.timeout is not None:
            self.clock.at += self.timeout


class Patient(ThreadPoolExecutor):
    """Waits for each job after submitting it."""

    def submit(self, *call: Any, **options: Any) -> "Future[Any]":
        future = super().submit(*call, **options)
        wait([future])
        return future


class Party(asyncio.Protocol, asyncio.DatagramProtocol, asyncio.SubprocessProtocol):
    """One end of any connection; `heard` is a future for its next event."""

    def __init__(self, loop: asyncio.AbstractEventLoop, answers: bool = False) -> None:
        self.loop = loop
        self.answers = answers
        self.made = loop.create_future()
        self.lost = loop.create_future()
        self.heard: asyncio.Future[Any] = loop.create_future()
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.made.set_result(None)

    def data_received(self, data: bytes) -> None:
        if self.answers:
            self.transport.write(data)
        self.hear(data)

    def datagram_received(self, data: bytes, address: Any) -> None:
        if self.answers:
            self.transport.sendto(data, address)
        self.hear(data)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.hear(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self.hear((fd, exc))

    def process_exited(self) -> None:
        self.hear("exited")

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)

    def hear(self, what: object) -> None:
        if not self.heard.done():
            self.heard.set_result(what)

    async def next(self) -> Any:
        what = await self.heard
        self.heard = self.loop.create_future()
        return what


async def scheduling(loop: Any) -> None:
    """Every queue, in order, and with errors."""
    check = loop.add_phase_callback("check", int)
    loop.call_later(0.002, int)
    loop.call_later(0.001, int).cancel()
    loop.call_immediate(loop.next_tick, int)
    loop.queue_microtask(int)
    loop.call_soon(int).cancel()
    loop.call_soon_threadsafe(int)
    loop.call_soon(int, "not a number")
    await asyncio.sleep(0.003)
    check.cancel()
    loop._microtasks.budget = 1
    loop.next_tick(loop.next_tick, int)
    await asyncio.sleep(0)
    loop._microtasks.budget = 100


async def tasks(loop: "loopcore.EventLoop") -> None:
    """Tasks that return, fail, are cancelled, start eagerly, and wait for each other."""
    gate, never = loop.create_future(), loop.create_future()

    async def waiting(future: "asyncio.Future[None]") -> None:
        return await future

    async def failing() -> None:
        await asyncio.sleep(0)
        raise LookupError("as planned")

    first = loop.create_task(waiting(gate), name="first")
    second = loop.create_task(waiting(gate), name="second")
    cancelled = loop.create_task(waiting(never), name="cancelled")
    failed = loop.create_task(failing(), name="failed")
    eager = loop.create_task(waiting(gate), name="eager", eager_start=True)
    together = asyncio.gather(first, second, cancelled, failed, eager, return_exceptions=True)
    await asyncio.sleep(0)
    cancelled.cancel()
    loop.call_soon(gate.set_result, None)
    await together


async def stream(loop: asyncio.AbstractEventLoop) -> None:
    """A TCP connection that is accepted, echoes, is paused and ends."""
    served = Party(loop, answers=True)
    listening = socket.create_server(("127.0.0.1", 0))
    server = await loop.create_server(lambda: served, sock=listening)
    sock = socket.create_connection(listening.getsockname())
    sock.setblocking(False)
    await served.made
    transport, client = await loop.create_connection(lambda: Party(loop), sock=sock)
    for word in (b"one", b"two"):
        transport.write(word)
        await served.next()
        await client.next()
    transport.pause_reading()
    transport.resume_reading()
    transport.close()
    await client.lost
    await served.lost
    server.close()


async def datagrams(loop: asyncio.AbstractEventLoop) -> None:
    """A datagram there and back."""
    near, served = await loop.create_datagram_endpoint(lambda: Party(loop, answers=True), ("127.0.0.1", 0))
    address = near.get_extra_info("sockname")
    transport, client = await loop.create_datagram_endpoint(lambda: Party(loop), remote_addr=address)
    transport.sendto(b"word")
    await served.next()
    await client.next()
    transport.close()
    near.close()
    await client.lost
    await served.lost


async def child(loop: Any) -> None:
    """A child process that is written to, read from, and ends."""
    there, here = os.pipe()
    transport, party = await loop.subprocess_exec(lambda: Party(loop), "/bin/sh", "-c", CHILD, stderr=there)
    os.close(there)
    stdin = transport.get_pipe_transport(0)
    for word in (b"word\n", b"next\n", b"last\n"):
        stdin.write(word)
        await party.next()
    os.close(here)
    await party.lost
    transport.close()


async def job(loop: asyncio.AbstractEventLoop) -> None:
    """A job that returns and one that fails."""
    await loop.run_in_executor(None, sorted, "word")
    try:
        await loop.run_in_executor(None, int, "not a number")
    except ValueError:
        pass


async def signals(loop: asyncio.AbstractEventLoop) -> None:
    """A signal that the process sends to itself."""
    came = loop.create_future()
    loop.add_signal_handler(signal.SIGUSR1, came.set_result, None)
    signal.raise_signal(signal.SIGUSR1)
    await came
    loop.remove_signal_handler(signal.SIGUSR1)


async def program(loop: "loopcore.EventLoop") -> None:
    for part in (scheduling, tasks, stream, datagrams, child, job, signals):
        await loop.create_task(part(loop), name=part.__name__)


def reference_for(backend: Backend) -> Any:
    """Return a new built-in backend that must produce the stream of `backend`; `record` closes it."""
    if not is_completion_backend(backend):
        return choose_backend("select").factory()
    port: Any = choose_backend("proactor").factory()
    port.capabilities |= backend.capabilities & {Capability.CHEAP_POLLS}  # core does more of the work over such a port
    return port


def record(backend: Backend | str) -> list[str]:
    """Run the program on `backend`, a name or a backend, which is closed with its loop; return its hook calls."""
    clock = VirtualClock()
    recorder = Recorder()
    loop = loopcore.EventLoop(backend, clock=clock, plugins=[Passing(clock), recorder])
    loop.poll_skip_time, loop.poll_skip_ticks = float("inf"), sys.maxsize - 1
    loop.set_exception_handler(lambda *_: None)
    with Patient(1) as pool:
        loop.set_default_executor(pool)
        try:
            main = loop.create_task(program(loop), name="main")
            loop.run_until_complete(main)
        finally:
            loop.close()
    return in_one_order(without_vain_polls(Script(loop).write(recorder.seen)))


def without_vain_polls(lines: list[str]) -> list[str]:
    """Remove the poll phases that did not wait and found nothing."""
    kept: list[str] = []
    for line in lines:
        kept.append(line)
        if kept[-len(VAIN_POLL) :] == VAIN_POLL:
            del kept[-len(VAIN_POLL) :]
    return kept


def in_one_order(lines: list[str]) -> list[str]:
    """Sort the callbacks of each io phase: a port may return the events of one wait in any order."""
    ordered: list[str] = []
    runs: list[list[str]] = []
    is_io = False
    for line in lines:
        if line == "phase_begin loop=loop phase=io":
            is_io = True
            ordered.append(line)
        elif line.startswith("phase_end loop=loop phase=io "):
            is_io = False
            ordered.extend(step for run in sorted(runs) for step in run)
            runs.clear()
            ordered.append(line)
        elif not is_io:
            ordered.append(line)
        elif line.startswith("handle_begin ") or not runs:
            runs.append([line])
        else:
            runs[-1].append(line)
    return ordered


class Script:
    """Writes calls down without what differs between runs: objects are numbered in order of appearance."""

    def __init__(self, loop: object) -> None:
        self.loop = loop
        self.numbers: dict[str, dict[int, int]] = {}

    def write(self, calls: list[tuple[str, dict[str, Any]]]) -> list[str]:
        """Return a line for each call."""
        return [
            " ".join([hook.removeprefix("loopcore_"), *(f"{key}={self.say(key, told[key])}" for key in told)])
            for hook, told in calls
        ]

    def say(self, key: str, value: Any) -> str:
        if value is self.loop:
            return "loop"
        if key == "waited_ns":
            return "ns" if value >= 0 else "before it began"
        if key == "backend":
            return "backend"
        if isinstance(value, float):
            return f"{value:.6f}"
        if value is None or isinstance(value, (int, str)):
            return str(value)
        if isinstance(value, dict):
            return f"<{value['message'].split(' ', 3)[:3]} {value.get('exception')!r}>"
        if isinstance(value, BaseException):
            return repr(value)
        kind = type(value).__name__
        if isinstance(value, asyncio.Task):
            return f"{kind}:{value.get_name()}"
        if kind == "Job":
            times = 0 < value.submitted_ns <= value.started_ns <= value.finished_ns
            return f"<{value.function.__name__} in {value.pool}, times {times}, {value.error!r}>"
        numbers = self.numbers.setdefault(kind, {})
        return f"{kind}:{numbers.setdefault(id(value), len(numbers))}"
