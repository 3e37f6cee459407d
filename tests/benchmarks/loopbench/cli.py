"""The command line: choose rows and loops, run, print the table, write the JSON.

Exit status: 0; 1 when a cell failed; 2 for a wrong command line. A loop that is not installed is not a failure.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from loopbench.loops import FLOOR, LoopSpec, parse_loop
from loopbench.machine import machine_facts
from loopbench.measure import NetBench, Settings
from loopbench.native import NoCompilerError
from loopbench.netrows import NET
from loopbench.process import MeasurementError, NotInstalledError, describe
from loopbench.report import document, loop_line, table
from loopbench.rounds import Cell, Row, run_rounds
from loopbench.summary import summarise
from loopbench.work import all_micro


def all_rows() -> dict[str, Row]:
    """Every row by name, in the order of the table."""
    return {**all_micro(), **NET}


def choose_rows(text: str) -> list[Row]:
    """Rows for `micro`, `net`, `all`, names and patterns, separated by commas. Raises ValueError for an unknown one."""
    known = all_rows()
    groups = {"micro": list(all_micro()), "net": list(NET), "all": list(known)}
    chosen: dict[str, Row] = {}
    for word in text.split(","):
        names = groups.get(word) or fnmatch.filter(known, word)
        if not names:
            raise ValueError(f"no workload {word!r}; there are micro, net, all, patterns, and: {', '.join(known)}")
        chosen.update({name: known[name] for name in names})
    return list(chosen.values())


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
    settings = Settings(
        options.scale, options.seconds, options.requests, options.warmup, options.gc, not options.no_pin
    )
    facts = {**machine_facts(), "note": options.note}
    loops, specs = _installed(wanted)
    with tempfile.TemporaryDirectory(prefix="loopbench-") as scratch:
        net, rows = _prepare_net(rows, settings, Path(scratch))
        if net is not None and not options.no_floor:
            specs.append(LoopSpec(FLOOR, FLOOR, None, ""))
            loops[FLOOR] = {"version": "own epoll server", "compiler": facts["compiler"]}
        cells = run_rounds(rows, specs, options.rounds, settings, net, _quiet if options.quiet else _progress)
    figures = summarise(cells, rows, specs)
    print(table(figures))
    if options.json:
        operations = {row.name: row.operation for row in rows}
        found = document(facts, loops, settings, operations, figures, cells)
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 1 if any(cell.error for cell in cells) else 0


def _parse(argv: list[str] | None) -> argparse.Namespace:
    description = "Compare event loops; see docs/explanation/benchmarks.md"
    parser = argparse.ArgumentParser(prog="run.py", description=description)
    parser.add_argument("--loops", default="asyncio,uvloop,rloop,loopcore", help="[label=]name[:backend][@python],...")
    parser.add_argument("--work", default="all", help="micro, net, all, names or patterns, separated by commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="write everything measured to this file")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the counts of the micro workloads")
    parser.add_argument("--seconds", type=float, default=1.0, help="loaded interval of a network row")
    parser.add_argument("--requests", type=int, default=0, help="bound a network row by requests instead")
    parser.add_argument("--warmup", type=float, default=0.2, help="unmeasured load before a network row, seconds")
    parser.add_argument("--gc", choices=("on", "off"), default="on", help="the collector, for all loops alike")
    parser.add_argument("--no-pin", action="store_true", help="do not confine server and client to a CPU each")
    parser.add_argument("--no-floor", action="store_true", help="leave the C server out")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    parser.add_argument("--note", default="", help="kept in the JSON: what was measured, e.g. a commit")
    parser.add_argument("--list", action="store_true", help="list the chosen rows and stop")
    return parser.parse_args(argv)


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
    if not any(row.name in NET for row in rows):
        return None, rows
    try:
        return NetBench(settings, scratch), rows
    except NoCompilerError as error:
        print(f"network rows skipped: {error}", flush=True)
        return None, [row for row in rows if row.name not in NET]


def _progress(cell: Cell) -> None:
    outcome = cell.error or cell.skipped
    if outcome is None:
        outcome = f"{cell.metrics['cpu_ns']:.0f} ns CPU, {cell.metrics['wall_ns']:.0f} ns wall"
    print(f"round {cell.round + 1}: {cell.row} on {cell.loop}: {outcome}", file=sys.stderr, flush=True)


def _quiet(cell: Cell) -> None:
    """Progress nobody reads."""
