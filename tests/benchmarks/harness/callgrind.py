"""Instructions per operation, counted by valgrind: the same workload N and 2 N times, the difference over N.

Start-up, imports and the end of the process are in both runs and cancel out; what remains is exact to a few
instructions where time on a shared machine is not to a few per cent. A server's are counted from one look at its CPU
time to the next, between which it is loaded (`ServerCounts`); those repeat to a few per cent, because a tick finds as
many requests as the client has sent by then. Valgrind's CPU has no branch misses and no cache
misses, so the count says how much work is done, not how fast. It is also fifty times slower, so whatever a loop does
by the clock (how often it polls while it is busy) it does more often; loopcore's workloads, not its servers, are told
to go by count alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from loopcore_bench.loops import LoopSpec
from loopcore_bench.process import MeasurementError, NotInstalledError
from tests.benchmarks.harness.process import module_command
from tests.benchmarks.harness.sections import MARK

_COLLECTED = re.compile(r"Collected\s*:\s*(\d+)")
_TOTALS = re.compile(r"^totals: (\d+)$", re.MULTILINE)
_FIXED = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1", "LC_ALL": "C.UTF-8"}
"""All that a workload's environment holds besides PATH: variables lie on its stack, and settings change its work."""

_TIMEOUT = 900.0
_LOOK = "getrusage"
"""The function of the C library by which a server, and the floor, tell their CPU time: callgrind divides there."""


@dataclass(frozen=True, slots=True)
class Instructions:
    """The result for one row on one loop: what `count` operations took, and twice as many.

    Of a server `twice` is what the loaded interval took, and `once` 0: its start is in neither.
    """

    loop: str
    work: str
    count: int
    once: int
    twice: int

    @property
    def per_operation(self) -> float:
        """Instructions an operation, start-up taken out."""
        return (self.twice - self.once) / self.count


def count_instructions(spec: LoopSpec, work: str, count: int) -> Instructions:
    """Run N and 2 N operations under callgrind. Raises NotInstalledError without valgrind."""
    once = _total(spec, work, count, Path("/dev/null"))
    twice = _total(spec, work, 2 * count, Path("/dev/null"))
    return Instructions(spec.label, work, count, once, twice)


def write_profile(spec: LoopSpec, work: str, count: int, into: Path) -> None:
    """Leave callgrind's file of one run, for callgrind_annotate or kcachegrind."""
    _total(spec, work, count, into)


def count_sections(spec: LoopSpec, sections: dict[str, int]) -> dict[str, Instructions]:
    """The same for several workloads in one process: start-up under valgrind takes longer than a section.

    `sections` gives the N of each. A count is exact as long as the workloads, their order and N stay the same: what ran
    before leaves its traces in allocators and caches. Raises as `count_instructions` does.
    """
    text = ",".join(f"{work}={count}" for work, count in sections.items())
    with tempfile.TemporaryDirectory(prefix="loopcore-bench-") as scratch:
        output = Path(scratch) / "counts"
        child = [*module_command(spec, "sections"), "--sections", text]
        _run(spec, "the sections", [f"--dump-before={MARK}"], child, output)
        # The first part is the start, the one without a number the end of the process.
        parts = [_part(output.with_name(f"counts.{number}")) for number in range(2, 2 * len(sections) + 2)]
    pairs = zip(sections.items(), parts[::2], parts[1::2], strict=True)
    return {work: Instructions(spec.label, work, count, once, twice) for (work, count), once, twice in pairs}


class ServerCounts:
    """Counts of a server that runs under `command`, which writes a part of them at each look at its CPU time."""

    def __init__(self, directory: Path) -> None:
        self._output = directory / "counts"

    @property
    def command(self) -> list[str]:
        """What the server is to run under. Raises NotInstalledError without valgrind."""
        return [*_callgrind(self._output), f"--dump-before={_LOOK}", "--quiet"]

    def parts(self) -> int:
        """How many have been written."""
        return len(list(self._output.parent.glob(f"{self._output.name}.*")))

    def file(self, number: int) -> Path:
        """A part, from 1, as callgrind_annotate reads it."""
        return self._output.with_name(f"{self._output.name}.{number}")

    def instructions(self, number: int) -> int:
        """What is in a part. Raises MeasurementError if it is not there."""
        return _part(self.file(number))


def _callgrind(output: Path) -> list[str]:
    """The command that a child runs under. Raises NotInstalledError without valgrind."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise NotInstalledError("valgrind is not installed")
    return [valgrind, "--tool=callgrind", f"--callgrind-out-file={output}"]


def _part(path: Path) -> int:
    try:
        found = _TOTALS.search(path.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        raise MeasurementError("callgrind did not divide its counts; is valgrind's --dump-before at work?") from None
    if found is None:
        raise MeasurementError(f"no totals in what callgrind wrote to {path.name}")
    return int(found.group(1))


def _total(spec: LoopSpec, work: str, count: int, output: Path) -> int:
    # The collector is off: when it runs depends on how many objects exist, which is not linear in the count.
    child = [*module_command(spec, "child"), "--work", work, "--count", str(count), "--cold", "--gc", "off"]
    said = _run(spec, work, [], child, output)
    found = _COLLECTED.search(said)
    if found is None:
        raise MeasurementError(f"callgrind of {work} on {spec.label} did not say what it collected")
    return int(found.group(1))


def _run(spec: LoopSpec, what: str, options: list[str], child: list[str], output: Path) -> str:
    """Run a child under callgrind, in an environment that is the same everywhere; returns what valgrind said."""
    command = [*_callgrind(output), *options, *child]
    environment = {**_FIXED, "PATH": os.defpath}
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=_TIMEOUT, env=environment, cwd="/", check=False
    )
    if result.returncode:
        lines = (result.stdout + result.stderr).strip().splitlines()
        lines = [line for line in lines if not line.startswith("==")] or lines
        raise MeasurementError(f"callgrind of {what} on {spec.label} failed: {lines[-1] if lines else 'no output'}")
    return result.stderr
