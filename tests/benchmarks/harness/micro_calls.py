"""Micro workloads: many callbacks, threads, the resolver, the life of a loop."""

from __future__ import annotations

import asyncio
import socket
import threading

from loopcore_bench.loops import LoopFactory
from loopcore_bench.meter import Meter
from loopcore_bench.work import bare, inside

_BURST = 1000


def _nothing(*_args: object) -> None:
    """The cheapest callback there is: what remains is the loop's own cost."""


@inside("call_soon_burst", "one callback of a thousand scheduled together", 300_000)
async def call_soon_burst(meter: Meter, count: int) -> None:
    """A deep ready queue, filled and drained."""
    await _bursts(meter, count, ())


@inside("call_soon_args", "one callback with two arguments, of a thousand scheduled together", 300_000)
async def call_soon_args(meter: Meter, count: int) -> None:
    """As `call_soon_burst`, with arguments to keep and to pass."""
    await _bursts(meter, count, (1, "two"))


async def _bursts(meter: Meter, count: int, args: tuple[object, ...]) -> None:
    loop = asyncio.get_running_loop()
    call_soon = loop.call_soon
    with meter:
        left = count
        while left > 0:
            batch = min(left, _BURST)
            left -= batch
            done = loop.create_future()
            for _ in range(batch - 1):
                call_soon(_nothing, *args)
            call_soon(done.set_result, None)
            await done


@inside("threadsafe", "one call_soon_threadsafe from another thread", 50_000)
async def call_soon_threadsafe(meter: Meter, count: int) -> None:
    """One producer thread; the CPU time is that of both threads."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def produce() -> None:
        for _ in range(count - 1):
            loop.call_soon_threadsafe(_nothing)
        loop.call_soon_threadsafe(done.set_result, None)

    producer = threading.Thread(target=produce)
    with meter:
        producer.start()
        await done
    producer.join()


@inside("executor", "one awaited run_in_executor of an empty function", 5_000)
async def run_in_executor(meter: Meter, count: int) -> None:
    """The default executor, one job at a time: two thread switches an operation."""
    loop = asyncio.get_running_loop()
    with meter:
        for _ in range(count):
            await loop.run_in_executor(None, _nothing)


@inside("getaddrinfo", "one getaddrinfo of a literal address", 5_000)
async def getaddrinfo_literal(meter: Meter, count: int) -> None:
    """A literal needs no name server, so it needs no thread either."""
    loop = asyncio.get_running_loop()
    with meter:
        for _ in range(count):
            await loop.getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM)


@bare("loop_cycle", "one loop made, run once and closed", 300)
def loop_cycle(meter: Meter, factory: LoopFactory, count: int) -> None:
    """What `asyncio.run` of an empty program pays, without its shutdown helpers."""
    with meter:
        for _ in range(count):
            loop = factory()
            loop.call_soon(loop.stop)
            loop.run_forever()
            loop.close()
