"""How an ASGI application scales over loops: requests a second and memory of each way to serve it.

    python -m tests.benchmarks.serving.scaling [--seconds 5] [--connections 64] [--rounds 3] [--path /] [SETUP]...

A setup is a server, a way to run its loops and their number. Each is started, asked by `wrk` (which must be installed)
over keep-alive connections, and ended with SIGTERM; the setups take turns, and the table has the median of the rounds.
`memory` is the sum of the proportional set sizes (PSS) of the server's processes under load: pages that processes
share are counted once. `errors` counts sockets that failed and answers other than 200. `--path /cpu` computes for about
0.2 ms in each request.

The processors are shared with `wrk`, which takes a part of them in every setup alike. To compare a free-threaded
Python with another one, run the program with each of them.
"""

import argparse
import asyncio
import importlib.util
import os
import re
import shutil
import signal
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.serving.shutdown import HERE, free_port, python_path, until_open


class Setup(NamedTuple):
    """A way to serve the application."""

    packages: tuple[str, ...]
    arguments: tuple[str, ...]


class Figures(NamedTuple):
    """What a round measured."""

    rate: float
    """Requests a second."""
    memory: float
    """MiB."""
    errors: int


def _serve(kind: str, loops: int) -> Setup:
    options = ("--set", "log_level=warning", "--set", "http=httptools", "--port", "{port}", "--drain", "1")
    return Setup(("uvicorn", "httptools"), ("loopcore", "serve", "apps:small", kind, "--loops", str(loops), *options))


def _uvicorn(loop: str, package: str, workers: int) -> Setup:
    options = ("--log-level", "warning", "--http", "httptools", "--port", "{port}", "--loop", loop)
    return Setup((package, "uvicorn", "httptools"), ("uvicorn", "apps:small", "--workers", str(workers), *options))


SETUPS = {
    **{f"threads {loops}": _serve("--threads", loops) for loops in (1, 2, 4, 8)},
    **{f"processes {loops}": _serve("--processes", loops) for loops in (1, 2, 4, 8)},
    **{f"uvicorn on loopcore {n}": _uvicorn("loopcore:new_event_loop", "loopcore", n) for n in (1, 2)},
    **{f"uvicorn on uvloop {n}": _uvicorn("uvloop", "uvloop", n) for n in (1, 2)},
    **{f"uvicorn on asyncio {n}": _uvicorn("asyncio", "asyncio", n) for n in (1, 2)},
}


async def measure(setup: Setup, path: str, connections: int, seconds: int) -> Figures:
    """Start the server, load it for a second, then for `seconds`, and end it."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *(each.format(port=port) for each in setup.arguments)),
        cwd=HERE,
        env={**os.environ, "PYTHONPATH": python_path()},
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await until_open(port, process)
        address = f"http://127.0.0.1:{port}{path}"
        await load(address, connections, 1)
        loading = asyncio.ensure_future(load(address, connections, seconds))
        await asyncio.sleep(seconds / 2)
        used = memory(process.pid)
        rate, errors = await loading
        return Figures(rate, used, errors)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), 20)
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # what has outlived it
            except ProcessLookupError:
                pass


async def load(address: str, connections: int, seconds: int) -> tuple[float, int]:
    """Return requests a second and errors, as `wrk` reports them."""
    wrk = await asyncio.create_subprocess_exec(
        *("wrk", "-t1", f"-c{connections}", f"-d{seconds}s", address), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await wrk.communicate()
    text = out.decode()
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    if rate is None:
        raise RuntimeError(f"wrk has measured nothing: {text}")
    failed = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    other = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    errors = sum(map(int, failed.groups())) if failed else 0
    return float(rate[1]), errors + (int(other[1]) if other else 0)


def memory(session: int) -> float:
    """Return the MiB of all processes of a session."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                rollup = (stat.parent / "smaps_rollup").read_text()
                total += int(re.search(r"^Pss:\s+(\d+)", rollup, re.MULTILINE)[1])  # type: ignore[index]
        except OSError:
            continue  # it has ended
    return total / 1024


def main() -> None:
    """Measure every setup, and print a table."""
    parser = argparse.ArgumentParser(description="How an ASGI application scales over loops.")
    parser.add_argument("setups", nargs="*", metavar="SETUP", help=f"of {', '.join(SETUPS)}")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--path", default="/", choices=("/", "/cpu"))
    given = parser.parse_args()
    unknown = set(given.setups) - SETUPS.keys()
    if unknown:
        parser.error(f"there is no setup {', '.join(sorted(unknown))}; choose of {', '.join(SETUPS)}")
    if shutil.which("wrk") is None:
        parser.error("wrk is not installed: apt-get install wrk")
    chosen = given.setups or list(SETUPS)
    missing = [name for name in chosen if not all(map(importlib.util.find_spec, SETUPS[name].packages))]
    found: dict[str, list[Figures]] = {name: [] for name in chosen if name not in missing}
    for _ in range(given.rounds):
        for name, figures in found.items():
            figures.append(asyncio.run(measure(SETUPS[name], given.path, given.connections, given.seconds)))
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    version = f"Python {sys.version.split()[0]} {'with' if gil else 'without'} the GIL"
    print(f"{version}, {given.path}, {given.rounds} rounds")
    print(f"{'setup':24}{'requests/s':>12}{'of the first':>14}{'memory MiB':>12}{'errors':>8}")
    first = 0.0
    for name, figures in found.items():
        rate = statistics.median(each.rate for each in figures)
        first = first or rate
        used = statistics.median(each.memory for each in figures)
        errors = sum(each.errors for each in figures)
        print(f"{name:24}{rate:12.0f}{rate / first:14.2f}{used:12.1f}{errors:8}")
    for name in missing:
        print(f"{name:24}left out: {', '.join(SETUPS[name].packages)} is not installed")


if __name__ == "__main__":
    main()
