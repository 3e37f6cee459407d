"""Random traffic through every kind of transport, each byte checked, with a collector that never rests.

    python -m tests.soak.traffic epoll --seconds 3600 --seed 1
    python -m tests.soak.traffic uring --seconds 60 --only tls streams

To be run in the repository's root. Connections over TCP, Unix sockets, pipes, datagrams and TLS carry random bytes in
random pieces; meanwhile reading is paused and resumed, protocols are switched, connections are upgraded, half closed,
reset and dropped in reference cycles, and sock_ methods are cancelled. Another thread collects garbage all the time,
so finalizers run there, at any moment of the loop's.

A connection that ends cleanly has delivered everything, once and in order; any other has delivered a beginning of it.
The loop reports nothing through its exception handler, and no descriptor stays. What breaks one of these is a fault:
it is printed, and the exit code is 1. The same seed makes the same connections, though not the same timing. Bounded:
`--workers` connections at a time, of a megabyte at most; a connection that does not end within `--patience` seconds
is a fault.
"""

import argparse
import asyncio
import faulthandler
import gc
import logging
import os
import random
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from loopcore import new_event_loop
from tests.oracle import ORACLE
from tests.soak.traffic_ends import ALIVE
from tests.soak.traffic_kinds import KINDS, Run, stop

FAULTS = 20
"""Faults after which a run stops."""


class Collector(threading.Thread):
    """Collects garbage all the time, with pauses of random length."""

    def __init__(self, run: Run) -> None:
        super().__init__(name="collector", daemon=True)
        self.run_of = run
        self.ending = threading.Event()

    def run(self) -> None:
        chance = random.Random(0)
        while not self.ending.wait(chance.choice((0.0001, 0.0005, 0.002))):
            gc.collect(chance.choice((0, 1, 2)))
            self.run_of.collections += 1


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_kib() -> int:
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("ascii").splitlines())
    return int(fields["VmRSS"].split()[0])


async def work(run: Run, options: argparse.Namespace, until: float, seed: str) -> None:
    """One connection after the other, until the time is over."""
    loop = asyncio.get_running_loop()
    number = 0
    while loop.time() < until and len(run.faults) < FAULTS:
        number += 1
        chance = random.Random(f"{seed}/{number}")
        chosen = chance.choice(options.only)
        name = f"{chosen} {seed}/{number}"
        connection = asyncio.ensure_future(KINDS[chosen](run, chance, name))
        try:
            if not (await asyncio.wait([connection], timeout=options.patience))[0]:
                ends = [repr(end) for end in ALIVE if end.name.startswith(name + " ")]
                run.faults.append(f"{name}: not over after {options.patience:.0f} s: {ends}")
            await stop(connection)
        except Exception as exc:
            run.faults.append(f"{name}: " + "".join(traceback.format_exception(exc)))
        run.connections[chosen] += 1
        # A loop that waits without end shows where.
        faulthandler.dump_traceback_later(2 * options.patience, exit=True)


async def load(run: Run, options: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()

    def report(_: Any, context: dict[str, Any]) -> None:
        run.faults.append(f"reported: {context['message']} {context.get('exception')!r} {sorted(context)}")

    loop.set_exception_handler(report)
    until = loop.time() + options.seconds
    workers = [
        asyncio.ensure_future(work(run, options, until, f"{options.seed}/{worker}"))
        for worker in range(options.workers)
    ]
    while (await asyncio.wait(workers, timeout=60))[1]:
        print(line(run, options, loop.time() - until + options.seconds), flush=True)
    await asyncio.gather(*workers)


def line(run: Run, options: argparse.Namespace, seconds: float) -> str:
    def listed(counter: Counter[str]) -> str:
        return ", ".join(f"{name} {count}" for name, count in sorted(counter.items())) or "none"

    return (
        f"{options.backend}: seed {options.seed}, {seconds:.0f} s, {run.connections.total()} connections "
        f"({listed(run.connections)}), {run.size / 2**20:.1f} MiB, {run.collections} collections, "
        f"{resident_kib() / 1024:.0f} MiB resident, {descriptors()} descriptors, errors: {listed(run.errors)}, "
        f"{len(run.faults)} faults"
    )


def traffic(options: argparse.Namespace) -> Run:
    """Run it; `faults` of what is returned is empty if all was well."""
    warnings.simplefilter("ignore", ResourceWarning)  # dropped on purpose
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # writes after the end of a connection are warned of
    run = Run()
    sys.unraisablehook = lambda event: run.faults.append(f"unraisable: {event}")
    sys.setswitchinterval(0.0002)
    make = asyncio.SelectorEventLoop if options.backend == ORACLE else lambda: new_event_loop(options.backend)
    make().close()  # what the process opens once, whatever it does, is not counted: libffi may keep its own file open
    before = descriptors()
    started = time.monotonic()
    gc.collect()
    gc.freeze()  # what lives as long as the program costs the collector nothing
    collector = Collector(run)
    collector.start()
    try:
        with asyncio.Runner(loop_factory=make) as runner:
            runner.run(load(run, options))
    finally:
        collector.ending.set()
        collector.join()
        faulthandler.cancel_dump_traceback_later()
    gc.collect()
    if (left := descriptors() - before) > 0:
        run.faults.append(f"{left} descriptors are left")
    print(line(run, options, time.monotonic() - started), flush=True)
    for fault in run.faults:
        print("  " + fault, flush=True)
    return run


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Random traffic through every kind of transport.")
    parser.add_argument("backend", help="asyncio is its own loop")
    parser.add_argument("--seconds", type=float, default=60.0, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--workers", type=int, default=24, help="connections at a time (default: %(default)s)")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds a connection (default: %(default)s)")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS), help="kinds of traffic")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(1 if traffic(parse()).faults else 0)
