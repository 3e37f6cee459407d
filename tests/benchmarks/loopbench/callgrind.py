"""Instructions per operation, counted by valgrind: the same workload N and 2 N times, the difference over N.

Start-up, imports and the end of the process are in both runs and cancel out; what remains is exact to a few
instructions where time on a shared machine is not to a few per cent. Valgrind's CPU has no branch misses and no cache
misses, so the count says how much work is done, not how fast. It is also fifty times slower, so whatever a loop does
by the clock (how often it polls while it is busy) it does more often; loopcore's is told to go by count alone.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from loopbench.loops import LoopSpec
from loopbench.process import MeasurementError, NotInstalledError, child_environment, module_command

_TOTAL = re.compile(r"Collected\s*:\s*(\d+)")
_TIMEOUT = 900.0


@dataclass(frozen=True, slots=True)
class Instructions:
    """The result for one workload on one loop."""

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


def _total(spec: LoopSpec, work: str, count: int, output: Path) -> int:
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise NotInstalledError("valgrind is not installed")
    # The collector is off: when it runs depends on how many objects exist, which is not linear in the count.
    child = [*module_command(spec, "child"), "micro", "--work", work, "--count", str(count), "--cold", "--gc", "off"]
    command = [valgrind, "--tool=callgrind", f"--callgrind-out-file={output}", *child]
    environment = {**child_environment(), "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, env=environment, check=False)
    found = _TOTAL.search(result.stderr)
    if result.returncode or found is None:
        lines = (result.stdout + result.stderr).strip().splitlines()
        raise MeasurementError(f"callgrind of {work} on {spec.label} failed: {lines[-1] if lines else 'no output'}")
    return int(found.group(1))
