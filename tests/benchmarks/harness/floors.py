"""The two floors: what no loop can go below, and which rows each of them has.

`c` is an epoll server without Python: what the kernel asks for. `c+python` is C that calls the Python objects that
asyncio's interface names, and makes those that it promises: what a loop with that interface costs at least, over epoll.
It is a module with a `new_event_loop`, compiled for the interpreter that is measured, and runs the same workloads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from loopcore_bench.loops import LoopSpec
from loopcore_bench.process import MeasurementError, NotInstalledError, describe
from loopcore_bench.work import Row, Work
from tests.benchmarks.harness.native import NoCompilerError, compile_extension
from tests.benchmarks.harness.netrows import NetRow

FLOOR = "c"
"""Label of the C epoll server, which has network rows only."""

PYTHON_FLOOR = "pyfloor"
"""The module that is the floor with Python in it."""

PYTHON = "c+python"
"""Of the floor with Python in it, in tables and files."""

_INSIDE: tuple[str, ...] = (
    "call_soon",
    "call_soon_burst",
    "call_soon_args",
    "threadsafe",
    "getaddrinfo",
    "loop_cycle",
    "reader",
    "pair_echo",
)
_INSIDE += ("sleep0", "sleep0_100", "pingpong", "spawn", "gather", "taskgroup")
_INSIDE += ("timer_insert", "timer_cancel", "timer_fire")
_KINDS = ("protocol", "split", "buffered", "streams", "streams-own", "datagram", "uvicorn", "aiohttp")


def python_floor(python: str, into: Path) -> LoopSpec:
    """Compile the floor for an interpreter, below the directory. Raises NoCompilerError with the reason."""
    return LoopSpec(PYTHON, PYTHON_FLOOR, None, python, sources=(str(compile_extension(PYTHON_FLOOR, python, into)),))


def describe_floors(
    compiler: str, python: str, into: Path, *, network: bool = True
) -> list[tuple[LoopSpec, dict[str, Any]]]:
    """Both floors as columns of the table, with their facts; `skipped` holds the reason for one that cannot be had.

    Without `network` there is no C server. `python` is the interpreter that the other floor is compiled for.
    """
    found: list[tuple[LoopSpec, dict[str, Any]]] = []
    if network:
        found.append((LoopSpec(FLOOR, FLOOR, None, ""), {"version": "own epoll server", "compiler": compiler}))
    try:
        spec = python_floor(python, into)
        facts = {**describe(spec), "version": "own C code that calls Python", "compiler": compiler}
    except (NoCompilerError, NotInstalledError, MeasurementError) as error:
        spec, facts = LoopSpec(PYTHON, PYTHON_FLOOR, None, python), {"skipped": str(error)}
    return [*found, (spec, facts)]


def is_peer(spec: LoopSpec) -> bool:
    """Whether loopcore is compared with it: it is neither loopcore nor a floor."""
    return spec.name not in ("loopcore", FLOOR, PYTHON_FLOOR)


def has_floor(row: Row, spec: LoopSpec) -> bool:
    """Whether a floor has such a row; true for what is no floor."""
    if spec.name == FLOOR:
        return isinstance(row, NetRow) and row.has_floor
    if spec.name != PYTHON_FLOOR:
        return True
    if isinstance(row, Work):
        return row.name in _INSIDE
    return isinstance(row, NetRow) and row.kind in _KINDS and not row.idle
