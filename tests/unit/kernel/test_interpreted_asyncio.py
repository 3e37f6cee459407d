"""The pure build on a Python whose asyncio has no compiled tasks, as PyPy's."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.interpreter import INTERPRETED

PROGRAM = Path(__file__).with_name("interpreted_asyncio.py")


@pytest.mark.loopcore_only
@pytest.mark.skipif(not INTERPRETED, reason="compiled tasks are loopcore's own")
def test_tasks_are_loopcores_where_asyncios_are_interpreted_too() -> None:
    ran = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
