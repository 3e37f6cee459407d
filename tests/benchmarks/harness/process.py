"""Child processes that run modules of this harness."""

from __future__ import annotations

from pathlib import Path

from loopcore_bench import process
from loopcore_bench.loops import LoopSpec

ROOT = str(Path(__file__).resolve().parents[3])


def module_command(spec: LoopSpec, module: str) -> list[str]:
    """The command line that runs a module of this folder on the interpreter of the loop."""
    return process.module_command(spec, f"tests.benchmarks.harness.{module}", ROOT)
