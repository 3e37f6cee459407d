"""Micro workloads: readiness and transports inside one process, over a socket pair.

No second process and no scheduling between two of them: good for instruction counts, not for throughput.
"""

from __future__ import annotations

import asyncio
import socket
import time

from loopcore_bench.meter import Meter, percentile
from loopcore_bench.work import inside

_MESSAGE = b"x" * 1024


class _Echo(asyncio.Protocol):
    """Writes back what it gets, then tells the driver in the same process."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


@inside("pair_echo", "one 1 KiB echo by a Protocol, the peer in the same loop", 20_000)
async def pair_echo(meter: Meter, count: int) -> None:
    """Per operation: peer sends, loop polls, Protocol writes, loop polls, peer receives (add_reader)."""
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    _, echo = await loop.connect_accepted_socket(_Echo, near)
    done = loop.create_future()
    left = count
    pending = len(_MESSAGE)

    def answer() -> None:
        nonlocal left, pending
        pending -= len(far.recv(65536))
        if pending > 0:
            return
        pending = len(_MESSAGE)
        left -= 1
        if left > 0:
            far.send(_MESSAGE)
        elif not done.done():
            done.set_result(None)

    loop.add_reader(far.fileno(), answer)
    with meter:
        far.send(_MESSAGE)
        await done
    loop.remove_reader(far.fileno())
    far.close()
    assert isinstance(echo, _Echo)
    await echo.closed


@inside("reader", "one byte noticed by add_reader", 50_000)
async def reader_only(meter: Meter, count: int) -> None:
    """Readiness without a transport: one wait, one callback, one recv, one send."""
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    near.setblocking(False)
    done = loop.create_future()
    left = count

    def notice() -> None:
        nonlocal left
        near.recv(16)
        left -= 1
        if left > 0:
            far.send(b"x")
        elif not done.done():
            done.set_result(None)

    loop.add_reader(near.fileno(), notice)
    with meter:
        far.send(b"x")
        await done
    loop.remove_reader(near.fileno())
    near.close()
    far.close()


@inside("io_busy", "wait of a readable socket while callbacks are always ready, median", 2_000, primary="wait_us")
async def io_busy(meter: Meter, count: int) -> None:
    """The price of skipping the poll while there is ready work: how long a readable socket goes unnoticed."""
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    near.setblocking(False)
    done = loop.create_future()
    waits: list[float] = []
    sent = 0.0

    def notice() -> None:
        near.recv(16)
        waits.append((time.perf_counter() - sent) * 1e6)
        if len(waits) < count:
            loop.call_soon(send)
        elif not done.done():
            done.set_result(None)

    def send() -> None:
        nonlocal sent
        sent = time.perf_counter()
        far.send(b"x")

    def spin() -> None:
        if not done.done():
            loop.call_soon(spin)

    loop.add_reader(near.fileno(), notice)
    with meter:
        for _ in range(10):
            loop.call_soon(spin)
        send()
        await done
    loop.remove_reader(near.fileno())
    near.close()
    far.close()
    meter.extra["wait_us"] = percentile(waits, 0.5)
    meter.extra["wait_p99_us"] = percentile(waits, 0.99)
