"""The command line: choose rows and loops, run, print the table, write the JSON.

With --syscalls nothing is timed: strace counts what the server of every network row asks of the kernel.

Exit status: 0; 1 when a cell failed; 2 for a wrong command line. A loop that is not installed is not a failure.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from loopcore_bench.loops import LoopSpec, parse_loop
from loopcore_bench.machine import machine_facts
from loopcore_bench.process import MeasurementError, NotInstalledError, describe
from loopcore_bench.rounds import Cell
from loopcore_bench.rows import choose
from loopcore_bench.summary import document
from loopcore_bench.work import Row
from tests.benchmarks.harness.floors import describe_floor
from tests.benchmarks.harness.measure import NetBench, Settings
from tests.benchmarks.harness.native import NoCompilerError
from tests.benchmarks.harness.netrows import NET, WIDE, NetRow
from tests.benchmarks.harness.report import idle_table, loop_line, syscall_table, table
from tests.benchmarks.harness.rounds import count_all, run_rounds, steady_rounds
from tests.benchmarks.harness.strace import Syscalls
from tests.benchmarks.harness.summary import summarise
from tests.benchmarks.harness.work import all_micro

README = (
    "call_soon",
    "sleep0",
    "pingpong",
    "spawn",
    "timer_cancel",
    "tcp-1k-10",
    "streams-1k-10",
    "tls-1k-10",
    "uvicorn-100",
)
"""The rows of the table in README.md."""


def all_rows() -> dict[str, Row]:
    """Every row by name, in the order of the table."""
    return {**all_micro(), **NET, **WIDE}


GROUPS: dict[str, Callable[[], Iterable[str]]] = {
    "readme": lambda: README,
    "micro": all_micro,
    "net": lambda: NET,
    "wide": lambda: WIDE,
    "all": all_rows,
}
"""What stands for several rows: their names."""


def choose_rows(text: str) -> list[Row]:
    """Rows for groups (GROUPS), names and patterns, separated by commas. Raises ValueError for an unknown one."""
    return choose(text, all_rows(), {name: list(names()) for name, names in GROUPS.items()})


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    options = _parse(argv)
    try:
        rows = choose_rows(options.work)
        wanted = [parse_loop(text) for text in options.loops.split(",")]
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(f"{row.name:18} {row.operation}" for row in rows))
        return 0
    if wrong := _unusable(options):
        print(wrong, file=sys.stderr)
        return 2
    settings = Settings(
        options.scale, options.seconds, options.requests, options.warmup, options.gc, not options.no_pin, options.turns
    )
    facts = {**machine_facts(), "note": options.note}
    loops, specs = _installed(wanted)
    with tempfile.TemporaryDirectory(prefix="loopcore-bench-") as scratch:
        net, rows = _prepare_net(rows, settings, Path(scratch))
        if net is not None and not options.no_floor:
            floor, loops[floor.label] = describe_floor(facts["compiler"])
            specs.append(floor)
        cells, counted = _run(options, rows, specs, settings, net)
    figures = summarise(steady_rounds(cells) if settings.turns > 1 else cells, rows, specs)
    tables = [syscall_table(counted)] if options.syscalls else [table(figures), idle_table(figures)]
    print("\n\n".join(text for text in tables if text))
    if options.json:
        found = document(facts, loops, settings, rows, figures, cells)
        found["syscalls"] = [dataclasses.asdict(each) for each in counted]
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    failed = any(cell.error for cell in cells) or any(found.error for found in counted)
    return 1 if failed else 0


def _run(
    options: argparse.Namespace, rows: list[Row], specs: list[LoopSpec], settings: Settings, net: NetBench | None
) -> tuple[list[Cell], list[Syscalls]]:
    """Time the rows, or count their system calls."""
    progress = _quiet if options.quiet else _progress
    if not options.syscalls:
        return run_rounds(rows, specs, options.rounds, settings, net, progress), []
    if net is None:
        return [], []
    return [], count_all([row for row in rows if isinstance(row, NetRow)], specs, net, progress)


def _parse(argv: list[str] | None) -> argparse.Namespace:
    description = "Compare event loops; see docs/evidence/benchmarks.md"
    parser = argparse.ArgumentParser(prog="run.py", description=description)
    parser.add_argument("--loops", default="asyncio,uvloop,rloop,loopcore", help="[label=]name[:backend][@python],...")
    parser.add_argument("--work", default="all", help="micro, net, wide, all, names or patterns, separated by commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="write everything measured to this file")
    parser.add_argument("--syscalls", action="store_true", help="count system calls of network rows instead of timing")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the counts of the micro workloads")
    parser.add_argument("--seconds", type=float, default=1.0, help="loaded interval of a network row")
    parser.add_argument("--turns", type=int, default=1, help="parts of that interval, in which the loops take turns")
    parser.add_argument("--requests", type=int, default=0, help="bound a turn of a network row by requests instead")
    parser.add_argument("--warmup", type=float, default=0.2, help="unmeasured load before a network row, seconds")
    parser.add_argument("--gc", choices=("on", "off"), default="on", help="the collector, for all loops alike")
    parser.add_argument("--no-pin", action="store_true", help="do not confine server and client to a CPU each")
    parser.add_argument("--no-floor", action="store_true", help="leave the C server out")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    parser.add_argument("--note", default="", help="kept in the JSON: what was measured, e.g. a commit")
    parser.add_argument("--list", action="store_true", help="list the chosen rows and stop")
    return parser.parse_args(argv)


def _unusable(options: argparse.Namespace) -> str:
    """Why nothing can come of these options, before anything is measured; empty if it can."""
    if options.rounds < 1 or options.turns < 1:
        return "--rounds and --turns have to be 1 or more"
    if not 0 < options.scale < math.inf or not 0 < options.seconds < math.inf:
        return "--scale and --seconds have to be more than 0"
    if options.json and not Path(options.json).absolute().parent.is_dir():
        return f"cannot write {options.json!r}: there is no such folder"
    return ""


def _installed(wanted: list[LoopSpec]) -> tuple[dict[str, dict[str, Any]], list[LoopSpec]]:
    """Facts by label, and the loops that can be measured. The others are reported with the reason."""
    loops: dict[str, dict[str, Any]] = {}
    specs: list[LoopSpec] = []
    for spec in wanted:
        try:
            loops[spec.label] = describe(spec)
            specs.append(spec)
        except (NotInstalledError, MeasurementError) as error:
            loops[spec.label] = {"skipped": str(error)}
        print(loop_line(spec, loops[spec.label]), flush=True)
    return loops, specs


def _prepare_net(rows: list[Row], settings: Settings, scratch: Path) -> tuple[NetBench | None, list[Row]]:
    """Compile the C programs when a network row is wanted; without a compiler drop those rows and say so."""
    if not any(isinstance(row, NetRow) for row in rows):
        return None, rows
    try:
        return NetBench(settings, scratch), rows
    except NoCompilerError as error:
        print(f"network rows skipped: {error}", flush=True)
        return None, [row for row in rows if not isinstance(row, NetRow)]


def _progress(result: Cell | Syscalls) -> None:
    outcome = result.error or result.skipped
    if isinstance(result, Syscalls):
        outcome = outcome or f"{result.total:.2f} system calls per request"
        start = ""
    else:
        outcome = outcome or f"{result.metrics['cpu_ns']:.0f} ns CPU, {result.metrics['wall_ns']:.0f} ns wall"
        start = f"round {result.round + 1}: "
    print(f"{start}{result.row} on {result.loop}: {outcome}", file=sys.stderr, flush=True)


def _quiet(result: Cell | Syscalls) -> None:
    """Progress nobody reads."""
