"""Tables of system calls and of the effects of settings, from the data of counts.py and effects.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from loopcore_bench.charts import UNITS, Bar
from tests.benchmarks.harness.floors import FLOOR
from tests.benchmarks.records import read

LEAST = {
    "sock-1k": "2, and a wait where it has to",
    "udp-1k": "2, and a wait where it has to",
    "split-1k": "3, two writes joined",
}
"""System calls that a request needs at least, where they are not a wait, a receive and a send."""


def column(loop: str) -> str:
    """The head of a column."""
    return "C server" if loop == FLOOR else loop


def table(words: Sequence[str], figures: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Markdown: columns of words, then columns of figures, which are set to the right."""
    head = [f"| {' | '.join([*words, *figures])} |", "|" + "---|" * len(words) + "---:|" * len(figures)]
    return "\n".join([*head, *(f"| {' | '.join(line)} |" for line in lines)])


def syscall_table(folder: Path) -> str:
    """Calls a request by loop: all of them, and for loopcore which."""
    found = read(folder / "syscalls.json")
    by_row: dict[str, dict[str, dict[str, float]]] = {}
    for each in found["calls"]:
        by_row.setdefault(each["row"], {})[each["loop"]] = each["calls"]
    loops = list(dict.fromkeys(each["loop"] for each in found["calls"]))
    lines = []
    for row, calls in by_row.items():
        sums = [f"{sum(calls[loop].values()):.2f}" if loop in calls else "" for loop in loops]
        ours = ", ".join(f"`{name}` {value:.2f}" for name, value in calls.get("loopcore", {}).items() if value >= 0.005)
        lines.append([row, LEAST.get(row, "3: wait, receive, send"), ours, *sums])
    drawn = table(["transport", "at least", "loopcore's"], [column(loop) for loop in loops], lines)
    return f"{drawn}\n\nPython {found['python']}, {found['requests']} requests each; tree at commit {found['commit']}."


def settings_table(folder: Path) -> str:
    """What a setting changes: CPU time, or the wait, and system calls a request."""
    found = read(folder / "settings.json")
    lines = []
    for cell in found["cells"]:
        unit = UNITS[cell["metric"]]
        costs = [Bar("", cell[name], unit, None, False).cost for name in ("median", "least")]
        calls = ", ".join(f"`{name}` {value:.2f}" for name, value in cell["calls"].items())
        value = f"`{cell['value']}`" if cell["value"] else "default"
        lines.append([f"`{cell['variable']}`", value, f"`{cell['row']}`", calls, *costs])
    drawn = table(["variable", "value", "row", "system calls a request"], ["median", "least"], lines)
    loop, machine = found["loop"], found["machine"]
    where = f"{machine['cpu']}, {machine['system']}, Python {loop['python']}, {loop['build']}, {loop['backend']}"
    state = f"rounds: {found['rounds']}; load at the start: {machine['load_average'][0]}"
    return f"{drawn}\n\n{machine['date'][:10]}, {where}; tree at commit {machine['commit']}; {state}."
