"""Tables and charts of the manual and of README.md, drawn from docs/explanation/performance/*.json.

Everything between `<!-- drawn: NAME -->` and `<!-- end -->` is replaced; the charts are files in docs/images. What a
peer does better is found in the figures: a page cannot claim what its data deny.
tests/benchmarks/test_figures.py fails when pages and data differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from loopcore_bench.charts import Bar, groups_of, least_of
from loopcore_bench.page import loop_lines
from tests.benchmarks.counted import (
    column,
    settings_table,
    syscall_table,
    table,
)
from tests.benchmarks.harness.charts import markdown_table, svg
from tests.benchmarks.harness.cli import README as README_ROWS
from tests.benchmarks.harness.floors import FLOOR
from tests.benchmarks.records import DATA, ROOT, read
from tests.benchmarks.targets import (
    LEVEL,
    PEERS,
    TARGETS,
    Medians,
    Target,
    against,
    medians_of,
)

PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "explanation" / "performance.md",
    ROOT / "docs" / "evidence" / "performance.md",
    ROOT / "docs" / "evidence" / "measurements.md",
]
IMAGES = ROOT / "docs" / "images"

CHARTS = {
    "inside": (
        "Inside the loop",
        ("call_soon", "sleep0", "pingpong", "spawn", "taskgroup", "timer_insert", "timer_fire"),
    ),
    "network": (
        "Over the network",
        ("tcp-1k-10", "tcp-100k-10", "split-1k-10", "streams-1k-10", "tls-1k-10", "uvicorn-100"),
    ),
}
SERVERS = ("tcp-1k-10", "tls-1k-10", "uvicorn-100", "aiohttp-100")
"""The rows of the chart in README.md."""
RATES = ("tcp-1k-10", "uvicorn-100", "aiohttp-100", "churn-10", "process")
FEW = 5
BUSY = "**Few rounds, or a machine that had other work: a single figure may be off by half.**"


def read_data(folder: Path = DATA) -> dict[str, dict[str, Any]]:
    """The documents by Python version, the newest first."""
    paths = sorted(folder.glob("[0-9]*.json"), key=lambda path: tuple(map(int, path.stem.split("."))), reverse=True)
    return {path.stem: read(path) for path in paths}


def only(document: dict[str, Any], rows: Iterable[str], loops: Iterable[str] | None = None) -> dict[str, Any]:
    """The document with these rows alone, in this order, and these loops."""
    by_row: dict[str, list[dict[str, Any]]] = {}
    for figure in document["figures"]:
        if loops is None or figure["loop"] in loops:
            by_row.setdefault(figure["row"], []).append(figure)
    return {**document, "figures": [figure for row in rows for figure in by_row.get(row, [])]}


def full_table(document: dict[str, Any]) -> str:
    """Every row: what each loop costs, and the better of loopcore's backends against the best peer."""
    medians = medians_of(document)
    loops = [name for name, facts in document["loops"].items() if "skipped" not in facts]
    lines = []
    for group in groups_of(document):
        bars = {bar.label: bar for bar in group.bars}
        least = least_of(bar for bar in group.bars if bar.label != FLOOR)
        cells = [cost(bars.get(loop), None if loop == FLOOR else least) for loop in loops]
        ahead, peer = against(medians.get(group.name, {}))
        cells.append(f"{ahead:.2f} x {peer}" if ahead else "")
        lines.append([f"`{group.name}`", *cells])
    return table(["row"], [*map(column, loops), "against the best peer"], lines)


def target_table(documents: dict[str, dict[str, Any]]) -> str:
    """Every target, and for each Python what was found; what is not met is bold."""
    medians = [medians_of(document) for document in documents.values()]
    alike: dict[tuple[str, str], list[Target]] = {}
    for target in TARGETS:
        alike.setdefault((target.text, target.row.partition("-")[0]), []).append(target)
    lines = [line for targets in alike.values() for line in target_lines(targets, medians)]
    return table(["row", "target", *documents], [], lines)


def target_lines(targets: list[Target], medians: list[Medians]) -> Iterator[list[str]]:
    """Lines of targets that ask the same of rows of one kind.

    Targets that are met on every Python share a line if there are more than two; it shows the narrowest result.
    """
    judged = {target.row: [target.judge(each) for each in medians] for target in targets}
    met = {
        row: verdicts
        for row, verdicts in judged.items()
        if any(verdicts) and all(verdict is None or verdict.met for verdict in verdicts)
    }
    if len(met) > 2:
        by_python = zip(*met.values(), strict=True)
        worst = [min(filter(None, found), key=lambda each: each.share, default=None) for found in by_python]
        kind = f"`{targets[0].row.partition('-')[0]}-*` ({len(met)} of {len(targets)})"
        yield [kind, targets[0].text, *(f"met: {each.text} at worst" if each else "" for each in worst)]
    for target in targets:
        if len(met) <= 2 or target.row not in met:
            yield [f"`{target.row}`", target.text, *(verdict_cell(target, each) for each in medians)]


