"""Metrics of executors, transports and what goes wrong: each is moved by a program, by an amount that is known."""

import asyncio
import contextlib
import os
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args

import pytest

import loopcore
from loopcore_plugins.metrics import record
from loopcore_plugins.watchdog import Cause, Stall
from tests.plugins.metrics.reading import SECONDS, Reader, above_zero, nothing, proves
from tests.transports.recorder import Recorder as Protocol
from tests.transports.recorder import settle, unix_pair
from tests.transports.tls_support import secured

pytestmark = pytest.mark.loopcore_only


@pytest.fixture
def reader(loop: Any) -> Reader:
    return Reader(loop)


# Executors


@proves("loopcore.executor.queue.length", "loopcore.executor.running", "loopcore.executor.jobs")
@proves("loopcore.executor.queue_time", "loopcore.executor.run_time")
async def test_jobs_wait_run_and_end_by_pool(loop: Any, reader: Reader) -> None:
    gate, inside = threading.Event(), threading.Event()

    def work(error: bool) -> None:
        inside.set()
        gate.wait()
        if error:
            raise ZeroDivisionError

    with ThreadPoolExecutor(1) as pool:
        jobs = [loop.run_in_executor(pool, work, error) for error in (False, True, False)]
        inside.wait()
        jobs[-1].cancel()
        await asyncio.sleep(0)
        jobs.append(loop.run_in_executor(pool, int))
        running, waiting = (reader.read(f"loopcore.executor.{name}") for name in ("running", "queue.length"))
        gate.set()
        await asyncio.gather(*jobs, return_exceptions=True)
    assert (running, waiting) == ({"ThreadPoolExecutor": 1}, {"ThreadPoolExecutor": 2})
    outcomes = {"finished": 2, "failed": 1, "cancelled": 1}
    assert reader.read("loopcore.executor.jobs") == {
        ("ThreadPoolExecutor", outcome): count for outcome, count in outcomes.items()
    }
    for name in ("running", "queue.length"):
        assert reader.read(f"loopcore.executor.{name}") == {"ThreadPoolExecutor": 0}
    for name in ("queue_time", "run_time"):
        assert reader.read(f"loopcore.executor.{name}")["ThreadPoolExecutor"].count == 3


@proves("loopcore.executor.run_time")
def test_the_default_pool_and_look_ups_of_names_are_told_apart(loop: Any, reader: Reader) -> None:
    async def main() -> None:
        await asyncio.to_thread(time.sleep, SECONDS)
        await loop.getaddrinfo("localhost", 80)
        await loop.shutdown_default_executor()

    times = reader.moved("loopcore.executor.run_time", main())
    assert times["default"].sum_ns >= SECONDS * 1e9
    assert {pool: histogram.count for pool, histogram in times.items()} == {"default": 1, "resolver": 1}


# Transports


@proves("loopcore.transport.open", "loopcore.transport.opened", "loopcore.transport.io")
@proves("loopcore.transport.paused", "loopcore.transport.pauses")
async def test_a_stream_is_counted_with_its_bytes_and_pauses(loop: Any, reader: Reader) -> None:
    near, far = unix_pair()
    with far:
        transport, protocol = await loop.connect_accepted_socket(Protocol, near)
        await loop.sock_sendall(far, b"12345")
        await protocol.seen("data")
        transport.write(b"123")
        transport.pause_reading()
        now = [reader.read(f"loopcore.transport.{name}") for name in ("open", "paused")]
        assert [above_zero(each) for each in now] == [{"stream": 1}, {"reading": 1}]
        transport.resume_reading()
        transport.pause_reading()
        transport.close()
        await protocol.seen("lost")
    names = ("open", "opened", "paused", "pauses", "io")
    assert [above_zero(reader.read(f"loopcore.transport.{name}")) for name in names] == [
        {}, {"stream": 1}, {}, {"reading": 2}, {"received": 5, "sent": 3},
    ]  # fmt: skip


@proves("loopcore.transport.opened")
def test_transports_are_counted_by_kind(loop: Any, reader: Reader) -> None:
    async def main() -> None:
        async with secured(Protocol()):
            pass
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with far:
            datagrams, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, sock=near)
            datagrams.close()
            await settle()
        there, here = os.pipe()
        with open(there, "rb", 0) as reading, open(here, "wb", 0):
            pipe, protocol = await loop.connect_read_pipe(Protocol, reading)
            pipe.close()
            await protocol.seen("lost")
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", "", stdin=asyncio.subprocess.PIPE)
        await process.communicate()
        await settle()

    opened = reader.moved("loopcore.transport.opened", asyncio.wait_for(main(), 30))
    assert opened == {"stream": 1, "tls": 1, "datagram": 1, "pipe": 2, "process": 1}
    assert set(reader.read("loopcore.transport.open").values()) == {0}


@proves("loopcore.connections")
async def test_connections_of_servers_are_counted_by_what_became_of_them(loop: Any, reader: Reader) -> None:
    class Doorkeeper:
        def __init__(self) -> None:
            self.seen = 0

        @loopcore.hookimpl
        def loopcore_admit_connection(self) -> bool:
            self.seen += 1
            return self.seen <= 2

    loop.probes.register(Doorkeeper())
    server = await loop.create_server(Protocol, "127.0.0.1", 0)
    for _ in range(3):
        client = socket.create_connection(server.sockets[0].getsockname())
        with client:
            client.setblocking(False)
            client.send(b"x")
            client.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                await loop.sock_recv(client, 1)
    server.close()
    await settle()
    assert reader.read("loopcore.connections") == {"accepted": 2, "refused": 1}


# What goes wrong


@proves("loopcore.stall.active", "loopcore.stalls", "loopcore.stall.duration")
def test_stalls_are_counted_by_cause(loop: Any, reader: Reader) -> None:
    for cause, seconds in (("blocked", 0.5), ("blocked", 0.25), ("gc", 1.0)):
        stall = Stall(cause, 0.2, 0.0)  # type: ignore[arg-type]
        loop.probes.cold("loopcore_stall_begin", loop=loop, stall=stall)
        assert reader.read("loopcore.stall.active") == 1
        stall.seconds = seconds
        loop.probes.cold("loopcore_stall_end", loop=loop, stall=stall)
        assert reader.read("loopcore.stall.active") == 0
    assert above_zero(reader.read("loopcore.stalls")) == {"blocked": 2, "gc": 1}
    durations = reader.read("loopcore.stall.duration")
    assert {cause: histogram.sum_ns for cause, histogram in durations.items()} == {
        "blocked": 750_000_000,
        "gc": 1_000_000_000,
    }


def test_the_causes_of_the_watchdog_are_known() -> None:
    assert get_args(Cause) == record.CAUSES


@proves("loopcore.exceptions")
def test_reports_to_the_exception_handler_are_counted(loop: Any, reader: Reader) -> None:
    loop.set_exception_handler(lambda *_: None)
    for _ in range(2):
        loop.call_exception_handler({"message": "reported"})
    assert reader.read("loopcore.exceptions") == 2


@proves("loopcore.hooks.errors")
def test_plugins_that_raise_are_counted(loop: Any, reader: Reader) -> None:
    class Failing:
        @loopcore.hookimpl
        def loopcore_run_started(self) -> None:
            raise ZeroDivisionError

    loop.probes.register(Failing())
    assert reader.moved("loopcore.hooks.errors", nothing()) == 1
