"""The measured process: one micro workload on one loop, one line of JSON on stdout.

The parent never imports a loop itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

from loopcore_bench.loops import LoopFactory, describe_loop, loop_factory, missing_reason
from loopcore_bench.meter import Meter, settle_gc, warm_allocator
from loopcore_bench.work import Work, all_micro

NOT_INSTALLED = 3
"""Exit status when the loop is not available here; stdout then holds the reason."""


def measure(work: Work, factory: LoopFactory, count: int, *, warm: bool) -> Meter:
    """Run the workload once; when `warm`, first a tenth of it unmeasured. Both run on the same loop."""
    meter = Meter()
    warm = warm and work.warm
    early = max(1, count // 10)
    if work.bare is not None:
        if warm:
            work.bare(Meter(), factory, early)
        work.bare(meter, factory, count)
        return meter
    assert work.inside is not None
    with asyncio.Runner(loop_factory=factory) as runner:
        if warm:
            runner.run(work.inside(Meter(), early))
        runner.run(work.inside(meter, count))
    return meter


def result_of(meter: Meter, count: int) -> dict[str, float]:
    """The metrics of one measurement, each per operation."""
    return {"cpu_ns": meter.cpu_ns / count, "wall_ns": meter.wall_ns / count, **meter.extra}


def main(argv: list[str] | None = None) -> int:
    """Entry of the child; the exit status is 0, or NOT_INSTALLED with the reason on stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("describe", "micro"))
    parser.add_argument("--loop", required=True)
    parser.add_argument("--backend")
    parser.add_argument("--work")
    parser.add_argument("--count", type=int, default=0)
    options = parser.parse_args(argv)
    try:
        factory = loop_factory(options.loop, options.backend)
        if options.command == "describe":
            print(json.dumps(describe_loop(options.loop, options.backend)))
            return 0
    except Exception as error:  # any exception of an incomplete or broken installation is the reason to print
        print(json.dumps({"reason": missing_reason(error)}))
        return NOT_INSTALLED
    work = all_micro()[options.work]
    count = options.count or work.count
    warm_allocator()
    settle_gc("on")
    try:
        meter = measure(work, factory, count, warm=True)
    except NotImplementedError as error:
        print(json.dumps({"reason": missing_reason(error)}))
        return NOT_INSTALLED
    print(json.dumps(result_of(meter, count)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
