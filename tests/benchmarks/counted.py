"""Tables of what counts.py and effects.py have written: system calls, instructions, effects of settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from loopcore_bench.charts import UNITS, Bar
from tests.benchmarks.harness.floors import FLOOR
from tests.benchmarks.harness.floors import PYTHON as PYTHON_FLOOR
from tests.benchmarks.records import read
from tests.benchmarks.targets import BOUNDS, is_ours

Counts = dict[str, dict[str, dict[str, int]]]
"""Instructions an operation, by row, Python and loop."""

LEAST = {
    "sock-1k": "2, and a wait where it has to",
    "udp-1k": "2, and a wait where it has to",
    "split-1k": "3, two writes joined",
}
"""System calls that a request needs at least, where they are not a wait, a receive and a send."""


def column(loop: str) -> str:
    """The head of a column."""
    return {FLOOR: "C server", PYTHON_FLOOR: "C and Python"}.get(loop, loop)


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


def read_counts(folder: Path) -> Counts:
    """The instructions that are stored, in the order of the rows, the newest Python first."""
    stored = read(folder / "instructions.json")["counts"]
    found: Counts = {each["row"]: {} for each in stored}
    for each in sorted(stored, key=lambda each: [-int(part) for part in each["python"].split(".")]):
        found[each["row"]].setdefault(each["python"], {})[each["loop"]] = each["instructions"]
    return found


def instruction_table(folder: Path) -> str:
    """Instructions of an operation, outside the kernel, by row and Python."""
    counts = read_counts(folder)
    loops = list(dict.fromkeys(loop for found in counts.values() for numbers in found.values() for loop in numbers))
    bounds = [loop for loop in BOUNDS if loop in loops]
    loops = [loop for loop in loops if loop not in bounds] + bounds
    lines = [
        [f"`{row}`", version, *(f"{numbers[loop]:,}" if loop in numbers else "" for loop in loops)]
        for row, found in counts.items()
        for version, numbers in found.items()
    ]
    commits = ", ".join(dict.fromkeys(read(folder / "instructions.json")["commits"].values()))
    return table(["row", "Python"], [column(loop) for loop in loops], lines) + f"\n\nTree at commit {commits}."


def counted_like(row: str) -> str:
    """The row whose instructions say most of this one: of its transport, and with one connection or with several.

    A message of 100 KiB is not like a small one.
    """
    small = re.fullmatch(r"(tcp|unix)-(64|1k|16k)-(\d+)", row)
    if small is None or row == "tcp-16k-10":
        return row
    return f"{small[1]}-{'1k' if small[1] == 'tcp' else '64'}-{'1' if small[3] == '1' else '10'}"


def instructions_of(row: str, counts: Counts) -> str:
    """A sentence: what an operation takes on loopcore, on the floor with Python and on the peer that takes least."""
    texts = []
    for version, numbers in counts.get(row, {}).items():
        peers = {loop: number for loop, number in numbers.items() if loop not in BOUNDS and not is_ours(loop)}
        chosen = ("loopcore", PYTHON_FLOOR, min(peers, key=lambda loop: peers[loop], default=""))
        told = [f"{numbers[loop]:,} of {column(loop)}" for loop in chosen if loop in numbers]
        texts.append(f"{', '.join(told)} on {version}")
    return f" Instructions of `{row}`: {'; '.join(texts)}." if texts else ""


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