def verdict_cell(target: Target, medians: Medians) -> str:
    """A cell of the targets: empty where nothing was measured."""
    verdict = target.judge(medians)
    if verdict is None:
        return ""
    return f"met: {verdict.text}" if verdict.met else f"**not met: {verdict.text}**"


def rate_table(documents: dict[str, dict[str, Any]]) -> str:
    """Operations a second of the rows that people know by that number, on the server's one CPU; the most is bold."""
    loops = list(dict.fromkeys(loop for document in documents.values() for loop in document["loops"]))
    lines = []
    for row in RATES:
        for version, document in documents.items():
            found = {loop: 1e9 / values["wall_ns"] for loop, values in medians_of(document).get(row, {}).items()}
            most = max((value for loop, value in found.items() if loop != FLOOR), default=0.0)
            texts = [f"{found[loop]:,.0f}" if loop in found else "" for loop in loops]
            cells = [
                f"**{text}**" if found.get(loop) == most else text for loop, text in zip(loops, texts, strict=True)
            ]
            lines.append([f"`{row}`", version, *cells])
    return table(["row", "Python"], [column(loop) for loop in loops], lines)


def cost(bar: Bar | None, least: float | None) -> str:
    """A cell; the least of a row is bold. None is for a bound, which does not compete."""
    if bar is None:
        return ""
    return f"**{bar.cost}**" if least is not None and bar.value <= least and not bar.early else bar.cost


def behind(documents: dict[str, dict[str, Any]]) -> str:
    """The rows on which a peer is ahead by more than noise, then those on which it is ahead by less."""
    lines = []
    for version, document in documents.items():
        ratios = {row: against(loops) for row, loops in medians_of(document).items()}
        told = {row: f"`{row}` {ratio:.2f} x {peer}" for row, (ratio, peer) in ratios.items() if 0 < ratio < 1}
        ahead = [text for row, text in told.items() if ratios[row][0] < LEVEL]
        level = [text for row, text in told.items() if ratios[row][0] >= LEVEL]
        lines.append(f"- Python {version}, a peer ahead: {', '.join(ahead) or 'on no row'}.")
        if level:
            lines.append(f"- Python {version}, level, a peer ahead by less than {1 - LEVEL:.0%}: {', '.join(level)}.")
    return "\n".join(lines)


def losses(documents: dict[str, dict[str, Any]]) -> str:
    """A sentence of README.md: on how many rows a peer is ahead by more than noise, for each Python."""
    counts = []
    for version, document in documents.items():
        ratios = [ratio for ratio, _ in map(against, medians_of(document).values()) if ratio]
        counts.append((version, sum(ratio < LEVEL for ratio in ratios), len(ratios)))
    (newest, lost, rows), *others = counts
    return (
        f"On {newest} another loop is ahead by more than {100 * (1 - LEVEL):.0f} % in {lost} of {rows} rows, "
        + "".join(f"on {version} in {lost} of {rows}, " for version, lost, rows in others)
        + "even with the better of epoll and io_uring; "
        "[every one is listed](https://github.com/loopcore/loopcore/blob/main/docs/evidence/performance.md"
        "#where-another-loop-is-ahead)."
    )


def verdicts(documents: dict[str, dict[str, Any]]) -> str:
    """For each Python, on how many rows loopcore is ahead of every peer, level with the best one, and behind."""
    lines = []
    for version, document in documents.items():
        found = {row: against(loops) for row, loops in medians_of(document).items()}
        ratios = {row: ratio for row, (ratio, _) in found.items() if ratio}
        last = sorted((row for row in ratios if ratios[row] < LEVEL), key=ratios.__getitem__)
        ahead = sum(ratio > 1 / LEVEL for ratio in ratios.values())
        worst = ", ".join(f"`{row}` {ratios[row]:.2f} x {found[row][1]}" for row in last[:FEW])
        counts = [str(len(ratios)), str(ahead), str(len(ratios) - ahead - len(last)), str(len(last))]
        lines.append([version, *counts, worst])
    heads = ["rows", "ahead of every other loop", f"level, within {1 - LEVEL:.0%}", "behind"]
    return table(["Python"], [*heads, "furthest behind"], lines)


