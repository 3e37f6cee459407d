"""The figures of docs/evidence/performance.md: measure them, and draw the page from them.

    python tests/benchmarks/figures.py measure --minutes 20 --python 3.14=/a/bin/python --python 3.13=/b/bin/python
    python tests/benchmarks/figures.py draw

`measure` goes through all rows for one Python after the other, again and again until the next time would not fit
into the minutes, at least once, and writes docs/explanation/performance/VERSION.json after each time, so that nothing
is lost when it is interrupted. `--rows` measures some rows anew; what the file says of the others stays, with the time
and the commit of which they are. `draw` puts tables and charts made of these files, and of what counts.py and
effects.py write, into the pages between their marks; only data changes. `--out` is for trials.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # the harness of this tree, before an installed one
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "core"), str(Path(__file__).resolve().parents[2])]

from loopcore_bench.loops import LoopSpec, parse_loop
from loopcore_bench.machine import machine_facts
from loopcore_bench.process import MeasurementError, NotInstalledError, describe
from loopcore_bench.rounds import Cell
from loopcore_bench.summary import document
from loopcore_bench.work import Row
from tests.benchmarks.drawing import draw
from tests.benchmarks.harness.cli import choose_rows
from tests.benchmarks.harness.floors import describe_floor
from tests.benchmarks.harness.measure import NetBench, Settings
from tests.benchmarks.harness.rounds import run_rounds, steady_rounds
from tests.benchmarks.harness.summary import summarise
from tests.benchmarks.records import DATA, commit, read, rounded, write
from tests.benchmarks.targets import PEERS

LOOPS = ("asyncio", *PEERS, "loopcore", "loopcore:uring")
# The row of short connections is the last: those that are closed are in TIME_WAIT for a minute.
ROWS = (
    "micro,tcp-*-1,tcp-*-10,tcp-*-100,unix-*,buffered-1k-10,split-1k-10,sock-1k-10,"
    "streams-1k-10,streams-own-1k-10,streams-100k-10,udp-1k-10,tls-1k-10,tls-100k-10,"
    "pipe-1k-1,idle-0,idle-1k,idle-5k,uvicorn-100,aiohttp-100,churn-10"
)
OF_A_RUN = ("date", "load_average", "commit")
"""What differs between runs that measure rows anew."""
SETTINGS = Settings(scale=0.4, seconds=0.6, warmup=0.1, turns=12)


@dataclass(slots=True)
class Series:
    """What is measured on one Python."""

    version: str
    specs: list[LoopSpec]
    loops: dict[str, dict[str, Any]]
    cells: list[Cell] = field(default_factory=list)


def find_loops(version: str, python: str, compiler: str) -> Series:
    """The loops of one environment, and the floor; those that it has not are left out."""
    series = Series(version, [], {})
    for name in LOOPS:
        spec = dataclasses.replace(parse_loop(f"{name}={name}@{python}"), network_only=":" in name)
        try:
            series.loops[spec.label] = describe(spec)
        except NotInstalledError as error:
            print(f"{version}: {name}: {error}", flush=True)
            continue
        series.specs.append(spec)
    if "loopcore" not in series.loops:  # a wrong path, most likely; what the file says would be lost
        raise MeasurementError(f"{python} has no loopcore: install it there with LOOPCORE_COMPILE=require")
    if series.loops["loopcore"]["build"] != "compiled":
        raise MeasurementError(f"{python} has a pure loopcore: install it there with LOOPCORE_COMPILE=require")
    if not str(series.loops["loopcore"]["python"]).startswith(f"{version}."):
        raise MeasurementError(f"{python} is Python {series.loops['loopcore']['python']}, and not {version}")
    floor, series.loops[floor.label] = describe_floor(compiler)
    series.specs.append(floor)
    return series


def store(series: Series, rows: list[Row], settings: Settings, facts: dict[str, Any], folder: Path) -> None:
    """Write the figures of one Python, a line each; single values are left out, and rows not measured now are kept."""
    figures = summarise(steady_rounds(series.cells), rows, series.specs)
    made = rounded(document(facts, series.loops, settings, rows, figures, []))
    run = {key: made["machine"].pop(key) for key in OF_A_RUN}
    made["runs"] = [{**run, "rows": list(dict.fromkeys(figure["row"] for figure in made["figures"]))}]
    path = folder / f"{series.version}.json"
    if before := read(path):
        keep_others(made, before)
    write(path, made, "figures", made.pop("figures"))


def keep_others(made: dict[str, Any], before: dict[str, Any]) -> None:
    """Add what `before` says of rows that are not in `made`, if there still are such rows, in the page's order."""
    order = {row.name: place for place, row in enumerate(choose_rows(ROWS))}
    kept = [each for each in before["figures"] if each["row"] in order and each["row"] not in made["operations"]]
    made["figures"] = sorted(made["figures"] + kept, key=lambda each: order.get(each["row"], len(order)))
    names = {each["row"] for each in kept}
    runs = [{**run, "rows": [row for row in run["rows"] if row in names]} for run in before.get("runs", ())]
    made["runs"] += [run for run in runs if run["rows"]]
    made["operations"] = {**before["operations"], **made["operations"]}


