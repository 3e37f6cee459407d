"""Count instructions per operation, outside the kernel, and compare two builds, or one with the C server.

    python tests/benchmarks/instructions.py --work sleep0,call_soon --count 20000 \\
        --loops with=loopcore@/with/bin/python,without=loopcore@/without/bin/python

    python tests/benchmarks/instructions.py --work tcp-1k-10,tls-1k-10 --loops loopcore@/with/bin/python --floor

`--python A --python B` is short for two loopcore environments. `--floor` adds the C server. Of a network row the
server's instructions are counted, from one look at its CPU time to the next. Each figure is set in ratio to the first
loop given.
`--limit 0.01` makes the exit status 1 when one is more than 1 % above the first. `--write FILE` stores the counts, and
`--base FILE --margin 0.05` fails when a count exceeds the stored one by more than 5 %: the regression gate.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

if __name__ == "__main__":  # the harness of this tree, before an installed one
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "core"), str(Path(__file__).resolve().parents[2])]

from loopcore_bench.loops import LoopSpec, parse_loop
from loopcore_bench.process import MeasurementError, NotInstalledError, describe
from loopcore_bench.work import Row
from tests.benchmarks.harness.callgrind import Instructions, count_instructions, write_profile
from tests.benchmarks.harness.cli import all_rows
from tests.benchmarks.harness.floors import FLOOR, describe_floor
from tests.benchmarks.harness.measure import NetBench, Settings
from tests.benchmarks.harness.native import NoCompilerError
from tests.benchmarks.harness.netrows import NetRow
from tests.benchmarks.harness.report import loop_line
from tests.benchmarks.harness.rounds import can_run


def main(argv: list[str] | None = None) -> int:
    """Entry point: 0, or 1 when a limit is exceeded, or 2 when nothing could be counted."""
    options = _parse(argv)
    words = [f"python{number}=loopcore@{path}" for number, path in enumerate(options.python or (), 1)]
    specs = [parse_loop(text) for text in words or options.loops.split(",")]
    works = options.work.split(",")
    unknown = [work for work in works if work not in all_rows()]
    if unknown:
        print(f"no workload {unknown[0]!r}; there are {', '.join(all_rows())}", file=sys.stderr)
        return 2
    rows = [all_rows()[work] for work in works]
    try:
        for spec in specs:
            print(loop_line(spec, describe(spec)), flush=True)
        with tempfile.TemporaryDirectory(prefix="loopcore-bench-") as scratch:
            if options.floor:
                specs.append(describe_floor("")[0])
            results = list(_count_all(rows, specs, options, Path(scratch)))
    except (NotInstalledError, MeasurementError, NoCompilerError) as error:
        print(error, file=sys.stderr)
        return 2
    if options.write:
        Path(options.write).write_text(json.dumps(stored(results), indent=1) + "\n", encoding="utf-8")
    base = json.loads(Path(options.base).read_text(encoding="utf-8")) if options.base else {}
    exceeded = too_many(results, options.limit) + above_base(results, base, options.margin)
    for line in exceeded:
        print(line, file=sys.stderr)
    return 1 if exceeded else 0


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loops", default="loopcore", help="[label=]name[:backend][@python],...")
    parser.add_argument("--python", action="append", help="an interpreter that has loopcore; may be repeated")
    parser.add_argument("--floor", action="store_true", help="count the C server as well")
    parser.add_argument("--work", default="call_soon,sleep0,pingpong,spawn", help="rows, micro or network")
    parser.add_argument("--count", type=int, default=20_000, help="operations of the shorter run, or requests")
    parser.add_argument("--limit", type=float, help="allowed excess over the first loop, as a fraction")
    parser.add_argument("--write", help="store the counts as JSON")
    parser.add_argument("--base", help="stored counts to compare with")
    parser.add_argument("--margin", type=float, default=0.05, help="allowed excess over the stored counts")
    parser.add_argument("--profile", help="write callgrind's file of the first workload on the first loop, and stop")
    options = parser.parse_args(argv)
    if options.count < 1:
        parser.error("--count has to be 1 or more")
    if options.base and not Path(options.base).is_file():
        parser.error(f"there is no base {options.base}; write one with --write")
    return options


def _count_all(
    rows: list[Row], specs: list[LoopSpec], options: argparse.Namespace, scratch: Path
) -> Iterator[Instructions]:
    """Every row on every loop that has it, told as it comes; with --profile the first of them, and no more."""
    profile = Path(options.profile) if options.profile else None
    settings = Settings(requests=options.count, warmup=1.0, gc="off")
    net = NetBench(settings, scratch) if any(isinstance(row, NetRow) for row in rows) else None
    for row in rows:
        for spec in specs:
            if not can_run(row, spec):
                continue
            if isinstance(row, NetRow):
                assert net is not None
                result = net.count_instructions(row, spec, profile)
            elif profile:
                write_profile(spec, row.name, options.count, profile)
                return
            else:
                result = count_instructions(spec, row.name, options.count)
            print(f"{row.name:18} {spec.label:16} {result.per_operation:12,.1f} an operation", flush=True)
            yield result
            if profile:
                return


def stored(results: list[Instructions]) -> dict[str, float]:
    """The layout of the stored base: `work/loop` to instructions per operation."""
    return {f"{result.work}/{result.loop}": round(result.per_operation, 1) for result in results}


def too_many(results: list[Instructions], limit: float | None) -> list[str]:
    """Print the ratio of every loop to the first of its workload; return what exceeds the limit."""
    first: dict[str, Instructions] = {}
    exceeded = []
    for result in results:
        reference = first.setdefault(result.work, result)
        if reference is result:
            continue
        ratio = result.per_operation / reference.per_operation
        print(f"{result.work:18} {result.loop} / {reference.loop} = {ratio:.4f}")
        if limit is not None and ratio > 1 + limit and result.loop != FLOOR:
            exceeded.append(
                f"{result.work}: {result.loop} is {ratio:.4f} of {reference.loop}, the limit is {1 + limit:g}"
            )
    return exceeded


def above_base(results: list[Instructions], base: dict[str, float], margin: float) -> list[str]:
    """What exceeds its stored count. A workload without a stored count is not judged."""
    exceeded = []
    for key, value in stored(results).items():
        if key in base and value > base[key] * (1 + margin):
            exceeded.append(f"{key}: {value:.1f} instructions, stored {base[key]:.1f}, the margin is {margin:.0%}")
    return exceeded


if __name__ == "__main__":
    sys.exit(main())
