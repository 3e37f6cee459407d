"""From cells to figures with ratios. Pure functions.

A ratio is reference divided by measured, so more is better and 1.0 is level; the ratio to the floor is the other way
round (how many times the C server's cost), because it is a distance. Ratios are of medians; the one by minima stands
next to it, because noise of other programs only ever adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from loopcore_bench import summary
from loopcore_bench.loops import LoopSpec
from loopcore_bench.rounds import Cell
from loopcore_bench.work import Row
from tests.benchmarks.harness.floors import FLOOR, is_peer

REFERENCE = "uvloop"


@dataclass(slots=True)
class Figure(summary.Figure):
    """One field of the table, to be compared with the other loops of its row."""

    to_reference: float | None = None
    to_best_peer: float | None = None
    best_peer: str | None = None
    to_best_peer_by_minima: float | None = None
    to_floor: float | None = None

    @property
    def remark(self) -> str | None:
        """What a reader must know besides the value."""
        if early := self.medians.get("early"):
            return f"{early:.0f} too early"
        if resent := self.medians.get("resent"):
            return f"{resent:.0f} sent again"
        if left_open := self.medians.get("left_open"):
            return f"{left_open:.0f} left open"
        return self.note


def summarise(cells: list[Cell], rows: Sequence[Row], specs: list[LoopSpec]) -> list[Figure]:
    """All figures, by row in table order, then by loop in the order given."""
    names = [field.name for field in fields(summary.Figure)]
    plain = summary.summarise(cells, rows, specs)
    figures = [Figure(**{name: getattr(figure, name) for name in names}) for figure in plain]
    for row in rows:
        _add_ratios([figure for figure in figures if figure.row == row.name], specs)
    return figures


def _add_ratios(in_row: list[Figure], specs: list[LoopSpec]) -> None:
    values = {f.loop: f.value for f in in_row if f.value is not None and f.value > 0}
    minima = {f.loop: f.minima[f.primary] for f in in_row if f.loop in values}
    peers = {spec.label for spec in specs if is_peer(spec)}
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
