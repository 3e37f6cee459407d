"""What is counted for docs/explanation/performance.md and needs no quiet machine: system calls, and instructions.

    python tests/benchmarks/counts.py syscalls --python 3.13=/a/bin/python
    python tests/benchmarks/counts.py instructions --python 3.13=/a/bin/python --python 3.11=/b/bin/python
    python tests/benchmarks/figures.py draw

`syscalls` counts system calls a request of every transport over one connection (strace), `instructions` those of an
operation outside the kernel (valgrind), on the loops that run under it. `--out` is for trials.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

if __name__ == "__main__":  # the harness of this tree, before an installed one
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "core"))
    sys.path.insert(1, str(Path(__file__).resolve().parents[2]))

from loopcore_bench.callgrind import Instructions, count_instructions, count_sections
from loopcore_bench.floors import PYTHON as PYTHON_FLOOR
from loopcore_bench.loops import FLOOR, LoopSpec
from loopcore_bench.measure import NetBench, Settings
from loopcore_bench.netrows import NET
from loopcore_bench.process import MeasurementError, NotInstalledError
from loopcore_bench.rounds import can_run, count_all
from tests.benchmarks.drawing import DATA
from tests.benchmarks.figures import commit, find_loops, pair, rounded
from tests.benchmarks.gate import SECTIONS
from tests.benchmarks.targets import PURE

SYSCALL_ROWS = ("tcp-1k-10", "tcp-100k-10", "unix-1k-10", "buffered-1k-10", "split-1k-10", "streams-1k-10")
SYSCALL_ROWS += ("streams-own-1k-10", "sock-1k-10", "udp-1k-10", "tls-1k-10", "pipe-1k-1")
SYSCALL_LOOPS = ("asyncio", "uvloop", "loopcore", "loopcore:uring", FLOOR, PYTHON_FLOOR)
SYSCALL_REQUESTS = 500

INSIDE = {work: count for work, count in SECTIONS.items() if work not in ("reader", "pair_echo")}
"""The rows of the gate that every loop has, with their number of operations."""
CYCLES = 100
INSIDE_LOOPS = ("asyncio", "uvloop", "rloop", "blazio", "zloop", "loopcore", PURE, PYTHON_FLOOR)
REQUESTS = {
    **dict.fromkeys(("tcp-1k-1", "tcp-1k-10", "tcp-16k-10", "unix-64-10"), 10_000),
    **dict.fromkeys(("buffered-1k-10", "split-1k-10", "streams-1k-10", "streams-own-1k-10", "udp-1k-10"), 10_000),
    **dict.fromkeys(("tls-1k-10", "churn-10"), 4000),
    **dict.fromkeys(("streams-100k-10", "tls-100k-10"), 500),
}
"""Network rows, with how many requests are counted; loops over io_uring do not run under valgrind."""
NETWORK_LOOPS = ("uvloop", "rloop", "zloop", "loopcore", FLOOR, PYTHON_FLOOR)


def syscalls(options: argparse.Namespace) -> int:
    """Count system calls a request of every transport over one connection; 1 if a cell failed."""
    rows = [dataclasses.replace(NET[name], name=name.rpartition("-")[0], conns=1) for name in SYSCALL_ROWS]
    version, python = pair(options.python[0])
    with tempfile.TemporaryDirectory(prefix="loopcore-bench-") as scratch:
        series = find_loops(version, python, "", Path(scratch))
        specs = [spec for spec in series.specs if spec.label in SYSCALL_LOOPS]
        net = NetBench(Settings(requests=SYSCALL_REQUESTS, warmup=0.1), Path(scratch))
        found = count_all(rows, specs, net, lambda counted: None)
    calls = [
        {"row": each.row, "loop": each.loop, "calls": rounded(each.per_request())}
        for each in found
        if each.calls is not None
    ]
    for each in found:
        if each.calls is None:
            print(f"{each.row} on {each.loop}: {each.error or each.skipped}", file=sys.stderr)
    _write(options.out / "syscalls.json", {"python": version, "requests": SYSCALL_REQUESTS}, "calls", calls)
    return 1 if any(each.error for each in found) else 0


def instructions(options: argparse.Namespace) -> int:
    """Count instructions of an operation; what does not run under valgrind is said and left out."""
    counts = []
    for version, python in map(pair, options.python):
        with tempfile.TemporaryDirectory(prefix="loopcore-bench-") as scratch:
            specs = find_loops(version, python, "", Path(scratch)).specs
            for each in [*_inside(specs), *_over_the_network(specs, Path(scratch))]:
                number = round(each.per_operation)
                counts.append({"python": version, "row": each.work, "loop": each.loop, "instructions": number})
    _write(options.out / "instructions.json", {"commit": commit()}, "counts", counts)
    return 0


def _inside(specs: list[LoopSpec]) -> list[Instructions]:
    """The rows inside the loop, two loops at a time: the counts do not mind."""

    def count(spec: LoopSpec) -> list[Instructions]:
        try:
            cycle = count_instructions(spec, "loop_cycle", CYCLES)
            return [*count_sections(spec, INSIDE).values(), cycle]
        except MeasurementError as error:
            print(f"{spec.label}: {error}", flush=True)
            return []

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(count, [spec for spec in specs if spec.label in INSIDE_LOOPS]))
    return [each for counted in zip(*filter(None, found), strict=True) for each in counted]


def _over_the_network(specs: list[LoopSpec], scratch: Path) -> Iterator[Instructions]:
    """The network rows, one after the other: a server and its client share a machine with nobody."""
    for name, requests in REQUESTS.items():
        net = NetBench(Settings(requests=requests, warmup=1.0, gc="off"), scratch)
        for spec in specs:
            if spec.label not in NETWORK_LOOPS or not can_run(NET[name], spec):
                continue
            try:
                yield net.count_instructions(NET[name], spec)
            except (MeasurementError, NotInstalledError) as error:
                print(f"{name} on {spec.label}: {error}", flush=True)


def _write(path: Path, head: dict[str, object], name: str, lines: list[dict[str, object]]) -> None:
    """JSON with a line each, which a diff can tell apart."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = ",\n  ".join(json.dumps(line) for line in lines)
    path.write_text(f'{json.dumps(head, indent=1)[:-2]},\n "{name}": [\n  {text}\n ]\n}}\n', encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("syscalls", "instructions"))
    parser.add_argument("--python", action="append", required=True, metavar="VERSION=PYTHON")
    parser.add_argument("--out", type=Path, default=DATA)
    options = parser.parse_args(argv)
    try:
        return syscalls(options) if options.what == "syscalls" else instructions(options)
    except (MeasurementError, NotInstalledError, ValueError) as error:  # ValueError: an argument
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
