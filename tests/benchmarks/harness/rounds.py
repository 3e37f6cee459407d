"""Rounds of the harness: floors have some rows only, and network rows may be measured in turns.

In turns, the servers of a network row are up together, and what is compared lies a fraction of a second apart.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from loopcore_bench import rounds
from loopcore_bench.loops import LoopSpec
from loopcore_bench.process import MeasurementError, NotInstalledError
from loopcore_bench.rounds import Cell, MeasureRow, Metrics, one_by_one
from loopcore_bench.work import Row, Work
from tests.benchmarks.harness.floors import has_floor
from tests.benchmarks.harness.measure import NetBench, Settings, measure_micro
from tests.benchmarks.harness.netrows import NetRow
from tests.benchmarks.harness.steady import Line, steady
from tests.benchmarks.harness.strace import Syscalls


def can_run(row: Row, spec: LoopSpec) -> bool:
    """Whether there is such a cell: floors exist for some rows only, some loops for network rows alone."""
    return has_floor(row, spec) and rounds.can_run(row, spec)


def run_rounds(
    rows: Sequence[Row],
    specs: list[LoopSpec],
    times: int,
    settings: Settings,
    net: NetBench | None,
    progress: Callable[[Cell], None],
    first: int = 0,
) -> list[Cell]:
    """Measure everything, counting rounds from `first`. A cell that failed or is not installed is not tried again."""
    order = rounds.interleave(list(rows), specs, times, first, exists=can_run)
    return rounds.run_rounds(order, _measuring(settings, net), progress)


def _measuring(settings: Settings, net: NetBench | None) -> MeasureRow:
    """How a row is measured: on one loop after the other, or on all in turns."""

    def measure(row: Row, spec: LoopSpec) -> Metrics:
        if isinstance(row, Work):
            return measure_micro(row, spec, settings)
        assert net is not None
        return net.measure(cast(NetRow, row), spec)

    alone = one_by_one(measure)

    def measure_row(row: Row, specs: list[LoopSpec]) -> Iterator[tuple[str, Metrics | Exception]]:
        if settings.turns > 1 and isinstance(row, NetRow) and not row.idle:
            assert net is not None
            yield from net.measure_in_turns(row, specs).items()
        else:
            yield from alone(row, specs)

    return measure_row


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
