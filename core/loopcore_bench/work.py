"""The registry of micro workloads: a name, the operation, how many to run, how to run them.

Two shapes. An *inside* workload is a coroutine function `(meter, count)` and runs on the loop under test; a *bare* one
is a function `(meter, factory, count)` that makes its own loops. Both put the measured part into `with meter:`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from loopcore_bench.loops import LoopFactory
from loopcore_bench.meter import Meter

Inside = Callable[[Meter, int], Coroutine[Any, Any, None]]
Bare = Callable[[Meter, LoopFactory, int], None]


class Row(Protocol):
    """Anything that is measured on a loop."""

    @property
    def name(self) -> str:
        """The name, in tables and on the command line."""

    @property
    def operation(self) -> str:
        """The description of one operation."""


@dataclass(frozen=True, slots=True)
class Work:
    """One row of the micro table."""

    name: str
    operation: str
    count: int
    primary: str
    warm: bool
    inside: Inside | None
    bare: Bare | None


MICRO: dict[str, Work] = {}


def inside(
    name: str, operation: str, count: int, *, primary: str = "cpu_ns", warm: bool = True
) -> Callable[[Inside], Inside]:
    """Register a coroutine function. `primary` is the metric that rows are compared by; less is better."""

    def add(function: Inside) -> Inside:
        MICRO[name] = Work(name, operation, count, primary, warm, function, None)
        return function

    return add


def bare(name: str, operation: str, count: int, *, primary: str = "cpu_ns") -> Callable[[Bare], Bare]:
    """Register a function that makes its own loops."""

    def add(function: Bare) -> Bare:
        MICRO[name] = Work(name, operation, count, primary, True, None, function)
        return function

    return add


def all_micro() -> dict[str, Work]:
    """Every micro workload by name, in the order of the table."""
    importlib.import_module("loopcore_bench.micro")
    return MICRO
