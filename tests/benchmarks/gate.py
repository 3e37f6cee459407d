"""The regression gate: instructions per operation of the micro workloads against a stored base.

    python tests/benchmarks/gate.py [--python PYTHON] [--update]

The base is gate.json: for each Python (3.11, ...) the facts about what was measured, and instructions per operation of
every workload on loopcore and on asyncio. A workload fails when it needs more than 5 % more than the base says.
Exit status: 0; 1 when a workload fails; 2 when nothing could be counted or there is no base for this Python.

What makes it hold on another machine:

- Instructions are counted and not timed (valgrind), by the clock nothing is done, the collector is off, the hash seed
  and the environment are fixed. So two runs of one build differ by 0.1 % at most, however busy the machine is.
- A count belongs to an interpreter, a compiler, a Cython, a C library. asyncio is counted in the same run, by the
  same interpreter with the same library, and a count that exceeds the base is forgiven where asyncio's count exceeds
  its own base as much: then the ground has moved and not loopcore.
- Where those facts differ from the base's, the difference is printed, and only ratios of loopcore to asyncio are
  judged, with a margin of 15 %: compilers differ by some per cent in what they make of the same source. A smaller
  regression is seen where the base was made. `--update` makes this machine that place.
- A Python of another minor version has another asyncio: for that there is no base until one is written.

A workload that became cheaper by more than the margin is named, so that the base can follow it; that is no failure.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # the harness of this tree, before an installed one
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "core"), str(Path(__file__).resolve().parents[2])]

from loopcore_bench.loops import LoopSpec, program_path
from loopcore_bench.process import MeasurementError, NotInstalledError
from tests.benchmarks.harness.callgrind import count_sections

BASE = Path(__file__).with_name("gate.json")
MARGIN = 0.05
LOOSE_MARGIN = 0.15
SECTIONS = {
    **dict.fromkeys(("call_soon", "call_soon_burst", "call_soon_args"), 2000),
    "getaddrinfo": 200,  # asyncio asks a thread: as long as ten others
    **dict.fromkeys(("sleep0", "sleep0_100", "pingpong", "spawn", "gather", "taskgroup"), 2000),
    **dict.fromkeys(("timer_insert", "timer_cancel", "reader", "pair_echo"), 1000),
}
"""Every workload that does nothing by the clock and has no second thread, with its number of operations.

Not `loop_cycle`: a loop is made once, and each part that loopcore is given adds to that.
"""

_FACTS = """\
import json, platform
try:
    import loopcore
    from loopcore.build_info import describe_build
    build = describe_build()
    tools = build.tools if build.compiled else {"compiler": "none, a pure build"}
except ImportError:
    raise SystemExit("loopcore is not installed for this Python")
print(json.dumps({"python": platform.python_version(), "python_compiler": platform.python_compiler(),
    "cython": tools.get("cython", ""), "compiler": tools.get("compiler", ""),
    "libc": " ".join(platform.libc_ver()), "machine": platform.machine()}))
"""

Counts = dict[str, dict[str, float]]
"""Instructions per operation, by loop and workload."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a comparison found, in lines for a person. `failures` decide."""

    notes: list[str]
    failures: list[str]
    table: list[str]


def facts_of(python: str) -> dict[str, str]:
    """What is measured, from the interpreter that has it. Raises NotInstalledError."""
    try:
        found = subprocess.run([python, "-c", _FACTS], capture_output=True, text=True, check=False, cwd="/")
        if found.returncode:
            raise NotInstalledError(f"{python}: {(found.stderr.strip().splitlines() or ['no answer'])[-1]}")
        facts: dict[str, str] = json.loads(found.stdout)
    except (OSError, json.JSONDecodeError) as error:
        raise NotInstalledError(f"{python} is no interpreter: {error}") from None
    return {**facts, "valgrind": valgrind_version()}


def valgrind_version() -> str:
    """Its version. Raises NotInstalledError with what to do about it."""
    if shutil.which("valgrind") is None:
        raise NotInstalledError("valgrind is not installed; on Debian: apt-get install valgrind")
    said = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=True).stdout
    return said.strip().removeprefix("valgrind-")


