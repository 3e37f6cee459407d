"""`loopcore bench`: the loops that are installed here, side by side, on this machine.

The short form of the harness: its workloads, processes and rounds, and a choice of rows that takes a minute or two. It
alone knows loopcore: its errors, for one line on standard error, and its backends, to measure each.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loopcore.cli.output import align
from loopcore.discovery import choose_backend, list_backends
from loopcore.errors import UsageError
from loopcore_bench.charts import Group, base_of, groups_of, text_chart
from loopcore_bench.cli import choose_rows
from loopcore_bench.loops import LoopSpec, parse_loop
from loopcore_bench.machine import machine_facts
from loopcore_bench.measure import NetBench, Settings
from loopcore_bench.netrows import NetRow
from loopcore_bench.page import loop_lines, page
from loopcore_bench.process import MeasurementError, NotInstalledError, describe
from loopcore_bench.report import document
from loopcore_bench.rounds import Cell, Row, interleave, run_rounds
from loopcore_bench.summary import summarise

PEERS = ("uvloop", "winloop", "rloop", "blazio", "zloop", "zuvloop", "leviathan")
"""Event loops with a `new_event_loop`; those that are installed are measured."""

WORK = "call_soon,sleep0,pingpong,spawn,timer_cancel,tcp-1k-10,streams-1k-10"
_NOMINAL = 0.3
"""About how many seconds a micro workload takes at its usual count on the slowest loop."""

_OVERHEAD = 0.6
"""Seconds that a measurement takes besides the measured time: the process starts, and warms up."""


def bench(parser: argparse.ArgumentParser) -> None:
    """Compare the event loops that are installed here: CPU time an operation, side by side."""
    parser.add_argument("--loops", help="[label=]name[:backend],...; default: all that are installed")
    parser.add_argument("--work", default=WORK, help=f"names or patterns, separated by commas; default: {WORK}")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (default: 3)")
    parser.add_argument("--seconds", type=float, default=0.3, help="about how long a measurement takes (default: 0.3)")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a page with charts")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write everything that was measured")
    parser.add_argument("--list", action="store_true", help="list the workloads and stop")
    parser.set_defaults(act=act)


def act(arguments: argparse.Namespace) -> int:
    """Carry the command out; 1 if a measurement failed. Raises UsageError for what cannot be measured or written."""
    rows = _rows("all" if arguments.list else arguments.work)
    if arguments.list:
        for line in align([[row.name, row.operation] for row in rows]):
            print(line)
        return 0
    if arguments.rounds < 1 or not 0 < arguments.seconds <= 60:
        raise UsageError("--rounds has to be 1 or more, --seconds more than 0 and at most 60")
    for path in (arguments.html, arguments.json):
        if path is not None and not path.absolute().parent.is_dir():
            raise UsageError(f"cannot write {str(path)!r}: there is no folder {str(path.absolute().parent)!r}")
        if path is not None and path.is_dir():
            raise UsageError(f"cannot write {str(path)!r}: it is a folder")
    specs = _asked(arguments.loops) if arguments.loops else installed_loops()
    loops = {spec.label: _facts(spec, asked=bool(arguments.loops)) for spec in specs}
    specs = [spec for spec in specs if "skipped" not in loops[spec.label]]
    for line in loop_lines({"loops": loops}):
        print(line, flush=True)
    try:
        found, failed = _measure(arguments, rows, specs, loops)
    except KeyboardInterrupt:
        print("interrupted; nothing is written", file=sys.stderr)
        return 130
    show(found)
    for path, text in ((arguments.html, page), (arguments.json, lambda made: json.dumps(made, indent=1) + "\n")):
        if path is not None:
            _write(path, text(found))
    return 1 if failed else 0


def show(found: dict[str, Any]) -> None:
    """Print the table and the chart of a document."""
    groups = groups_of(found)
    drawn = {bar.label for group in groups for bar in group.bars}
    loops = [loop for loop in found["loops"] if loop in drawn]
    width = shutil.get_terminal_size().columns
    for columns in _fitting(groups, loops, width):
        print("\n" + "\n".join(align(_cells(groups, columns))))
    print()
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    print(text_chart(groups, width, ascii_only=encoding != "utf8"))
    print(f"\nx: how many times less than {base_of(found)}; medians of the rounds")


def _cells(groups: list[Group], loops: list[str]) -> list[list[str]]:
    """Head and lines of a table; a workload that none of these loops has a figure of is left out."""
    lines = [["CPU an operation", *loops]]
    for group in groups:
        bars = {bar.label: bar for bar in group.bars}
        if any(loop in bars for loop in loops):
            lines.append([group.name, *(bars[loop].cost if loop in bars else "-" for loop in loops)])
    return lines


def _fitting(groups: list[Group], loops: list[str], width: int) -> list[list[str]]:
    """The loops in tables of so many columns of a terminal, at least one loop in each."""
    tables: list[list[str]] = [[]]
    for loop in loops:
        wider = [*tables[-1], loop]
        if tables[-1] and max(len(line.rstrip()) for line in align(_cells(groups, wider))) > width:
            tables.append([loop])
        else:
            tables[-1] = wider
    return tables


def installed_loops() -> list[LoopSpec]:
    """asyncio, the peers that can be imported, and loopcore with each backend that can run here."""
    found = [parse_loop("asyncio")]
    found += [parse_loop(name) for name in PEERS if importlib.util.find_spec(name) is not None]
    chosen = choose_backend().name
    found.append(parse_loop("loopcore"))
    for row in list_backends():
        if row.available and row.name != chosen:
            found.append(dataclasses.replace(parse_loop(f"loopcore:{row.name}"), network_only=True))
    return found


def _asked(text: str) -> list[LoopSpec]:
    try:
        specs = [parse_loop(word.strip()) for word in text.split(",")]
    except ValueError as error:
        raise UsageError(f"--loops {text}: {error}") from None
    labels = [spec.label for spec in specs]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(f"--loops {text}: {label} is there twice; give one a name of its own, as in other={label}")
    return specs


def _facts(spec: LoopSpec, *, asked: bool) -> dict[str, Any]:
    try:
        return describe(spec)
    except (NotInstalledError, MeasurementError) as error:
        if asked:
            raise UsageError(f"--loops: {spec.label} cannot be measured: {error}") from None
        return {"skipped": str(error)}


def _rows(text: str) -> list[Row]:
    try:
        return choose_rows(text)
    except ValueError as error:
        raise UsageError(f"--work {text}: {error}") from None


def _measure(
    arguments: argparse.Namespace, rows: list[Row], specs: list[LoopSpec], loops: dict[str, dict[str, Any]]
) -> tuple[dict[str, Any], bool]:
    settings = Settings(arguments.seconds / _NOMINAL, arguments.seconds)
    total = sum(1 for _ in interleave(rows, specs, arguments.rounds))
    with tempfile.TemporaryDirectory(prefix="loopcore-bench-") as scratch:
        net = None
        if any(isinstance(row, NetRow) for row in rows):
            net = NetBench(settings, Path(scratch), interpreted=True)
            if net.programs.interpreted is not None:
                print(f"the load generator is the one in Python: {net.programs.interpreted}", flush=True)
        tell = Progress(total, total * (arguments.seconds + _OVERHEAD))
        try:
            cells = run_rounds(rows, specs, arguments.rounds, settings, net, tell)
        finally:
            tell.clear()
    figures = summarise(cells, rows, specs)
    operations = {row.name: row.operation for row in rows}
    found = document(machine_facts(), loops, settings, operations, figures, cells, [])
    return found, any(cell.error for cell in cells)


class Progress:
    """A line on standard error that is written again and again; on anything but a terminal, one at the beginning."""

    def __init__(self, total: int, expected: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._total = total
        self._done = 0
        self._clock = clock
        self._began = clock()
        self._live = sys.stderr.isatty()
        print(f"{total} measurements, about {max(1, round(expected))} s", file=sys.stderr, flush=True)

    def __call__(self, cell: Cell) -> None:
        """Count one measurement, and say how it went."""
        self._done += 1
        left = (self._clock() - self._began) / self._done * (self._total - self._done)
        if cell.error:
            self.clear()
            print(f"{cell.row} on {cell.loop} failed: {cell.error}", file=sys.stderr, flush=True)
        if self._live:
            text = f"{self._done}/{self._total}  {cell.row} on {cell.loop}  about {round(left)} s left"
            print(f"\r{text:78.78}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Take the line away."""
        if self._live:
            print(f"\r{'':78}\r", end="", file=sys.stderr, flush=True)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}: {error.strerror}") from None
    print(f"written: {path}")
