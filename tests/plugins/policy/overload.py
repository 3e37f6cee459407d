"""What admission control is worth: a server with more clients than it can serve, with and without `shed`.

    python -m tests.plugins.policy.overload [--kind compute|block] [--work 0.005] [--delay 0.02] [--seconds 10]

A server in a process of its own is kept for `work` seconds by each connection: it computes, or, for machines that have
other work as well, blocks. Clients connect at random (Poisson)
moments whatever becomes of the others, at a tenth of what the server can do, then at three times that, then at a tenth
again; each sends a line and waits for the answer. Printed for each part: how many were served and refused, and the
median and the 99th percentile of the time from connecting to the answer of those that were served.

It measures the machine, so it is no test; docs/reference/plugins/policy.md has the figures of a run.
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import loopcore
from loopcore_plugins.policy import Shed

PATIENCE = 120.0
"""Seconds after which a client counts as never served."""


def compute(seconds: float) -> None:
    """Use so much CPU time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


WORK: dict[str, Callable[[float], None]] = {"compute": compute, "block": time.sleep}


def serve(kind: str, work: float, delay: float | None, pipe: Connection) -> None:
    """Be the server, until the other end of the pipe says something."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        WORK[kind](work)
        writer.write(b"done\n")
        writer.close()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1000)
        pipe.send(server.sockets[0].getsockname()[1])
        told = asyncio.Event()
        loop.add_reader(pipe.fileno(), told.set)
        await told.wait()

    loopcore.run(main(), plugins=[] if delay is None else [Shed(delay=delay)])


@dataclass
class Part:
    """The clients of a part of the run."""

    served: list[float] = field(default_factory=list)
    refused: int = 0
    lost: int = 0

    def percentile(self, percent: int) -> float:
        return statistics.quantiles(self.served, n=100, method="inclusive")[percent - 1]

    def describe(self) -> str:
        figures = f"{len(self.served):6} served {self.refused:6} refused {self.lost:4} lost"
        return f"{figures}   p50 {self.percentile(50) * 1e3:8.1f} ms   p99 {self.percentile(99) * 1e3:8.1f} ms"


async def ask(port: int, part: Part) -> None:
    began = time.perf_counter()
    writer = None
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"please\n")
            if await reader.readline() == b"done\n":
                part.served.append(time.perf_counter() - began)
            else:
                part.lost += 1
    except ConnectionError:
        part.refused += 1
    except TimeoutError:
        part.lost += 1
    finally:
        if writer is not None:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


async def load(port: int, rate: float, seconds: float, settle: float = 0.0) -> Part:
    """Send clients at `rate` for so many seconds; those of the first `settle` seconds are not counted."""
    part, uncounted = Part(), Part()
    loop = asyncio.get_running_loop()
    began = due = loop.time()
    async with asyncio.TaskGroup() as clients:
        while due < began + settle + seconds:
            due += random.expovariate(rate)
            await asyncio.sleep(due - loop.time())
            clients.create_task(ask(port, uncounted if due < began + settle else part))
    return part


async def measure(port: int, capacity: float, seconds: float) -> dict[str, Part]:
    await load(port, capacity / 10, 1.0)  # imports, first allocations
    unloaded = await load(port, capacity / 10, seconds)
    overload = asyncio.create_task(load(port, capacity * 3, seconds))
    await asyncio.sleep(seconds)
    recovery = await load(port, capacity / 10, seconds, settle=2.0)
    return {"a tenth of capacity": unloaded, "three times capacity": await overload, "2 s after that": recovery}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--work", type=float, default=0.005, help="seconds that a connection takes")
    parser.add_argument("--kind", choices=sorted(WORK), default="compute", help="what takes them")
    parser.add_argument("--delay", type=float, default=0.02, help="the bound of shed, in seconds")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each of the three parts")
    options = parser.parse_args()
    random.seed(1)
    context: Any = multiprocessing.get_context("spawn")
    for delay in (None, options.delay):
        ours, theirs = context.Pipe()
        server = context.Process(target=serve, args=(options.kind, options.work, delay, theirs))
        server.start()
        parts = loopcore.run(measure(ours.recv(), 1 / options.work, options.seconds))
        ours.send("enough")
        server.join()
        sys.stdout.write("without shed\n" if delay is None else f"with shed:delay={delay}\n")
        for name, part in parts.items():
            sys.stdout.write(f"  {name:22}{part.describe()}\n")


if __name__ == "__main__":
    main()
