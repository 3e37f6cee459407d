"""What the settings of docs/reference/environment.md change: measure it, and write the table's data.

    python tests/benchmarks/effects.py measure --python /compiled/bin/python --rounds 7
    python tests/benchmarks/figures.py draw

Each case is a row of the harness with one variable; its values take turns within a round. System calls are counted once
each, with strace, where the row has a server.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # the harness of this tree, before an installed one
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "core"), str(Path(__file__).resolve().parents[2])]

from loopcore_bench.loops import LoopSpec, parse_loop
from loopcore_bench.machine import machine_facts
from loopcore_bench.process import MeasurementError, NotInstalledError, describe
from loopcore_bench.summary import primary_of
from tests.benchmarks.harness.cli import all_rows
from tests.benchmarks.harness.measure import NetBench, Settings, measure_micro
from tests.benchmarks.harness.netrows import NetRow
from tests.benchmarks.records import DATA, commit, write

SETTINGS = Settings(scale=0.5, seconds=0.4, warmup=0.1)
REQUESTS = 4000


@dataclass(frozen=True, slots=True)
class Case:
    """A row, the variable, and the values that it is given; "" is the default."""

    row: str
    variable: str
    values: tuple[str, ...]


CASES = (
    Case("call_soon", "LOOPCORE_POLL_SKIP_TIME", ("0", "", "1e-3")),
    Case("call_soon", "LOOPCORE_POLL_SKIP_TICKS", ("0", "8", "")),
    Case("split-1k-100", "LOOPCORE_FLUSH_LIMIT", ("0", "", "16777216")),
    Case("tcp-16k-400", "LOOPCORE_FLUSH_LIMIT", ("0", "", "16777216")),
    Case("tcp-100k-10", "LOOPCORE_RECEIVE_LIMIT", ("4096", "16384", "65536", "")),
    Case("tcp-1k-10", "LOOPCORE_RECEIVE_LIMIT", ("256", "4096", "")),
    Case("tcp-1k-100", "LOOPCORE_EVENT_BATCH", ("1", "16", "")),
)


@contextmanager
def variable_set(name: str, value: str) -> Iterator[None]:
    """Have the variable in the environment of the children that begin inside; an empty value leaves it out."""
    if value:
        os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name, None)


def measure_case(case: Case, spec: LoopSpec, net: NetBench) -> dict[str, float]:
    """One measurement with the variable as it is."""
    row = all_rows()[case.row]
    return net.measure(row, spec) if isinstance(row, NetRow) else measure_micro(row, spec, SETTINGS)


def count_calls(case: Case, spec: LoopSpec, scratch: Path) -> dict[str, float]:
    """System calls a request, by name; nothing for a row without a server."""
    row = all_rows()[case.row]
    if not isinstance(row, NetRow):
        return {}
    net = NetBench(Settings(requests=REQUESTS, warmup=0.1), scratch)
    return net.count_syscalls(row, spec).per_request()


def measure(python: str, rounds: int) -> dict[str, Any]:
    """All cases; the values of a case take turns."""
    spec = parse_loop(f"loopcore=loopcore@{python}")
    loop = describe(spec)
    facts = {**machine_facts(), "commit": commit()}
    found: dict[tuple[Case, str], list[dict[str, float]]] = {(case, v): [] for case in CASES for v in case.values}
    calls: dict[tuple[Case, str], dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="loopcore-bench-") as scratch:
        net = NetBench(SETTINGS, Path(scratch))
        for number in range(rounds):
            for case, value in found:
                with variable_set(case.variable, value):
                    found[case, value].append(measure_case(case, spec, net))
                    if not number:
                        calls[case, value] = count_calls(case, spec, Path(scratch))
            print(f"{number + 1} rounds", flush=True)
    cells = [
        {
            "row": case.row,
            "variable": case.variable,
            "value": value,
            "metric": (metric := primary_of(all_rows()[case.row])),
            "median": float(f"{statistics.median(each[metric] for each in measured):.4g}"),
            "least": float(f"{min(each[metric] for each in measured):.4g}"),
            "calls": {name: round(each, 3) for name, each in calls[case, value].items() if each >= 0.005},
        }
        for (case, value), measured in found.items()
    ]
    return {"machine": facts, "loop": loop, "rounds": rounds, "cells": cells}


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("measure",))
    parser.add_argument("--python", required=True, help="an interpreter with a compiled loopcore")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=DATA / "settings.json")
    options = parser.parse_args(argv)
    if options.rounds < 1:
        parser.error("--rounds has to be 1 or more")
    try:
        made = measure(options.python, options.rounds)
    except (MeasurementError, NotInstalledError) as error:
        print(error, file=sys.stderr)
        return 2
    write(options.out, made, "cells", made.pop("cells"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