def conditions(documents: dict[str, dict[str, Any]]) -> str:
    """The machine, and for each Python the loops with their versions and the number of rounds."""
    lines = []
    for version, document in documents.items():
        machine, runs = document["machine"], document["runs"]
        days = sorted({run["date"][:10] for run in runs})
        commits = ", ".join(dict.fromkeys(run["commit"] for run in runs if run["commit"])) or "unknown"
        load = max(run["load_average"][0] for run in runs)
        rounds = [figure["rounds"] for figure in document["figures"] if figure["rounds"]] or [0]
        least, most = min(rounds), max(rounds)
        lines.append(
            f"**Python {version}**, {' to '.join(dict.fromkeys((days[0], days[-1])))}: "
            f"{machine['cpu']}, {machine['cpus']} CPUs, "
            f"{machine['system']}, {machine['libc']}, {machine['compiler']}; "
            f"tree at commit {commits}; rounds: {least if least == most else f'{least} to {most}'}; "
            f"load at the start: {load}. [Data](../explanation/performance/{version}.json)"
        )
        if least < FEW or load > machine["cpus"]:
            lines.append(BUSY)
        absent = [peer for peer in PEERS if peer not in document["loops"]]
        found = [*loop_lines(document), *[f"not installed: {', '.join(absent)}"] * bool(absent)]
        lines.append("\n".join(f"- {line}" for line in found))
    return "\n\n".join([*lines, *spread([medians_of(document) for document in documents.values()])])


def spread(series: list[Medians]) -> list[str]:
    """How far the medians of the C server, which has no Python in it, are apart in two series."""
    if len(series) != 2:
        return []
    first, second = ({row: loops[FLOOR]["primary"] for row, loops in each.items() if FLOOR in loops} for each in series)
    ratios = {row: first[row] / second[row] for row in first if row in second}
    if not ratios:
        return []
    low, high = (f"{find(ratios.values()):.2f}" for find in (min, max))
    said = "The C server is the same program in both: its medians in the first are"
    return [f"{said} {low} to {high} times those in the second."]


def claim(document: dict[str, Any], version: str) -> str:
    """The first claim of README.md: uvicorn's CPU time a request, against asyncio and uvloop, to the nearest 5 %."""
    costs = {loop: values["primary"] for loop, values in medians_of(document)["uvicorn-100"].items()}
    shares = [(peer, 1 - costs["loopcore"] / costs[peer]) for peer in ("asyncio", "uvloop")]
    less = " and ".join(
        f"about {5 * round(20 * abs(share))} % {'less' if share > 0 else 'more'} than on {peer}"
        for peer, share in shares
    )
    rounds = min(figure["rounds"] for figure in document["figures"] if figure["row"] == "uvicorn-100")
    measured = f"Python {version}, {'one round' if rounds == 1 else f'{rounds} rounds'}"
    return f"- **Fast.** CPU time of a uvicorn request: {less} ({measured}; [figures](#how-fast))."


def parts(documents: dict[str, dict[str, Any]]) -> dict[str, str]:
    """What is drawn, by name."""
    newest = next(iter(documents))
    short = markdown_table(groups_of(only(documents[newest], README_ROWS, ("asyncio", *PEERS, "loopcore"))))
    short += f"\n\nPython {newest}. {losses(documents)}"
    made = {"conditions": conditions(documents), "behind": behind(documents), "short": short}
    made |= {"claim": claim(documents[newest], newest), "verdicts": verdicts(documents)}
    made |= {"targets": target_table(documents), "rates": rate_table(documents)}
    made |= {"syscalls": syscall_table(DATA), "settings": settings_table(DATA)}
    made["charts"] = "\n\n".join(
        f"![{title}, Python {version}](../images/performance-{name}-{version}.svg)"
        for version in documents
        for name, (title, _) in CHARTS.items()
    )
    made["tables"] = "\n\n".join(f"### Python {version}\n\n{full_table(found)}" for version, found in documents.items())
    return made


def put(text: str, made: dict[str, str]) -> str:
    """The text with each marked part replaced."""

    def replace(match: re.Match[str]) -> str:
        return f"{match[1]}\n{made[match[2]]}\n{match[3]}"

    return re.sub(r"(<!-- drawn: (\w+) -->)\n.*?(<!-- end -->)", replace, text, flags=re.DOTALL)


def drawings(documents: dict[str, dict[str, Any]]) -> dict[Path, str]:
    """Every file that is drawn, with its text."""
    made = parts(documents)
    files = {path: put(path.read_text(encoding="utf-8"), made) for path in PAGES}
    charts = [
        (f"{name}-{version}", title, rows, version) for version in documents for name, (title, rows) in CHARTS.items()
    ]
    for name, title, rows, version in [*charts, ("servers", "Servers", SERVERS, next(iter(documents)))]:
        document = documents[version]
        chosen = only(document, rows, [loop for loop in document["loops"] if loop != FLOOR])
        chart = svg(groups_of(chosen), f"{title}: times faster than asyncio, Python {version}")
        files[IMAGES / f"performance-{name}.svg"] = chart
    return files


def draw() -> list[Path]:
    """Write all of it; returns what has changed."""
    changed = []
    for path, text in drawings(read_data()).items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed
