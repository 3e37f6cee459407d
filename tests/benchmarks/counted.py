"""Tables of what counts.py and effects.py have written: system calls, instructions, effects of settings."""

from __future__ import annotations

import json
import re
from pathlib import Path

from loopcore_bench.charts import UNITS, Bar
from loopcore_bench.floors import PYTHON as PYTHON_FLOOR
from loopcore_bench.loops import FLOOR
from tests.benchmarks.targets import BOUNDS, is_ours

Counts = dict[str, dict[str, dict[str, int]]]
"""Instructions an operation, by row, Python and loop."""


def column(loop: str) -> str:
    """The head of a column."""
    return {FLOOR: "C server", PYTHON_FLOOR: "C and Python"}.get(loop, loop)


LEAST = {
    "sock-1k": "2, and a wait where it has to",
    "udp-1k": "2, and a wait where it has to",
    "split-1k": "3, two writes joined",
}


def syscall_table(folder: Path) -> str:
    """Calls a request by loop: all of them, and for loopcore which."""
    found = json.loads((folder / "syscalls.json").read_text(encoding="utf-8"))
    by_row: dict[str, dict[str, dict[str, float]]] = {}
    for each in found["calls"]:
        by_row.setdefault(each["row"], {})[each["loop"]] = each["calls"]
    loops = list(dict.fromkeys(each["loop"] for each in found["calls"]))
    names = [column(loop) for loop in loops]
    lines = [
        "| transport | at least | " + " | ".join(names) + " | loopcore's |",
        "|---|---|" + "---:|" * len(loops) + "---|",
    ]
    for row, calls in by_row.items():
        sums = [f"{sum(calls[loop].values()):.2f}" if loop in calls else "" for loop in loops]
        ours = ", ".join(f"`{name}` {value:.2f}" for name, value in calls.get("loopcore", {}).items() if value >= 0.005)
        least = LEAST.get(row, "3: wait, receive, send")
        lines.append(f"| {row} | {least} | " + " | ".join(sums) + f" | {ours} |")
    return "\n".join(lines) + f"\n\nPython {found['python']}, {found['requests']} requests each."


def read_counts(folder: Path) -> Counts:
    """The instructions that are stored, the newest Python first."""
    found: Counts = {}
    for each in json.loads((folder / "instructions.json").read_text(encoding="utf-8"))["counts"]:
        found.setdefault(each["row"], {}).setdefault(each["python"], {})[each["loop"]] = each["instructions"]
    return found


def instruction_table(folder: Path) -> str:
    """Instructions of an operation, outside the kernel, by row and Python."""
    counts = read_counts(folder)
    loops = list(dict.fromkeys(loop for found in counts.values() for loops in found.values() for loop in loops))
    loops.sort(key=lambda loop: loop in BOUNDS)
    lines = ["| row | Python | " + " | ".join(map(column, loops)) + " |", "|---|---|" + "---:|" * len(loops)]
    for row, found in counts.items():
        for version, numbers in found.items():
            cells = [f"{numbers[loop]:,}" if loop in numbers else "" for loop in loops]
            lines.append(f"| `{row}` | {version} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def counted_like(row: str) -> str:
    """The row whose instructions say most of this one: of its transport, and with one connection or with several."""
    if re.fullmatch(r"tcp-\w+-1", row):
        return "tcp-1k-1"
    for prefix, counted in (("tcp-16k-", "tcp-16k-10"), ("tcp-", "tcp-1k-10"), ("unix-", "unix-64-10")):
        if row.startswith(prefix):
            return counted
    return row


def instructions_of(row: str, counts: Counts) -> str:
    """A sentence: what an operation takes on loopcore, on the floor with Python and on the peer that takes least."""
    counted = counted_like(row)
    texts = []
    for version, numbers in counts.get(counted, {}).items():
        peers = {loop: number for loop, number in numbers.items() if loop not in BOUNDS and not is_ours(loop)}
        chosen = [loop for loop in (PYTHON_FLOOR, min(peers, key=lambda loop: peers[loop], default="")) if loop]
        others = [f"{numbers[loop]:,} of {column(loop)}" for loop in chosen if loop in numbers]
        told = ", ".join([f"{numbers['loopcore']:,}", *others])
        texts.append(f"{told} on {version}")
    like = "" if counted == row else f" of `{counted}`"
    return f" Instructions{like}: {'; '.join(texts)}." if texts else ""


def settings_table(folder: Path) -> str:
    """What a setting changes: CPU time, or the wait, and system calls a request."""
    found = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    lines = ["| variable | value | row | median | least | system calls a request |", "|---|---|---|---:|---:|---|"]
    for cell in found["cells"]:
        unit = UNITS[cell["metric"]]
        median, least = (Bar("", cell[name], unit, None, False).cost for name in ("median", "least"))
        calls = ", ".join(f"`{name}` {value:.2f}" for name, value in cell["calls"].items())
        value = f"`{cell['value']}`" if cell["value"] else "default"
        lines.append(f"| `{cell['variable']}` | {value} | `{cell['row']}` | {median} | {least} | {calls} |")
    loop, machine = found["loop"], found["machine"]
    where = f"{machine['cpu']}, {machine['system']}, Python {loop['python']}, {loop['build']}, {loop['backend']}"
    load = machine["load_average"][0]
    return (
        "\n".join(lines) + f"\n\n{machine['date'][:10]}, {where}; rounds: {found['rounds']}; load at the start: {load}."
    )
