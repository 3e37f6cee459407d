"""`loopcore sim run --jobs`: one report of all processes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio

from loopcore import sim


async def main():
    sim.reached("the middle")
    if sim.choose(2, "seldom"):
        sim.reached("seldom")
    await asyncio.sleep(1)


async def fails():
    await main()
    assert not sim.choose(2, "it breaks")
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return str(path)


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    return subprocess.run(
        [sys.executable, "-m", "loopcore", "sim", "run", *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def without_times(said: str) -> str:
    return re.sub(r"in [^\n]* a second", "", said)


def test_processes_add_up_to_the_counts_of_one(program: str) -> None:
    alone = run(program, "--seeds", "31")
    shared = run(program, "--seeds", "31", "--jobs", "3")
    assert (shared.returncode, shared.stderr) == (0, "")
    assert shared.stdout.startswith("31 runs in ")
    assert "reached 'the middle' in 31 of them" in shared.stdout
    assert without_times(shared.stdout) == without_times(alone.stdout)


def test_the_failure_of_one_process_is_reported_once_with_all_runs(program: str) -> None:
    alone = run(f"{program}:fails", "--seeds", "20")
    shared = run(f"{program}:fails", "--seeds", "20", "--jobs", "2")
    assert alone.returncode == shared.returncode == 1
    assert len(re.findall("^seed ", shared.stdout, re.MULTILINE)) == 1
    assert len(re.findall(" runs in ", shared.stdout)) == 1
    assert "1. it breaks" in shared.stdout
    assert f"loopcore sim replay {program}:fails sim1_" in shared.stdout


def test_a_mistake_is_reported_once(program: str) -> None:
    ended = run(f"{program}:other", "--jobs", "3")
    assert ended.returncode == 2
    assert ended.stderr.count("has no function 'other'") == 1
    assert "--seeds is 1 or more, not 0" in run(program, "--seeds", "0").stderr
