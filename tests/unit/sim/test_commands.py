"""`loopcore sim`: one report of all processes of `run --jobs`, and what is refused."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from loopcore.errors import UsageError
from loopcore.sim.tape import Tape
from loopcore.sim.traffic import Traffic, played

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
    return sim("run", *arguments)


def sim(*arguments: str, flags: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    return subprocess.run(
        [sys.executable, *flags, "-m", "loopcore", "sim", *arguments],
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


@pytest.mark.parametrize("options", [[], ["--jobs", "2"]])
def test_a_search_without_assert_statements_gives_one_warning(program: str, options: list[str]) -> None:
    ended = sim("run", f"{program}:fails", "--seeds", "8", *options, flags=("-O",))
    assert ended.returncode == 0
    assert ended.stdout.endswith("no run failed\n")
    assert ended.stderr.startswith("loopcore: warning: under -O or PYTHONOPTIMIZE a program has no assert ")
    assert ended.stderr.count("\n") == 1


def test_a_mistake_is_reported_once(program: str) -> None:
    ended = run(f"{program}:other", "--jobs", "3")
    assert ended.returncode == 2
    assert ended.stderr.count("has no function 'other'") == 1
    assert "--seeds is 1 or more, not 0" in run(program, "--seeds", "0").stderr


@pytest.mark.parametrize("broken", ["import absent", "def"])
def test_the_traceback_of_a_file_that_cannot_be_imported_begins_with_it(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(broken, encoding="utf-8")
    ended = run(str(path))
    assert ended.returncode == 1
    told = ended.stderr.removeprefix("Traceback (most recent call last):\n")
    assert told.startswith(f'  File "{path}", line 1')


@pytest.fixture
def dump(tmp_path: Path) -> str:
    path = tmp_path / "traffic.json"
    Traffic([], 0.0).to_json(path)
    return str(path)


def refused(*arguments: str) -> str:
    ended = sim("replay", *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    return ended.stderr


def test_a_dump_or_sample_that_cannot_be_read_is_one_line(program: str, dump: str, tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    assert refused(absent, "--on", program) == f"loopcore: error: {absent} cannot be read: No such file or directory\n"
    sampled = refused(dump, "--on", program, "--sample", absent)
    assert sampled == f"loopcore: error: {absent} cannot be read: No such file or directory\n"
    assert refused(str(tmp_path), "--on", program).startswith(f"loopcore: error: {tmp_path} cannot be read: ")


@pytest.mark.parametrize("option", ["--trace", "--diagram", "--hosts"])
def test_what_shows_one_run_needs_a_token(program: str, dump: str, option: str) -> None:
    assert f"{option} needs a TOKEN" in refused(dump, "--on", program, option, "here")


@pytest.mark.parametrize("speed", ["0", "-1"])
def test_a_speed_is_above_0(program: str, dump: str, speed: str) -> None:
    assert "speed is above 0" in refused(dump, "--on", program, "--speed", speed)
    with pytest.raises(UsageError, match="speed is above 0"):
        played(Traffic([], 0.0), main, speed=float(speed))


async def main() -> None:
    pass


@pytest.mark.parametrize("option", ["--trace", "--diagram"])
def test_the_place_of_a_report_is_looked_at_before_the_run(program: str, tmp_path: Path, option: str) -> None:
    absent = tmp_path / "absent"
    told = refused(program, "no token", option, str(absent / "file"))
    assert f"cannot write '{absent / 'file'}': there is no folder '{absent}'" in told
    assert f"cannot write '{tmp_path}': it is a folder" in refused(program, "no token", option, str(tmp_path))


def test_hosts_of_a_run_in_which_no_host_did_anything_are_refused_so(program: str) -> None:
    told = refused(program, Tape().token(), "--hosts", "nope")
    assert told == "loopcore: error: --hosts: no host nope; this run has none to show\n"
