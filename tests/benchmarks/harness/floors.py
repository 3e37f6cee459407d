"""The floor: an epoll server in C, which does what the kernel asks for and nothing else."""

from __future__ import annotations

from typing import Any

from loopcore_bench.loops import LoopSpec
from loopcore_bench.work import Row
from tests.benchmarks.harness.netrows import NetRow

FLOOR = "c"
"""Its label. It has network rows only."""


def describe_floor(compiler: str) -> tuple[LoopSpec, dict[str, Any]]:
    """The floor as a column of the table, with its facts."""
    return LoopSpec(FLOOR, FLOOR, None, ""), {"version": "own epoll server", "compiler": compiler}


def is_peer(spec: LoopSpec) -> bool:
    """Whether loopcore is compared with it: it is neither loopcore nor the floor."""
    return spec.name not in ("loopcore", FLOOR)


def has_floor(row: Row, spec: LoopSpec) -> bool:
    """Whether `spec` has such a row: every loop does, the floor has only some."""
    return spec.name != FLOOR or (isinstance(row, NetRow) and row.has_floor)
