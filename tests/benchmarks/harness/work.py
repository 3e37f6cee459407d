"""The micro workloads of the harness, with those of `loopcore bench`."""

from __future__ import annotations

import importlib

from loopcore_bench import work
from loopcore_bench.work import Work


def all_micro() -> dict[str, Work]:
    """Every micro workload by name, in the order of the table."""
    work.all_micro()
    for module in ("micro_calls", "micro_tasks", "micro_timers", "micro_io", "micro_process"):
        importlib.import_module(f"tests.benchmarks.harness.{module}")
    return work.MICRO
