"""Bar charts as SVG, and the table of the page of figures."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from loopcore_bench.charts import BASE, STYLE, Bar, Group, longest_ratio

_LABEL, _BAR, _TEXT, _LINE = 170, 330, 170, 22
_WIDTH = _LABEL + _BAR + _TEXT


def svg(groups: Sequence[Group], title: str) -> str:
    """A drawing of the groups, all bars on one scale, with the colours in it."""
    lines, y = [_text(0, 22, title, "ink head")], 38
    longest = longest_ratio(groups)
    for group in groups:
        lines.append(_text(0, y + 14, group.name, "ink head"))
        lines.append(_text(0, y + 31, group.operation, "soft"))
        y += 40
        for bar in group.bars:
            length = round((bar.ratio or 0.0) / longest * _BAR, 1)
            kind = "ours" if bar.ours else "other"
            lines.append(_text(0, y + 15, bar.label, "ink"))
            lines.append(f'<rect x="{_LABEL}" y="{y + 3}" width="{length}" height="15" rx="2" class="{kind}"/>')
            lines.append(_text(_LABEL + length + 8, y + 15, bar.text, "soft"))
            y += _LINE
        y += 16
    style = f'<style>{STYLE}</style><rect width="100%" height="100%" class="paper"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-10 0 {_WIDTH + 20} {y}" role="img" '
        f'aria-label="{escape(title, quote=True)}">{style}\n' + "\n".join(lines) + "\n</svg>\n"
    )


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(text)}</text>'


def markdown_table(groups: Sequence[Group]) -> str:
    """A line a workload, a column a loop: cost an operation, and how many times faster than asyncio."""
    loops = list(dict.fromkeys(bar.label for group in groups for bar in group.bars))
    lines = ["| work | " + " | ".join(loops) + " |", "|---|" + "---:|" * len(loops)]
    for group in groups:
        bars = {bar.label: bar for bar in group.bars}
        best = max((bar.ratio or 0.0 for bar in group.bars), default=0.0)
        cells = [_cell(bars.get(loop), best) for loop in loops]
        lines.append(f"| `{group.name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(bar: Bar | None, best: float) -> str:
    if bar is None:
        return ""
    text = f"{bar.cost} ({bar.times})" if bar.times and bar.label != BASE else bar.cost
    return f"**{text}**" if bar.ratio and bar.ratio >= best else text
