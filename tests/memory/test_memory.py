"""One allocation fails at a time, in each kind of work that a loop does: no crash, no hang, and the loop works after.

An allocation that fails may end the scenario with MemoryError, or be reported to the exception handler; then the
scenario may be left waiting. What is lost without a report is a hang, and a failure. `LOOPCORE_TEST_DEPTH=full` lets
every allocation fail, over every kind of backend; otherwise some do, over the default one.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.memory.scenarios import SCENARIOS

pytest.importorskip("_testcapi", reason="this Python has no allocator that fails on demand")

IS_FULL = os.environ.get("LOOPCORE_TEST_DEPTH") == "full"
BACKENDS = ["epoll", "uring", "proactor", "select"] if IS_FULL else ["auto"]
TRIES = 20
"""How many allocations of a scenario fail in the quick run, about; a prime number apart."""

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="each failure needs a process of its own"),
    pytest.mark.skipif(
        sys.version_info[:2] == (3, 13),
        reason="CPython 3.13 frees the code of a function that it cannot make, and crashes",
    ),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_failed_allocation_ends_no_process_and_no_loop(scenario: str, backend: str) -> None:
    program = Path(__file__).with_name("child.py")
    command = [sys.executable, str(program), scenario, backend, "0" if IS_FULL else str(TRIES)]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if "BackendUnavailableError" in result.stderr:
        pytest.skip(result.stderr.strip().rpartition("\n")[2])
    *failures, last = result.stdout.splitlines() or [""]
    assert (result.returncode, failures, last[-11:]) == (0, [], "allocations"), result.stdout + result.stderr
