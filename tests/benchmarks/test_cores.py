"""The program that compares threads and processes measures what it says, and refuses wrong answers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CORES = Path(__file__).with_name("cores")

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc"),
    pytest.mark.skipif(not (shutil.which("cc") or shutil.which("gcc")), reason="no C compiler"),
]


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    return subprocess.run(
        [sys.executable, str(CORES / "run.py"), "--rounds", "1", "--seconds", "0.1", "--connections", "2", *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_every_case_has_its_row() -> None:
    done = run("--threads", "asyncio", "--processes", "asyncio", "--work", "echo,compute")
    assert done.returncode == 0, done.stderr
    header, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()]
    found = [dict(zip(header, row, strict=True)) for row in rows]
    loops = ["1 thread", "2 threads", "1 process", "2 processes"]
    assert [(row["work"], row["loops"]) for row in found] == [
        (work, each) for work in ("echo", "compute") for each in loops
    ]
    for row in found:
        assert float(row["requests/s"].replace(",", "")) > 0
        assert float(row["CPU us/request"]) > 0
        assert 0 < float(row["PSS MiB"]) <= float(row["RSS MiB"])
    one, two = (float(row["RSS MiB"]) for row in found[2:4])
    assert two > 1.5 * one, "the memory of all processes is added up"


def test_server_that_cannot_start_ends_it_with_the_reason() -> None:
    done = run("--threads", "no_such_loop", "--work", "echo")
    assert done.returncode != 0
    assert "no_such_loop" in done.stderr
