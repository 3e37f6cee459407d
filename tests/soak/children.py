"""Many subprocesses at once, with traffic: every byte and every exit code arrives, and no zombie stays.

    python -m tests.soak.children                           200 at once, 20 rounds, each backend, each way to watch
    python -m tests.soak.children --backends asyncio --count 50

To be run in the repository's root. All children of a round run before the first is given an end of its input. The exit
code is 0 if all was well.
"""

import argparse
import asyncio
import contextlib
import os
import random
import subprocess
import sys
import time
from typing import Any

from loopcore import new_event_loop
from loopcore.ports.readiness import Capability
from loopcore.services.children import HAS_PIDFD, Children
from tests.backends.ports import available_backends
from tests.oracle import ORACLE

PROGRAM = 'cat; echo "$1" >&2; exit "$1"'
SIZES = (0, 1, 1000, 64 * 1024, 300_000)
"""Bytes sent to a child and back: none, what fits the pipe (64 KiB), and what does not."""


def make_loop(backend: str, watch: str) -> asyncio.AbstractEventLoop:
    """Return a loop whose children are watched by "port", "pidfd" or "thread"; asyncio's own decides for itself."""
    if backend == ORACLE:
        return asyncio.SelectorEventLoop()
    loop: Any = new_event_loop(backend)
    loop._children = Children(loop, ways=[watch])
    return loop  # type: ignore[no-any-return]


def ways_of(backend: str) -> list[str]:
    """Return how the children of a loop on `backend` can be watched."""
    if backend == ORACLE:
        return ["-"]
    with contextlib.closing(new_event_loop(backend)) as loop:
        port = ["port"] if Capability.PROCESSES in loop.backend.capabilities else []
    return [*port, *(["pidfd"] if HAS_PIDFD else []), "thread"]


async def rounds(count: int, times: int) -> int:
    """Run `count` children at once, `times` times; return how many bytes came back. Raises AssertionError."""
    chance = random.Random(count)
    return sum([await _round(count, chance) for _ in range(times)])


async def _round(count: int, chance: random.Random) -> int:
    descriptors = len(os.listdir("/proc/self/fd"))
    codes = [number % 256 for number in range(count)]
    processes = await asyncio.gather(*[_start(code) for code in codes])
    bodies = [chance.randbytes(chance.choice(SIZES)) for _ in codes]
    answers = await asyncio.gather(*[_talk(*pair) for pair in zip(processes, bodies, strict=True)])
    for code, body, answer in zip(codes, bodies, answers, strict=True):
        assert answer == (body, b"%d\n" % code, code), f"wrong answer of a child that was to end with {code}"
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        raise AssertionError(f"a child is left: {found}")
    except ChildProcessError:
        pass
    while len(os.listdir("/proc/self/fd")) > descriptors:
        await asyncio.sleep(0)
    return sum(map(len, bodies))


async def _start(code: int) -> asyncio.subprocess.Process:
    pipe = subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", PROGRAM, "sh", str(code), stdin=pipe, stdout=pipe, stderr=pipe
    )


async def _talk(process: asyncio.subprocess.Process, body: bytes) -> tuple[bytes, bytes, int]:
    output, errors = await process.communicate(body)
    return output, errors, await process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description="Many subprocesses at once.")
    parser.add_argument("--count", type=int, default=200, help="at once (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=20, help="default: %(default)s")
    parser.add_argument(
        "--backends", nargs="+", default=[*available_backends(), ORACLE], help="asyncio is its own loop"
    )
    options = parser.parse_args()
    failed = False
    print("loop     watched by  children  MiB each way  seconds")
    for backend in options.backends:
        for watch in ways_of(backend):
            started = time.monotonic()
            try:
                with asyncio.Runner(loop_factory=lambda: make_loop(backend, watch)) as runner:  # noqa: B023
                    size = runner.run(rounds(options.count, options.rounds))
            except (AssertionError, OSError) as exc:
                failed = True
                print(f"{backend:8} {watch:10}  failed: {exc!r}", flush=True)
                continue
            children = options.count * options.rounds
            took = time.monotonic() - started
            print(f"{backend:8} {watch:10}  {children:8}  {size / 2**20:12.1f}  {took:7.1f}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
