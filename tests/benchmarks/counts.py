"""System calls a request of every transport over one connection (strace), for docs/evidence/performance.md.

    python tests/benchmarks/counts.py --python 3.14=/a/bin/python
    python tests/benchmarks/figures.py draw

It needs no quiet machine. `--out` is for trials.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":  # the harness of this tree, before an installed one
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "core"), str(Path(__file__).resolve().parents[2])]

from loopcore_bench.process import MeasurementError, NotInstalledError
from tests.benchmarks.figures import find_loops, pair
from tests.benchmarks.harness.floors import FLOOR
from tests.benchmarks.harness.measure import NetBench, Settings
from tests.benchmarks.harness.native import NoCompilerError
from tests.benchmarks.harness.netrows import NET
from tests.benchmarks.harness.rounds import count_all
from tests.benchmarks.harness.strace import Syscalls
from tests.benchmarks.records import DATA, commit, rounded, write

SYSCALL_ROWS = ("tcp-1k-10", "tcp-100k-10", "unix-1k-10", "buffered-1k-10", "split-1k-10", "streams-1k-10")
SYSCALL_ROWS += ("streams-own-1k-10", "sock-1k-10", "udp-1k-10", "tls-1k-10", "pipe-1k-1")
SYSCALL_LOOPS = ("asyncio", "uvloop", "loopcore", "loopcore:uring", FLOOR)
SYSCALL_REQUESTS = 500


def syscalls(options: argparse.Namespace) -> int:
    """Count system calls a request of every transport over one connection; 1 if a cell failed."""
    rows = [dataclasses.replace(NET[name], name=name.rpartition("-")[0], conns=1) for name in SYSCALL_ROWS]
    version, python = pair(options.python)
    with tempfile.TemporaryDirectory(prefix="loopcore-bench-") as scratch:
        series = find_loops(version, python, "")
        specs = [spec for spec in series.specs if spec.label in SYSCALL_LOOPS]
        net = NetBench(Settings(requests=SYSCALL_REQUESTS, warmup=0.1), Path(scratch))
        found = count_all(rows, specs, net, _tell)
    calls = [
        {"row": each.row, "loop": each.loop, "calls": rounded(each.per_request())}
        for each in found
        if each.calls is not None
    ]
    if not calls:
        return 1  # `_tell` has printed why
    head = {"python": version, "requests": SYSCALL_REQUESTS, "commit": commit()}
    write(options.out / "syscalls.json", head, "calls", calls)
    return 1 if any(each.error for each in found) else 0


def _tell(counted: Syscalls) -> None:
    if counted.calls is None:
        print(f"{counted.row} on {counted.loop}: {counted.error or counted.skipped}", file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, metavar="VERSION=PYTHON")
    parser.add_argument("--out", type=Path, default=DATA)
    options = parser.parse_args(argv)
    try:
        return syscalls(options)
    except (MeasurementError, NotInstalledError, NoCompilerError, ValueError) as error:  # ValueError: an argument
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
