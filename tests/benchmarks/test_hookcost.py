"""What hookcost.py cuts out is still in the source, and what is left is a loop."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

_USE = "import asyncio, loopcore; loopcore.run(asyncio.to_thread(print, 'through a thread'))"


def test_the_cuts_apply_and_leave_a_loop_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    hookcost = importlib.import_module("hookcost")
    tree = hookcost.copy_source(tmp_path / "source")
    hookcost.apply_cuts(tree)
    found = subprocess.run(
        [sys.executable, "-c", _USE],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(str(tree / part) for part in ("core", "backends", "plugins"))},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (found.stdout, found.stderr) == ("through a thread\n", "")