def count_both(python: str) -> Counts:
    """Count on loopcore and on asyncio, side by side: the counts do not mind."""
    specs = [LoopSpec(name, name, None, python) for name in ("loopcore", "asyncio")]
    with ThreadPoolExecutor(len(specs)) as pool:
        found = list(pool.map(lambda spec: count_sections(spec, SECTIONS), specs))
    return {
        spec.label: {work: round(result.per_operation, 1) for work, result in results.items()}
        for spec, results in zip(specs, found, strict=True)
    }


def series_of(version: str) -> str:
    """`3.11` of `3.11.7`."""
    matched = re.match(r"\d+\.\d+", version)
    assert matched is not None
    return matched[0]


def compare(base: dict[str, Any], facts: dict[str, str], counts: Counts) -> Judgement:
    """Judge `counts` by the base of the same Python. A workload that the base does not know is a failure, too."""
    moved = [f"{name}: {facts.get(name)!r}, the base has {text!r}" for name, text in base["facts"].items()]
    moved = [line for line, (name, text) in zip(moved, base["facts"].items(), strict=True) if facts.get(name) != text]
    notes = [f"not what the base was made with: {line}" for line in moved]
    margin = LOOSE_MARGIN if moved else MARGIN
    if moved:
        notes.append(f"so ratios to asyncio are judged, with a margin of {margin:.0%}; --update makes a base for here")
    failures, table = [], []
    for work, count in counts["loopcore"].items():
        if work not in base["loopcore"]:
            failures.append(f"{work}: the base has no count; write one with --update")
            continue
        grown = count / base["loopcore"][work]
        ground = counts["asyncio"][work] / base["asyncio"][work]
        judged = grown / ground if moved else min(grown, grown / ground)
        table.append(f"{work:16} {count:12.1f} {base['loopcore'][work]:12.1f} {grown:8.3f} {ground:8.3f}")
        if judged > 1 + margin:
            failures.append(
                f"{work}: {judged - 1:+.1%} instructions per operation, the margin is {margin:.0%} "
                f"({count:.0f}, stored {base['loopcore'][work]:.0f}; asyncio {ground - 1:+.1%})"
            )
        elif max(grown, grown / ground) < 1 - margin:
            notes.append(f"{work}: {grown - 1:+.1%} instructions; --update would keep that")
    notes += [
        f"{work}: in the base, but not counted any more" for work in base["loopcore"] if work not in counts["loopcore"]
    ]
    return Judgement(notes, failures, table)


def read_bases(path: Path) -> dict[str, Any]:
    """All bases by Python series; none if there is no file."""
    bases: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return bases


def write_base(path: Path, facts: dict[str, str], counts: Counts) -> None:
    """Put the base of this Python in the place of the old one; the others stay."""
    bases = {**read_bases(path), series_of(facts["python"]): {"facts": facts, **counts}}
    path.write_text(json.dumps(dict(sorted(bases.items())), indent=1) + "\n", encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--python", type=program_path, default=sys.executable, help="an interpreter that has loopcore, compiled"
    )  # not resolved: a virtual environment's is a link
    parser.add_argument("--base", type=Path, default=BASE)
    parser.add_argument("--update", action="store_true", help="write the counts as the base of this Python")
    options = parser.parse_args(argv)
    bases = read_bases(options.base)
    try:
        facts = facts_of(options.python)
        series = series_of(facts["python"])
        if series not in bases and not options.update:  # said before a minute of counting
            raise NotInstalledError(
                f"{options.base} has no base for Python {series}, but for {', '.join(bases) or 'none'}: "
                "name an interpreter of those with --python, or write a base with --update"
            )
        counts = count_both(options.python)
    except (NotInstalledError, MeasurementError) as error:
        print(error, file=sys.stderr)
        return 2
    if options.update:
        write_base(options.base, facts, counts)
        print(f"{options.base}: the base of Python {series} is written")
        return 0
    found = compare(bases[series], facts, counts)
    print(f"{'workload':16} {'counted':>12} {'stored':>12} {'ratio':>8} {'asyncio':>8}")
    print("\n".join([*found.table, *found.notes]))
    print("\n".join(found.failures) or f"no workload is above its base ({len(counts['loopcore'])} counted)")
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
