"""The measured process of the harness: one micro workload on one loop, one line of JSON on stdout."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

from loopcore_bench.child import NOT_INSTALLED, measure, result_of
from loopcore_bench.loops import LoopFactory, loop_factory, missing_reason
from loopcore_bench.meter import settle_gc, warm_allocator
from tests.benchmarks.harness.work import all_micro

_ENDLESS = 1e9


def without_clock(factory: LoopFactory) -> LoopFactory:
    """A factory of loops that skip the poll by count alone.

    Under valgrind a callback takes fifty times as long, so a bound in seconds would be reached after every one and
    the count would be that of a loop that polls all the time. Only loopcore has such an attribute.
    """

    def make() -> asyncio.AbstractEventLoop:
        loop: Any = factory()
        if hasattr(loop, "poll_skip_time"):
            loop.poll_skip_time = _ENDLESS
        return loop  # type: ignore[no-any-return]

    return make


def main(argv: list[str] | None = None) -> int:
    """Entry of the child; the exit status is 0, or NOT_INSTALLED with the reason on stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loop", required=True)
    parser.add_argument("--backend")
    parser.add_argument("--work", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--gc", choices=("on", "off"), default="on")
    parser.add_argument("--cold", action="store_true", help="no warm-up and no clock, for instruction counts")
    options = parser.parse_args(argv)
    work = all_micro()[options.work]
    try:
        factory = loop_factory(options.loop, options.backend)
        if options.cold:
            factory = without_clock(factory)
        warm_allocator()
        settle_gc(options.gc)
        meter = measure(work, factory, options.count, warm=not options.cold)
    except (ImportError, AttributeError, LookupError, NotImplementedError) as error:
        print(json.dumps({"reason": missing_reason(error)}))
        return NOT_INSTALLED
    print(json.dumps(result_of(meter, options.count)))
    return 0
