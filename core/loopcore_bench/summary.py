"""From cells to figures: medians and minima. Pure functions."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from loopcore_bench.loops import LoopSpec
from loopcore_bench.rounds import Cell
from loopcore_bench.work import Row, Work

SCHEMA = 2
"""Version of the JSON layout. 2: metrics `bytes_per_idle`, `left_open`, `resent`, `late`."""


@dataclass(slots=True)
class Figure:
    """One field of the table: a row on a loop over all rounds."""

    row: str
    loop: str
    primary: str
    rounds: int = 0
    medians: dict[str, float] = field(default_factory=dict)
    minima: dict[str, float] = field(default_factory=dict)
    note: str | None = None

    @property
    def value(self) -> float | None:
        """The median of the metric that this row is compared by; None when nothing was measured."""
        return self.medians.get(self.primary)


def primary_of(row: Row) -> str:
    """The name of the metric that a row is compared by."""
    return row.primary if isinstance(row, Work) else "cpu_ns"


def summarise(cells: list[Cell], rows: Sequence[Row], specs: list[LoopSpec]) -> list[Figure]:
    """All figures, by row in table order, then by loop in the order given."""
    figures = [_figure(row, spec, cells) for row in rows for spec in specs]
    return [figure for figure in figures if figure.rounds or figure.note]


def _figure(row: Row, spec: LoopSpec, cells: list[Cell]) -> Figure:
    mine = [cell for cell in cells if cell.row == row.name and cell.loop == spec.label]
    figure = Figure(row.name, spec.label, primary_of(row))
    failed = next((cell for cell in mine if cell.error or cell.skipped), None)
    if failed is not None:
        figure.note = f"failed: {failed.error}" if failed.error else f"skipped: {failed.skipped}"
    measured = [cell.metrics for cell in mine if cell.metrics]
    figure.rounds = len(measured)
    for name in measured[0] if measured else ():
        values = [metrics[name] for metrics in measured]
        figure.medians[name] = statistics.median(values)
        figure.minima[name] = min(values)
    return figure


def document(
    facts: dict[str, Any],
    loops: dict[str, dict[str, Any]],
    settings: Any,
    rows: Sequence[Row],
    figures: Sequence[Figure],
    cells: list[Cell],
) -> dict[str, Any]:
    """Everything needed to draw a table or a chart, or to question it. `settings` is a dataclass."""
    return {
        "schema": SCHEMA,
        "machine": facts,
        "loops": loops,
        "settings": asdict(settings),
        "operations": {row.name: row.operation for row in rows},
        "figures": [asdict(figure) for figure in figures],
        "cells": [asdict(cell) for cell in cells],
    }
