"""The order of measurements: rounds outside, rows next, loops inside.

Neighbours in time are the loops of one row, so a slow minute of the machine hits all of them; and a row's rounds are
spread over the whole run. The order of the loops rotates, so none is always first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loopcore_bench.floors import has_floor
from loopcore_bench.loops import LoopSpec
from loopcore_bench.measure import Metrics, NetBench, Settings, measure_micro
from loopcore_bench.netrows import NetRow
from loopcore_bench.process import MeasurementError, NotInstalledError
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
    for number in range(first, first + rounds):
        for row in rows:
            shift = number % len(specs) if specs else 0
            for spec in specs[shift:] + specs[:shift]:
                if can_run(row, spec):
                    yield number, row, spec


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
    for number, row, spec in interleave(rows, specs, rounds, first):
        if (row.name, spec.label) in given_up:
            continue
        cell = _measure(number, row, spec, settings, net)
        if cell.error or cell.skipped:
            given_up.add((row.name, spec.label))
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


def _measure(number: int, row: Row, spec: LoopSpec, settings: Settings, net: NetBench | None) -> Cell:
    try:
        if isinstance(row, Work):
            metrics = measure_micro(row, spec, settings)
        else:
            assert net is not None
            metrics = net.measure(row, spec)
    except NotInstalledError as error:
        return Cell(row.name, spec.label, number, {}, skipped=str(error))
    except MeasurementError as error:
        return Cell(row.name, spec.label, number, {}, error=str(error))
    return Cell(row.name, spec.label, number, metrics)
