"""The page that `loopcore bench --html` writes: one file, bars and a table, for any screen, light and dark.

The bars are elements, not a drawing: on a phone their labels keep the size of the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from loopcore_bench.charts import STYLE, Group, base_of, groups_of, least_of, longest_ratio

_LAYOUT = """\
body { margin: 0 auto; padding: 1rem; max-width: 46rem; color: var(--ink); background: var(--paper);
  font: 16px/1.45 system-ui, sans-serif }
h1 { font-size: 1.4rem } h2 { font-size: 1.05rem; margin: 2rem 0 0 } p, li, td, th { color: var(--soft) }
section { margin-top: 1.6rem } section h2 { margin: 0 } section p { margin: 0 0 .4rem; font-size: .9rem }
ol { list-style: none; margin: 0; padding: 0; font-size: .9rem }
.row { display: grid; grid-template-columns: 10rem 1fr 8.5rem; gap: .2rem .8rem; align-items: center; padding: .1rem 0 }
.row span { color: var(--ink) } .row .cost { color: var(--soft); text-align: right; white-space: nowrap }
.row b { display: block; height: .9rem; border-radius: 2px; min-width: 1px; background: var(--other) }
.row b.ours { background: var(--ours) }
@media (max-width: 34rem) {
  .row { grid-template-columns: 1fr auto; padding: .2rem 0 } .row .bar { grid-row: 2; grid-column: 1 / 3 }
  .row b { height: .6rem }
}
.wide { overflow-x: auto } table { border-collapse: collapse; font-size: .9rem; white-space: nowrap }
td, th { padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--rule); text-align: right }
td:first-child, th:first-child { text-align: left; position: sticky; left: 0; background: var(--paper) }
.best { color: var(--ours); font-weight: 600 }
"""


def page(document: Mapping[str, Any]) -> str:
    """The page for a JSON document (summary.document)."""
    groups = groups_of(document)
    machine = document["machine"]
    facts = [machine["date"], machine["cpu"], f"{machine['cpus']} CPUs", machine["system"], machine["libc"]]
    charts = "\n".join(_chart(group) for group in groups)
    rounds = max((figure.get("rounds", 0) for figure in document["figures"]), default=0)
    facts.append(f"{rounds} round{'s' * (rounds != 1)}")
    if interrupted := document.get("interrupted"):
        facts.append(interrupted)
    if load := machine.get("load_average"):
        facts.append(f"load at the start: {load[0]}")
    facts += [f"{name}={value}" for name, value in machine.get("environment", {}).items()]
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>loopcore bench</title>
<style>{STYLE}{_LAYOUT}</style>
<h1>Event loops compared</h1>
<p>CPU time of an operation (bytes or a delay, where the row says so), median of the rounds, and how many times less
it is than {escape(base_of(document))}'s. A longer bar is faster.</p>
{charts}
<h2>Table</h2>
<div class="wide">{_table(groups, document["loops"])}</div>
<h2>What was measured</h2>
<p>{escape(", ".join(str(fact) for fact in facts if fact))}</p>
<ul>{"".join(f"<li>{escape(line)}</li>" for line in loop_lines(document))}</ul>
</html>
"""


def loop_lines(document: Mapping[str, Any]) -> list[str]:
    """One line for each loop: version, compiled or pure, backend, Python."""
    lines = []
    for label, facts in document["loops"].items():
        if "skipped" in facts:
            lines.append(f"{label}: {facts['skipped']}")
            continue
        parts = [str(facts[key]) for key in ("version", "build", "backend", "compiler") if key in facts]
        python = f"; Python {facts['python']}" if "python" in facts else ""
        lines.append(f"{label}: {', '.join(parts)}{python}")
    return lines


def _chart(group: Group) -> str:
    longest = longest_ratio([group])
    lines = []
    for bar in group.bars:
        width = round((bar.ratio or 0.0) / longest * 100, 1)
        kind = "ours" if bar.ours else "other"
        drawn = f'<div class="bar"><b class="{kind}" style="width: {width}%"></b></div>'
        lines.append(
            f'<li class="row"><span>{escape(bar.label)}</span>{drawn}<span class="cost">{escape(bar.text)}</span></li>'
        )
    head = f"<h2>{escape(group.name)}</h2><p>{escape(group.operation)}</p>"
    return f"<section>{head}<ol>{''.join(lines)}</ol>{_missing(group)}</section>"


def _missing(group: Group) -> str:
    return "".join(f"<p>{escape(text)}</p>" for text in group.missing)


def _table(groups: list[Group], known: Iterable[str]) -> str:
    drawn = {bar.label for group in groups for bar in group.bars}
    loops = [loop for loop in known if loop in drawn]
    head = "".join(f"<th>{escape(loop)}</th>" for loop in loops)
    lines = []
    for group in groups:
        bars = {bar.label: bar for bar in group.bars}
        least = least_of(group.bars)
        cells = ""
        for loop in loops:
            bar = bars.get(loop)
            best = ' class="best"' if bar is not None and bar.value <= least and not bar.early else ""
            cells += f"<td{best}>{escape(bar.cost) if bar is not None else ''}</td>"
        lines.append(f"<tr><td>{escape(group.name)}</td>{cells}</tr>")
    return f"<table><tr><th>work</th>{head}</tr>{''.join(lines)}</table>"
