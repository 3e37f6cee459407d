"""Bar charts: groups of bars from figures, and as text for a terminal.

A group is a workload, a bar is a loop; its length is the ratio to asyncio in the same run (or to the first loop of a
run without asyncio): longer is faster. STYLE has the colours of drawings and pages, light and dark by the reader's
preference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BASE = "asyncio"
UNITS = {"cpu_ns": "ns", "wall_ns": "ns", "bytes": "B", "late_us": "us", "wait_us": "us"}
_EIGHTHS = " ▏▎▍▌▋▊▉"

STYLE = """\
:root { --ink: #1d1d1f; --soft: #6a6a70; --paper: #ffffff; --ours: #0a63c9; --other: #b7bcc6; --rule: #dcdce0 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececf0; --soft: #9c9ca4; --paper: #17181b; --ours: #5ba4ff; --other: #565c68; --rule: #33353b }
}
.ink { fill: var(--ink) } .soft { fill: var(--soft) } .ours { fill: var(--ours) } .other { fill: var(--other) }
.paper { fill: var(--paper) } text { font: 13px system-ui, sans-serif } .head { font-weight: 600 }
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """One loop in a group. `ratio` is how many times less than asyncio it takes; None where that has no figure.

    `early` means that timers ended before their time: the figure is a defect, and not compared. `left_open` is how many
    connections the loop did not close after their peers had gone.
    """

    label: str
    value: float
    unit: str
    ratio: float | None
    ours: bool
    early: bool = False
    left_open: int = 0

    @property
    def cost(self) -> str:
        """The figure, formatted for people."""
        value, unit = self.value, self.unit
        if unit == "ns" and value >= 9999.5:  # which would become 10000
            text = f"{value / 1000:.1f} us"
        else:
            text = f"{value:.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}"
        return text + " (early)" * self.early + f" ({self.left_open} left open)" * bool(self.left_open)

    @property
    def times(self) -> str:
        """The ratio as text."""
        return "" if self.ratio is None else f"{self.ratio:.2f} x"

    @property
    def text(self) -> str:
        """Both, for a label."""
        return f"{self.cost} ({self.times})" if self.times else self.cost


@dataclass(frozen=True, slots=True)
class Group:
    """One workload: its name, its operation, its bars, and the loops without one, with the reason."""

    name: str
    operation: str
    bars: tuple[Bar, ...]
    missing: tuple[str, ...] = ()


def base_of(document: Mapping[str, Any]) -> str:
    """The loop that ratios refer to: asyncio, or the first one measured."""
    measured = [label for label, facts in document["loops"].items() if "skipped" not in facts]
    return BASE if BASE in measured or not measured else measured[0]


def groups_of(document: Mapping[str, Any]) -> list[Group]:
    """The groups of a JSON document (summary.document), in its order."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for figure in document["figures"]:
        rows.setdefault(figure["row"], []).append(figure)
    base = base_of(document)
    return [_group(row, document["operations"].get(row, ""), figures, base) for row, figures in rows.items()]


def _group(row: str, operation: str, figures: Iterable[Mapping[str, Any]], reference: str) -> Group:
    figures = list(figures)
    measured = [figure for figure in figures if figure["medians"].get(figure["primary"]) is not None]
    values = {figure["loop"]: float(figure["medians"][figure["primary"]]) for figure in measured}
    base = values.get(reference)
    bars = [
        Bar(
            figure["loop"],
            value := values[figure["loop"]],
            UNITS.get(figure["primary"], ""),
            base / value if base and value > 0 and not figure["medians"].get("early") else None,
            figure["loop"].startswith("loopcore"),
            bool(figure["medians"].get("early")),
            round(figure["medians"].get("left_open", 0)),
        )
        for figure in measured
    ]
    lacking: dict[str, list[str]] = {}
    for figure in figures:
        if figure["loop"] not in values:
            lacking.setdefault(figure["note"], []).append(figure["loop"])
    missing = tuple(f"{', '.join(loops)}: {note}" for note, loops in lacking.items())
    return Group(row, operation, tuple(bars), missing)


def least_of(bars: Iterable[Bar]) -> float:
    """The best figure of these bars: the lowest of a loop whose timers are not early."""
    return min((bar.value for bar in bars if not bar.early), default=0.0)


def longest_ratio(groups: Sequence[Group]) -> float:
    """The ratio that a bar of full length represents."""
    return max((bar.ratio or 0.0 for group in groups for bar in group.bars), default=0.0) or 1.0


def text_chart(groups: Sequence[Group], width: int = 80, ascii_only: bool = False) -> str:
    """All groups for a terminal of `width` columns. Each group has a separate scale."""
    labels = max((len(bar.label) for group in groups for bar in group.bars), default=0)
    room = max(8, width - labels - 26)
    lines: list[str] = []
    for group in groups:
        lines += ["", f"{group.name}: {group.operation}"]
        longest = longest_ratio([group])
        for bar in group.bars:
            drawn = _blocks((bar.ratio or 0.0) / longest * room, ascii_only)
            lines.append(f"  {bar.label:{labels}} {bar.cost:>10} {bar.times:>9}  {drawn}".rstrip())
        lines += [f"  {text}" for text in group.missing]
    return "\n".join(lines[1:])


def _blocks(length: float, ascii_only: bool) -> str:
    if ascii_only:
        return "#" * round(length)
    whole = int(length)
    return "█" * whole + _EIGHTHS[int((length - whole) * 8)].strip()
