"""The order of measurements: rounds outside, rows next, loops inside.

Neighbours in time are the loops of one row, so a slow minute of the machine hits all of them; and a row's rounds are
spread over the whole run. The order of the loops rotates, so none is always first. In turns, the servers of a network
row are up together, and what is compared lies a fraction of a second apart.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loopcore_bench.floors import has_floor
from loopcore_bench.loops import LoopSpec
from loopcore_bench.measure import Metrics, NetBench, Settings, measure_micro
from loopcore_bench.netrows import NetRow
from loopcore_bench.process import MeasurementError, NotInstalledError
from loopcore_bench.steady import Line, steady
from loopcore_bench.strace import Syscalls
from loopcore_bench.work import Work

Row = Work | NetRow


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement or the reason there is none."""

    row: str
    loop: str
    round: int
    metrics: Metrics
    error: str | None = None
    skipped: str | None = None


def can_run(row: Row, spec: LoopSpec) -> bool:
    """Whether there is such a cell: floors exist for some rows only, some loops for network rows alone."""
    return has_floor(row, spec) and (isinstance(row, NetRow) or not spec.network_only)


def interleave(
    rows: list[Row], specs: list[LoopSpec], rounds: int, first: int = 0
) -> Iterator[tuple[int, Row, LoopSpec]]:
    """Every (round, row, loop) in the order of measurement; a floor only where it has the row."""
    for number, row, chosen in _in_rows(rows, specs, rounds, first):
        for spec in chosen:
            yield number, row, spec


def _in_rows(
    rows: list[Row], specs: list[LoopSpec], rounds: int, first: int
) -> Iterator[tuple[int, Row, list[LoopSpec]]]:
    for number in range(first, first + rounds):
        shift = number % len(specs) if specs else 0
        for row in rows:
            yield number, row, [spec for spec in specs[shift:] + specs[:shift] if can_run(row, spec)]


def run_rounds(
    rows: list[Row],
    specs: list[LoopSpec],
    rounds: int,
    settings: Settings,
    net: NetBench | None,
    progress: Callable[[Cell], None],
    first: int = 0,
) -> list[Cell]:
    """Measure everything, counting rounds from `first`. A cell that failed or is not installed is not tried again."""
    cells: list[Cell] = []
    given_up: set[tuple[str, str]] = set()
    for number, row, chosen in _in_rows(rows, specs, rounds, first):
        tried = [spec for spec in chosen if (row.name, spec.label) not in given_up]
        for cell in _measure_row(number, row, tried, settings, net):
            if cell.error or cell.skipped:
                given_up.add((row.name, cell.loop))
            cells.append(cell)
            progress(cell)
    return cells


def without_parts(cells: list[Cell], rows: list[Row], specs: list[LoopSpec], rounds: int) -> list[Cell]:
    """Leave out a row's measurements of a round that was interrupted before every loop had its turn."""
    measured = {(cell.round, cell.row, cell.loop) for cell in cells}
    given_up = {(cell.row, cell.loop) for cell in cells if cell.error or cell.skipped}
    cut_short = {
        (number, row.name)
        for number, row, spec in interleave(rows, specs, rounds)
        if (number, row.name, spec.label) not in measured and (row.name, spec.label) not in given_up
    }
    return [cell for cell in cells if (cell.round, cell.row) not in cut_short]


def steady_rounds(cells: list[Cell]) -> list[Cell]:
    """The cells of a run, with the slowdown of each round of a row taken out."""
    rows: dict[str, dict[int, Line]] = defaultdict(lambda: defaultdict(dict))
    for cell in cells:
        if cell.metrics:
            rows[cell.row][cell.round][cell.loop] = cell.metrics
    found = {row: dict(zip(rounds, steady(list(rounds.values())), strict=True)) for row, rounds in rows.items()}
    return [
        dataclasses.replace(cell, metrics=found[cell.row][cell.round][cell.loop]) if cell.metrics else cell
        for cell in cells
    ]


def count_all(
    rows: list[NetRow], specs: list[LoopSpec], net: NetBench, progress: Callable[[Syscalls], None]
) -> list[Syscalls]:
    """The system calls of every row on every loop, once each."""
    counted: list[Syscalls] = []
    for row in rows:
        for spec in specs:
            if not can_run(row, spec):
                continue
            try:
                found = net.count_syscalls(row, spec)
            except NotInstalledError as error:
                found = Syscalls(row.name, spec.label, skipped=str(error))
            except MeasurementError as error:
                found = Syscalls(row.name, spec.label, error=str(error))
            counted.append(found)
            progress(found)
    return counted


def _measure_row(
    number: int, row: Row, specs: list[LoopSpec], settings: Settings, net: NetBench | None
) -> Iterator[Cell]:
    """A row of a round: one loop after the other, or the loops in turns."""
    if settings.turns > 1 and isinstance(row, NetRow) and not row.idle:
        assert net is not None
        for label, found in net.measure_in_turns(row, specs).items():
            yield _cell(number, row, label, found)
        return
    for spec in specs:
        yield _measure(number, row, spec, settings, net)


def _measure(number: int, row: Row, spec: LoopSpec, settings: Settings, net: NetBench | None) -> Cell:
    found: Metrics | Exception
    try:
        if isinstance(row, Work):
            found = measure_micro(row, spec, settings)
        else:
            assert net is not None
            found = net.measure(row, spec)
    except (NotInstalledError, MeasurementError) as error:
        found = error
    return _cell(number, row, spec.label, found)


def _cell(number: int, row: Row, label: str, found: Metrics | Exception) -> Cell:
    if isinstance(found, NotInstalledError):
        return Cell(row.name, label, number, {}, skipped=str(found))
    if isinstance(found, Exception):
        return Cell(row.name, label, number, {}, error=str(found))
    return Cell(row.name, label, number, found)
