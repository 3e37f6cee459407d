"""A child for callgrind that runs several workloads in one process, so that start-up is paid once.

Before and after every section it calls getppid(2), which nothing else here does: callgrind is told to write out and
reset its counts there (`--dump-before=getppid`). Each workload runs twice, first N operations and then 2 N.
"""

from __future__ import annotations

import argparse
import os

from loopcore_bench.child import measure
from loopcore_bench.loops import loop_factory
from loopcore_bench.meter import settle_gc, warm_allocator
from tests.benchmarks.harness.child import without_clock
from tests.benchmarks.harness.work import all_micro

MARK = "getppid"
"""The function of the C library at which callgrind divides its counts."""


def mark() -> None:
    """End one section and begin the next."""
    os.getppid()


def parse_sections(text: str) -> list[tuple[str, int]]:
    """Read `work=count,work=count`."""
    return [(work, int(count)) for work, _, count in (part.partition("=") for part in text.split(","))]


def main(argv: list[str] | None = None) -> int:
    """Entry of the child. A workload that fails ends it with a traceback."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loop", required=True)
    parser.add_argument("--backend")
    parser.add_argument("--sections", required=True)
    options = parser.parse_args(argv)
    factory = without_clock(loop_factory(options.loop, options.backend))
    works = all_micro()
    sections = parse_sections(options.sections)
    warm_allocator()
    # Off, as in every instruction count: when it runs depends on how many objects exist, which is not linear.
    settle_gc("off")
    for work, count in sections:
        measure(works[work], factory, max(1, count // 10), warm=False)
    for work, count in sections:
        mark()
        measure(works[work], factory, count, warm=False)
        mark()
        measure(works[work], factory, 2 * count, warm=False)
    mark()
    return 0
