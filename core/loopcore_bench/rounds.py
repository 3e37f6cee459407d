"""The order of measurements: rounds outside, rows next, loops inside.

The loops of one row are measured next to each other, so a slow minute of the machine affects all of them; and a row's
rounds are spread over the whole run. The order of the loops rotates, so none is always first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from loopcore_bench.loops import LoopSpec
from loopcore_bench.process import MeasurementError, NotInstalledError
from loopcore_bench.work import Row, Work

Metrics = dict[str, float]

MeasureRow = Callable[[Row, list[LoopSpec]], Iterable[tuple[str, Metrics | Exception]]]
"""Measures a row on loops; yields the label of each, with its metrics or the exception that prevented them."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement, or the reason why there is none."""

    row: str
    loop: str
    round: int
    metrics: Metrics
    error: str | None = None
    skipped: str | None = None


def can_run(row: Row, spec: LoopSpec) -> bool:
    """Whether the cell exists: some loops have network rows only."""
    return not (spec.network_only and isinstance(row, Work))


def interleave(
    rows: list[Row], specs: list[LoopSpec], rounds: int, first: int = 0, *, exists: Callable[[Row, LoopSpec], bool]
) -> Iterator[tuple[int, Row, list[LoopSpec]]]:
    """Every round of every row, in the order of measurement, with the loops that are measured then."""
    for number in range(first, first + rounds):
        shift = number % len(specs) if specs else 0
        for row in rows:
            yield number, row, [spec for spec in specs[shift:] + specs[:shift] if exists(row, spec)]


def run_rounds(
    order: Iterable[tuple[int, Row, list[LoopSpec]]], measure_row: MeasureRow, progress: Callable[[Cell], None]
) -> list[Cell]:
    """Measure everything in the `order` of `interleave`. A cell that failed or is not installed is not retried."""
    cells: list[Cell] = []
    given_up: set[tuple[str, str]] = set()
    for number, row, specs in order:
        tried = [spec for spec in specs if (row.name, spec.label) not in given_up]
        for label, found in measure_row(row, tried):
            cell = _cell(number, row, label, found)
            if cell.error or cell.skipped:
                given_up.add((row.name, label))
            cells.append(cell)
            progress(cell)
    return cells


def one_by_one(measure: Callable[[Row, LoopSpec], Metrics]) -> MeasureRow:
    """Measure a row on one loop after the other."""

    def measure_row(row: Row, specs: list[LoopSpec]) -> Iterator[tuple[str, Metrics | Exception]]:
        for spec in specs:
            try:
                yield spec.label, measure(row, spec)
            except (NotInstalledError, MeasurementError) as error:
                yield spec.label, error

    return measure_row


def without_parts(cells: list[Cell], order: Iterable[tuple[int, Row, list[LoopSpec]]]) -> list[Cell]:
    """Leave out a row's measurements of a round that was interrupted before every loop was measured."""
    measured = {(cell.round, cell.row, cell.loop) for cell in cells}
    given_up = {(cell.row, cell.loop) for cell in cells if cell.error or cell.skipped}
    cut_short = {
        (number, row.name)
        for number, row, specs in order
        for spec in specs
        if (number, row.name, spec.label) not in measured and (row.name, spec.label) not in given_up
    }
    return [cell for cell in cells if (cell.round, cell.row) not in cut_short]


def _cell(number: int, row: Row, label: str, found: Metrics | Exception) -> Cell:
    if isinstance(found, NotInstalledError):
        return Cell(row.name, label, number, {}, skipped=str(found))
    if isinstance(found, Exception):
        return Cell(row.name, label, number, {}, error=str(found))
    return Cell(row.name, label, number, found)
