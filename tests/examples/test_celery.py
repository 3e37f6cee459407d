"""Celery's tasks run their coroutines on loopcore, in every pool. Skipped where there is no Celery."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("celery", reason="pip install celery")

FOLDER = Path(__file__).parents[2] / "examples" / "celery"
ASK = """
import jobs
alone = jobs.alone.delay().get(timeout=60)
print(alone)
for _ in range(6):
    print(*jobs.many.delay(3).get(timeout=60), sep="; ")
"""
IN_MEMORY = """
from celery.contrib.testing.worker import start_worker
import jobs

with start_worker(jobs.app, pool="threads", concurrency=2, perform_ping_check=False, loglevel="ERROR"):
    print(jobs.alone.delay().get(timeout=60))
    print(*jobs.many.delay(3).get(timeout=60), sep="; ")
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "results").mkdir()
    paths = os.pathsep.join([str(FOLDER), *(path or os.getcwd() for path in sys.path)])
    places = {
        "JOBS_FOLDER": str(tmp_path),
        "JOBS_BROKER": "filesystem://",
        "JOBS_RESULTS": f"file://{tmp_path}/results",
    }
    return {**os.environ, **places, "PYTHONPATH": paths, "C_FORCE_ROOT": "1"}


@contextmanager
def worker(pool: str, environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "celery", "-A", "jobs", "worker", "--pool", pool, "--concurrency", "2"]
    with log.open("wb") as file:
        process = subprocess.Popen(command, env=environment, cwd=FOLDER, stdout=file, stderr=file)
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, log.read_text(encoding="utf-8")
        finally:
            process.kill()
            process.wait()


def ask(program: str, environment: dict[str, str]) -> list[list[str]]:
    """Run `program`; return module, process and loop of each coroutine that it has told of."""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return [one.split() for line in ended.stdout.splitlines() for one in line.split("; ")]


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_tasks_of_a_worker_run_on_loopcore(pool: str, environment: dict[str, str], tmp_path: Path) -> None:
    with worker(pool, environment, tmp_path / "log") as process:
        told = ask(ASK, environment)
    assert {module for module, _, _ in told} == {"loopcore.loop"}
    loops: dict[str, set[str]] = {}
    for _, pid, loop in told[1:]:
        loops.setdefault(pid, set()).add(loop)
    assert all(len(each) == 1 for each in loops.values()), "a process has one loop for its tasks"
    assert (str(process.pid) in loops) == (pool != "prefork")
    assert (tmp_path / "control").is_dir()
    assert not (FOLDER / "control").exists(), "the broker's tables do not belong beside the sources"


def test_broker_in_memory_needs_no_process(environment: dict[str, str]) -> None:
    for name in ("JOBS_FOLDER", "JOBS_BROKER", "JOBS_RESULTS"):
        del environment[name]
    told = ask(IN_MEMORY, environment)
    assert [module for module, _, _ in told] == ["loopcore.loop"] * 4
