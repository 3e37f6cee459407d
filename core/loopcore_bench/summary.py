"""From cells to figures: medians, minima, ratios. Pure functions.

A ratio is reference divided by measured, so more is better and 1.0 is level; the ratio to the floor is the other way
round (how many times the C server's cost), because it is a distance. Ratios are of medians; the one by minima stands
beside it, because noise of other programs only ever adds.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from loopcore_bench.loops import FLOOR, LoopSpec
from loopcore_bench.rounds import Cell, Row
from loopcore_bench.work import Work

REFERENCE = "uvloop"


@dataclass(slots=True)
class Figure:
    """One field of the table: a row on a loop over all rounds."""

    row: str
    loop: str
    primary: str
    rounds: int = 0
    medians: dict[str, float] = field(default_factory=dict)
    minima: dict[str, float] = field(default_factory=dict)
    to_reference: float | None = None
    to_best_peer: float | None = None
    best_peer: str | None = None
    to_best_peer_by_minima: float | None = None
    to_floor: float | None = None
    note: str | None = None

    @property
    def remark(self) -> str | None:
        """What a reader must know beside the value."""
        if early := self.medians.get("early"):
            return f"{early:.0f} too early"
        if resent := self.medians.get("resent"):
            return f"{resent:.0f} sent again"
        if left_open := self.medians.get("left_open"):
            return f"{left_open:.0f} left open"
        return self.note

    @property
    def value(self) -> float | None:
        """The median of the metric that this row is compared by; None when nothing was measured."""
        return self.medians.get(self.primary)


def primary_of(row: Row) -> str:
    """The name of the metric that a row is compared by."""
    return row.primary if isinstance(row, Work) else "cpu_ns"


def summarise(cells: list[Cell], rows: list[Row], specs: list[LoopSpec]) -> list[Figure]:
    """All figures, by row in table order, then by loop in the order given."""
    figures: list[Figure] = []
    for row in rows:
        in_row = [_figure(row, spec, cells) for spec in specs]
        _add_ratios(in_row, specs)
        figures.extend(figure for figure in in_row if figure.rounds or figure.note)
    return figures


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


def _add_ratios(in_row: list[Figure], specs: list[LoopSpec]) -> None:
    values = {f.loop: f.value for f in in_row if f.value is not None and f.value > 0}
    minima = {f.loop: f.minima[f.primary] for f in in_row if f.loop in values}
    peers = {spec.label for spec in specs if spec.is_peer}
    floors = {spec.label for spec in specs if spec.name == FLOOR}
    for figure in in_row:
        value = values.get(figure.loop)
        if value is None:
            continue
        others = {label: values[label] for label in peers if label in values and label != figure.loop}
        if others:
            figure.best_peer = min(others, key=lambda label: others[label])
            figure.to_best_peer = others[figure.best_peer] / value
            least = min(minima[label] for label in others)
            figure.to_best_peer_by_minima = least / minima[figure.loop] if minima[figure.loop] > 0 else None
        if REFERENCE in values:
            figure.to_reference = values[REFERENCE] / value
        for label in floors & values.keys():
            figure.to_floor = value / values[label]
