"""What is counted for docs/explanation/performance.md and needs no quiet machine: system calls, and instructions.

    python tests/benchmarks/counts.py syscalls --python 3.14=/a/bin/python
    python tests/benchmarks/counts.py instructions --python 3.14=/a/bin/python --python 3.13=/b/bin/python
    python tests/benchmarks/figures.py draw

`syscalls` counts system calls a request of every transport over one connection (strace), `instructions` those of an
operation outside the kernel (valgrind), on the loops that run under it. `--out` is for trials.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # the harness of this tree, before an installed one
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "core"), str(Path(__file__).resolve().parents[2])]

from loopcore_bench.loops import LoopSpec
from loopcore_bench.process import MeasurementError, NotInstalledError
from tests.benchmarks.figures import find_loops, pair
from tests.benchmarks.gate import SECTIONS
from tests.benchmarks.harness.callgrind import Instructions, count_instructions, count_sections
from tests.benchmarks.harness.cli import all_rows
from tests.benchmarks.harness.floors import FLOOR
from tests.benchmarks.harness.floors import PYTHON as PYTHON_FLOOR
from tests.benchmarks.harness.measure import NetBench, Settings
from tests.benchmarks.harness.native import NoCompilerError
from tests.benchmarks.harness.netrows import NET
from tests.benchmarks.harness.rounds import can_run, count_all
from tests.benchmarks.harness.strace import Syscalls
from tests.benchmarks.records import DATA, commit, read, rounded, write
from tests.benchmarks.targets import PEERS

SYSCALL_ROWS = ("tcp-1k-10", "tcp-100k-10", "unix-1k-10", "buffered-1k-10", "split-1k-10", "streams-1k-10")
SYSCALL_ROWS += ("streams-own-1k-10", "sock-1k-10", "udp-1k-10", "tls-1k-10", "pipe-1k-1")
SYSCALL_LOOPS = ("asyncio", "uvloop", "loopcore", "loopcore:uring", FLOOR, PYTHON_FLOOR)
SYSCALL_REQUESTS = 500

INSIDE = {work: count for work, count in SECTIONS.items() if work not in ("reader", "pair_echo")}
"""The rows of the gate that every loop has, with their number of operations."""
CYCLES = 100
INSIDE_LOOPS = ("asyncio", *PEERS, "loopcore", PYTHON_FLOOR)
REQUESTS = {
    **dict.fromkeys(("tcp-1k-1", "tcp-1k-10", "tcp-16k-10", "unix-64-1", "unix-64-10"), 10_000),
    **dict.fromkeys(("buffered-1k-10", "split-1k-10", "streams-1k-10", "streams-own-1k-10", "udp-1k-10"), 10_000),
    **dict.fromkeys(("tls-1k-10", "churn-10"), 4000),
    **dict.fromkeys(("streams-100k-10", "tls-100k-10"), 500),
}
"""Network rows, with how many requests are counted; loops over io_uring do not run under valgrind."""
NETWORK_LOOPS = ("uvloop", "rloop", "zloop", "zuvloop", "loopcore", FLOOR, PYTHON_FLOOR)


def syscalls(options: argparse.Namespace) -> int:
    """Count system calls a request of every transport over one connection; 1 if a cell failed."""
    rows = [dataclasses.replace(NET[name], name=name.rpartition("-")[0], conns=1) for name in SYSCALL_ROWS]
    version, python = pair(options.python[0])
    with tempfile.TemporaryDirectory(prefix="loopcore-bench-") as scratch:
        series = find_loops(version, python, "", Path(scratch))
        specs = [spec for spec in series.specs if spec.label in SYSCALL_LOOPS]
        net = NetBench(Settings(requests=SYSCALL_REQUESTS, warmup=0.1), Path(scratch))
        found = count_all(rows, specs, net, _tell)
    calls = [
        {"row": each.row, "loop": each.loop, "calls": rounded(each.per_request())}
        for each in found
        if each.calls is not None
    ]
    if not calls:
        return 1  # why, was told
    head = {"python": version, "requests": SYSCALL_REQUESTS, "commit": commit()}
    write(options.out / "syscalls.json", head, "calls", calls)
    return 1 if any(each.error for each in found) else 0


def _tell(counted: Syscalls) -> None:
    if counted.calls is None:
        print(f"{counted.row} on {counted.loop}: {counted.error or counted.skipped}", file=sys.stderr, flush=True)


def instructions(options: argparse.Namespace) -> int:
    """Count instructions of an operation; 1 if a cell failed. What the file says of other Pythons stays."""
    path = options.out / "instructions.json"
    failed = False
    for version, python in map(pair, options.python):
        state = commit()
        with tempfile.TemporaryDirectory(prefix="loopcore-bench-") as scratch:
            specs = find_loops(version, python, "", Path(scratch)).specs
            net = NetBench(Settings(warmup=1.0, gc="off"), Path(scratch))
            counter = Counter()
            counter.count_inside([spec for spec in specs if spec.label in INSIDE_LOOPS])
            counter.count_servers([spec for spec in specs if spec.label in NETWORK_LOOPS], net)
        failed = failed or counter.failed or not counter.found
        if not counter.found:
            continue  # why, was told
        before = read(path)
        kept = [each for each in before.get("counts", []) if each["python"] != version]
        commits = {**before.get("commits", {}), version: state}
        write(path, {"commits": commits}, "counts", kept + counter.counts(version))
    return 1 if failed else 0


class Counter:
    """Counts the rows of one Python, and says why one cannot be counted."""

    def __init__(self) -> None:
        self.found: list[Instructions] = []
        self.failed = False

    def counts(self, version: str) -> list[dict[str, Any]]:
        """What was found, in the order of the rows and of the loops."""
        order = list(all_rows())
        return [
            {"python": version, "row": each.work, "loop": each.loop, "instructions": round(each.per_operation)}
            for each in sorted(self.found, key=lambda each: order.index(each.work))
        ]

    def count_inside(self, specs: list[LoopSpec]) -> None:
        """The rows inside the loop, two loops at a time: the counts do not mind."""
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(self._count_loop, specs))
        self.found.sort(key=lambda each: [spec.label for spec in specs].index(each.loop))

    def _count_loop(self, spec: LoopSpec) -> None:
        with self._telling(spec.label):
            self.found.append(count_instructions(spec, "loop_cycle", CYCLES))
            self.found.extend(count_sections(spec, INSIDE).values())

    def count_servers(self, specs: list[LoopSpec], net: NetBench) -> None:
        """The network rows, one after the other: a server and its client share a machine with nobody."""
        for name, requests in REQUESTS.items():
            net.settings = dataclasses.replace(net.settings, requests=requests)
            for spec in specs:
                if can_run(NET[name], spec):
                    with self._telling(f"{name} on {spec.label}"):
                        self.found.append(net.count_instructions(NET[name], spec))

    @contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        try:
            yield
        except (MeasurementError, NotInstalledError) as error:
            self.failed = self.failed or isinstance(error, MeasurementError)
            print(f"{what}: {error}", file=sys.stderr, flush=True)
        else:
            print(what, flush=True)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("syscalls", "instructions"))
    parser.add_argument("--python", action="append", required=True, metavar="VERSION=PYTHON")
    parser.add_argument("--out", type=Path, default=DATA)
    options = parser.parse_args(argv)
    if options.what == "syscalls" and len(options.python) > 1:
        parser.error("system calls are counted on one --python")
    try:
        return syscalls(options) if options.what == "syscalls" else instructions(options)
    except (MeasurementError, NotInstalledError, NoCompilerError, ValueError) as error:  # ValueError: an argument
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