def refuse_other_ground(series: Series, rows: list[Row], facts: dict[str, Any], folder: Path) -> None:
    """Raise MeasurementError if the file has rows that stay, but of another machine, or of other versions of a loop."""
    path = folder / f"{series.version}.json"
    before = read(path)
    if not {each["row"] for each in before.get("figures", [])} - {row.name for row in rows}:
        return
    ground = {key: value for key, value in facts.items() if key not in OF_A_RUN}
    if (before["machine"], before["loops"]) != (ground, series.loops):
        raise MeasurementError(f"{path} has rows of another machine or other versions: measure all rows, or use --out")


def measure(options: argparse.Namespace) -> int:
    """Measure until the time is up; 1 if a cell failed."""
    began = time.monotonic()
    facts = {**machine_facts(), "commit": commit()}
    pairs = [pair(text) for text in options.python]
    rows = choose_rows(options.rows)
    failed = False
    with tempfile.TemporaryDirectory(prefix="loopcore-bench-") as scratch:
        everything = [find_loops(version, python, facts["compiler"]) for version, python in pairs]
        for series in everything:
            refuse_other_ground(series, rows, facts, options.out)
        net = NetBench(SETTINGS, Path(scratch))
        number, longest = 0, 0.0
        while not number or time.monotonic() + longest < began + options.minutes * 60:
            start = time.monotonic()
            for series in everything:
                cells = run_rounds(rows, series.specs, 1, SETTINGS, net, _tell, number)
                given_up = {(cell.row, cell.loop) for cell in series.cells if cell.error or cell.skipped}
                series.cells += [cell for cell in cells if (cell.row, cell.loop) not in given_up]
                failed = failed or any(cell.error for cell in cells)
                store(series, rows, SETTINGS, facts, options.out)
            longest = max(longest, time.monotonic() - start)
            number += 1
            print(f"{number} rounds after {time.monotonic() - began:.0f} s", flush=True)
    return 1 if failed else 0


def pair(text: str) -> tuple[str, str]:
    """Return VERSION and PYTHON of an argument. Raises ValueError for what is no such pair."""
    version, equals, python = text.partition("=")
    if not equals or not re.fullmatch(r"\d+\.\d+", version):
        raise ValueError(f"--python {text}: write VERSION=PYTHON, as in 3.13=/path/to/python")
    return version, python


def _tell(cell: Cell) -> None:
    if cell.error:
        print(f"{cell.row} on {cell.loop} failed: {cell.error}", file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure", help="measure, and write the JSON files")
    measuring.add_argument("--python", action="append", required=True, metavar="VERSION=PYTHON")
    measuring.add_argument("--minutes", type=float, default=20.0)
    measuring.add_argument("--rows", default=ROWS)
    measuring.add_argument("--out", type=Path, default=DATA)
    commands.add_parser("draw", help="put tables and charts into the pages")
    options = parser.parse_args(argv)
    if options.command == "draw":
        for path in draw():
            print(f"written: {path}")
        return 0
    try:
        return measure(options)
    except (MeasurementError, ValueError) as error:  # ValueError: an argument
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
