"""`loopcore bench`: the loops installed here, side by side, on this machine.

Only this module of its package knows loopcore: its errors, for one line on standard error, and its backends, to
measure each.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loopcore.cli.output import align
from loopcore.errors import UsageError, check_writable
from loopcore.selection.discovery import choose_backend, list_backends
from loopcore.text import print_on_stderr
from loopcore_bench.charts import BASE, Group, base_of, groups_of, text_chart
from loopcore_bench.loops import LoopSpec, parse_loop
from loopcore_bench.machine import machine_facts, own_variables
from loopcore_bench.measure import Settings, measure
from loopcore_bench.page import loop_lines, page
from loopcore_bench.process import MeasurementError, NotInstalledError, describe
from loopcore_bench.rounds import Cell, can_run, interleave, one_by_one, run_rounds, without_parts
from loopcore_bench.rows import NetRow, choose_rows
from loopcore_bench.summary import document, summarise
from loopcore_bench.work import Row

PEERS = ("uvloop", "winloop", "rloop", "blazio", "zloop", "zuvloop", "leviathan")
"""Event loops with a `new_event_loop`; the installed ones are measured."""

WORK = "call_soon,sleep0,pingpong,spawn,timer_cancel,tcp-1k-10,streams-1k-10"
LEAST_SECONDS = 0.001
"""A shorter time measures how a process starts."""

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended: a shell reports SIGINT as 128 + 2."""

_NOMINAL = 0.3
"""About how many seconds a micro workload takes at its usual count on the slowest loop."""

_OVERHEAD, _OVERHEAD_NET = 0.15, 0.45
"""Seconds of a measurement outside the measured time: one or two processes start, and warm up."""


def bench(parser: argparse.ArgumentParser) -> None:
    """Compare the event loops that are installed here: CPU time an operation, side by side."""
    parser.add_argument("--loops", help="[label=]name[:backend][@python],...; default: all that are installed")
    parser.add_argument(
        "--work",
        help=f"names and patterns (tcp-*), separated by commas, or all; default: {WORK.replace(',', ', ')}",
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (default: 3)")
    parser.add_argument("--seconds", type=float, default=0.3, help="about how long a measurement takes (default: 0.3)")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a page with charts")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write everything that was measured")
    parser.add_argument("--list", action="store_true", help="list the workloads, all or those of --work, and stop")
    parser.set_defaults(act=act, group="Measure and extend")


def act(arguments: argparse.Namespace) -> int:
    """Run the command; 1 if a measurement failed, 130 if it was interrupted, which keeps what was complete.

    Raises UsageError for a loop or workload that cannot be measured, or a file that cannot be written.
    """
    try:
        return _compare(arguments)
    except KeyboardInterrupt:
        print_on_stderr("interrupted; nothing is written")
        return INTERRUPTED


def _compare(arguments: argparse.Namespace) -> int:
    rows = _rows(("all" if arguments.list else WORK) if arguments.work is None else arguments.work)
    specs = None if arguments.loops is None else _asked(arguments.loops)
    if arguments.list:
        for spec in specs or ():
            _facts(spec, asked=True)  # refuses a loop that is not installed
        for line in align([[row.name, row.operation] for row in rows]):
            print(line)
        return 0
    if arguments.rounds < 1:
        raise UsageError(f"--rounds {arguments.rounds}: there must be at least one, as in --rounds 1")
    if not LEAST_SECONDS <= arguments.seconds <= 60:
        raise UsageError(f"--seconds {arguments.seconds}: must be from {LEAST_SECONDS} to 60")
    _check_files(arguments.html, arguments.json)
    asked = specs is not None
    specs = specs or installed_loops()
    loops = _describe(specs, asked=asked)
    specs = [spec for spec in specs if "skipped" not in loops[spec.label]]
    for line in [*loop_lines({"loops": loops}), *_advice(specs, loops, asked=asked)]:
        print(line, flush=True)
    found, failed = _measure(arguments, rows, specs, loops)
    show(found)
    for path, text in ((arguments.html, page), (arguments.json, lambda made: json.dumps(made, indent=1) + "\n")):
        if path is not None:
            _write(path, text(found))
    return INTERRUPTED if "interrupted" in found else int(failed)


def _check_files(*paths: Path | None) -> None:
    """Raise UsageError if a file cannot be written, or two are the same."""
    given = [path for path in paths if path is not None]
    if len({path.absolute() for path in given}) < len(given):
        raise UsageError(f"--html and --json are the same file, {str(given[0])!r}")
    for path in given:
        if str(path) == "-":
            raise UsageError("cannot write to '-': standard output has the table; name a file")
        check_writable(path)


def _advice(specs: list[LoopSpec], loops: dict[str, dict[str, Any]], *, asked: bool) -> list[str]:
    """Hints for a better or unexpected comparison: no compiler, no peers, variables that are set."""
    lines = []
    if (variables := own_variables()) and any("build" in loops[spec.label] for spec in specs):
        lines.append(f"loopcore is measured with {', '.join(f'{k}={v}' for k, v in variables.items())}, as set here")
    if any(loops[spec.label].get("build") == "pure" and spec.python == sys.executable for spec in specs):
        lines.append("loopcore is not compiled here, which costs most of its speed; `loopcore info` says why")
    if not asked and not any(spec.name not in (BASE, "loopcore") for spec in specs):
        lines.append("no other loop is installed here; `pip install uvloop` would put it beside these")
    return lines


def show(found: dict[str, Any]) -> None:
    """Print the table and the chart of a document."""
    groups = groups_of(found)
    drawn = {bar.label for group in groups for bar in group.bars}
    loops = [loop for loop in found["loops"] if loop in drawn]
    width = shutil.get_terminal_size().columns
    for columns in _fitting(groups, loops, width) if loops else []:
        print("\n" + "\n".join(align(_cells(groups, columns))))
    print()
    print(text_chart(groups, width, ascii_only=not _draws_blocks()))
    if drawn:
        print(f"\nx: how many times less than {base_of(found)}; medians of the rounds")


def _draws_blocks() -> bool:
    """Return whether standard output can encode the characters of a bar; it is None where it was closed."""
    encoding = sys.stdout.encoding if sys.stdout is not None else None
    return (encoding or "ascii").lower().replace("-", "") == "utf8"


def _cells(groups: list[Group], loops: list[str]) -> list[list[str]]:
    """Head and lines of a table; a workload without a figure for any of these loops is left out."""
    lines = [["cost an operation", *loops]]
    for group in groups:
        bars = {bar.label: bar for bar in group.bars}
        if any(loop in bars for loop in loops):
            lines.append([group.name, *(bars[loop].cost if loop in bars else "-" for loop in loops)])
    return lines


def _fitting(groups: list[Group], loops: list[str], width: int) -> list[list[str]]:
    """The loops, split into tables that fit so many columns of a terminal, at least one loop in each."""
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
        if spec.label == "loopcore":
            raise UsageError(f"loopcore cannot be measured: {error}") from None
        return {"skipped": str(error)}


def _describe(specs: list[LoopSpec], *, asked: bool) -> dict[str, dict[str, Any]]:
    """Return the facts about each loop, by label. Each starts a process, so a terminal shows which."""
    live = sys.stderr is not None and sys.stderr.isatty()
    loops = {}
    for spec in specs:
        if live:
            print(f"\r{f'starting {spec.label}':{_line_width()}.{_line_width()}}", end="", file=sys.stderr, flush=True)
        loops[spec.label] = _facts(spec, asked=asked)
    if live:
        print(f"\r{'':{_line_width()}}\r", end="", file=sys.stderr, flush=True)
    return loops


def _rows(text: str) -> list[Row]:
    try:
        return choose_rows(text)
    except ValueError as error:
        raise UsageError(f"--work {text}: {error}") from None


def _measure(
    arguments: argparse.Namespace, rows: list[Row], specs: list[LoopSpec], loops: dict[str, dict[str, Any]]
) -> tuple[dict[str, Any], bool]:
    settings = Settings(arguments.seconds / _NOMINAL, arguments.seconds)
    order = list(interleave(rows, specs, arguments.rounds, exists=can_run))
    measured = [row for _, row, chosen in order for _ in chosen]
    overheads = sum(_OVERHEAD_NET if isinstance(row, NetRow) else _OVERHEAD for row in measured)
    tell = Progress(len(measured), arguments.seconds * len(measured) + overheads)
    cells, interrupted = _run(order, settings, tell)
    if interrupted:
        done = {cell.row for cell in cells}
        rows = [row for row in rows if row.name in done]
    found = document(machine_facts(), loops, settings, rows, summarise(cells, rows, specs), cells)
    if interrupted:
        found["interrupted"] = (
            f"interrupted after {tell.done} of {len(measured)} measurements; what was complete is here"
        )
        print_on_stderr(found["interrupted"])
    return found, any(cell.error for cell in cells)


def _run(order: list[tuple[int, Row, list[LoopSpec]]], settings: Settings, tell: Progress) -> tuple[list[Cell], bool]:
    """Measure; if interrupted, return what is complete, and True. Raises KeyboardInterrupt if nothing is."""
    cells: list[Cell] = []

    def keep(cell: Cell) -> None:
        cells.append(cell)
        tell(cell)

    try:
        run_rounds(order, one_by_one(lambda row, spec: measure(row, spec, settings)), keep)
    except KeyboardInterrupt:
        complete = without_parts(cells, order)
        if not complete:
            raise
        return complete, True
    finally:
        tell.clear()
    return cells, False


class Progress:
    """A line on standard error that is rewritten repeatedly; if that is not a terminal, only one at the beginning."""

    def __init__(self, total: int, expected: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._total = total
        self.done = 0
        self._clock = clock
        self._began = clock()
        self._live = sys.stderr is not None and sys.stderr.isatty()
        print_on_stderr(f"{total} measurement{'s' * (total != 1)}, about {max(1, round(expected))} s")

    def __call__(self, cell: Cell) -> None:
        """Count one measurement, and print its outcome."""
        self.done += 1
        left = (self._clock() - self._began) / self.done * (self._total - self.done)
        if cell.error:
            self.clear()
            print_on_stderr(f"{cell.row} on {cell.loop} failed: {cell.error}")
        if self._live:
            text = f"{self.done}/{self._total}  {cell.row} on {cell.loop}  about {round(left)} s left"
            width = _line_width()
            print(f"\r{text:{width}.{width}}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Clear the line."""
        if self._live:
            print(f"\r{'':{_line_width()}}\r", end="", file=sys.stderr, flush=True)


def _line_width() -> int:
    """The width of a rewritten line: less than the terminal's, in whose last column it would wrap."""
    return max(1, min(78, shutil.get_terminal_size().columns - 1))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}: {error.strerror}") from None
    print(f"written: {path}")
