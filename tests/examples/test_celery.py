"""Celery's tasks run their coroutines on loopcore, in every pool and over a real Redis. Skipped without Celery."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("celery", reason='pip install -e ".[cookbook]"')
redis = pytest.importorskip("redis", reason='pip install -e ".[cookbook]"')

FOLDER = Path(__file__).parents[2] / "examples" / "celery"
PATIENCE = 120.0
"""Seconds for whatever is waited for."""
ASK = """
import jobs
alone = jobs.alone.delay().get(timeout=60)
print(alone)
for result in [jobs.many.delay(3) for _ in range(6)]:
    print(*result.get(timeout=60), sep="; ")
"""
IN_MEMORY = """
from celery.contrib.testing.worker import start_worker
import jobs

with start_worker(jobs.app, pool="threads", concurrency=2, perform_ping_check=False, loglevel="ERROR"):
    print(jobs.alone.delay().get(timeout=60))
    print(*jobs.many.delay(3).get(timeout=60), sep="; ")
"""
IN_THIS_PROCESS = """
import jobs

print(jobs.alone())
print(*jobs.many(3), sep="; ")
jobs.loops.close()
"""
LIFESPANS = """
import asyncio, contextlib
from loops import Loops

@contextlib.asynccontextmanager
async def group():
    async with asyncio.TaskGroup() as tasks:  # has to be left by the task that entered it
        background = tasks.create_task(asyncio.sleep(3600))
        yield tasks
        background.cancel()
    print("left")

@contextlib.asynccontextmanager
async def broken():
    raise OSError("no database")
    yield

loops = Loops(group)

@loops.task
async def add(a: int, b: int) -> int:
    return await loops.shared.create_task(asyncio.sleep(0, a + b))

print(add(1, 2), add(3, b=4))
loops.close()
try:
    Loops(broken).task(asyncio.sleep)(0)
except OSError as error:
    print(error)
"""
CALLER = """
import json, sys
import jobs

results = {}
for line in sys.stdin:
    what, key, arguments, options = json.loads(line)
    try:
        if what == "send":
            result = getattr(jobs, key).apply_async(arguments, **options)
            results[result.id] = result
            answer = result.id
        else:
            answer = getattr(results[key], what)(**options)
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The broker in the file system."""
    (tmp_path / "results").mkdir()
    places = {
        "JOBS_FOLDER": str(tmp_path),
        "JOBS_BROKER": "filesystem://",
        "JOBS_RESULTS": f"file://{tmp_path}/results",
    }
    return {**os.environ, **places, "PYTHONPATH": on_path(), "C_FORCE_ROOT": "1"}


def on_path() -> str:
    return os.pathsep.join([str(FOLDER), *(path or os.getcwd() for path in sys.path)])


@contextmanager
def worker(pool: str, environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "celery", "-A", "jobs", "worker", "--pool", pool, "--concurrency", "2"]
    command += ["--loglevel", "INFO", "--without-gossip", "--without-mingle"]
    with log.open("wb") as file:
        process = subprocess.Popen(command, env=environment, cwd=FOLDER, stdout=file, stderr=file)
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0, log.read_text(encoding="utf-8")
        finally:
            process.kill()
            process.wait()


def closed(log: Path) -> list[str]:
    """Return the processes of a worker that have left `lifespan`, once for each loop."""
    return re.findall(r"connections of process (\d+) are closed", log.read_text(encoding="utf-8"))


def run(program: str, environment: dict[str, str]) -> str:
    ended = subprocess.run(
        [sys.executable, "-W", "error:::asyncio", "-c", program],
        env=environment,
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "Warning" not in ended.stderr, ended.stderr
    return ended.stdout


def ask(program: str, environment: dict[str, str]) -> list[list[str]]:
    """Run `program`; return module, process and loop of each coroutine that it reports."""
    return [one.split() for line in run(program, environment).splitlines() for one in line.split("; ")]


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_tasks_of_a_worker_run_on_loopcore(pool: str, environment: dict[str, str], tmp_path: Path) -> None:
    with worker(pool, environment, tmp_path / "log") as process:
        reports = ask(ASK, environment)
    assert {module for module, _, _ in reports} == {"loopcore.loop"}
    loops: dict[str, set[str]] = {}
    for _, pid, loop in reports[1:]:
        loops.setdefault(pid, set()).add(loop)
    most = 2 if pool == "threads" else 1
    assert all(len(each) <= most for each in loops.values()), "one loop for each thread that runs tasks"
    assert (str(process.pid) in loops) == (pool != "prefork")
    assert (tmp_path / "control").is_dir()
    assert not (FOLDER / "control").exists(), "the broker's tables do not belong beside the sources"
    if pool == "prefork":
        assert set(loops) <= set(closed(tmp_path / "log"))
    else:
        assert closed(tmp_path / "log") == [str(process.pid)] * len(loops[str(process.pid)])


@pytest.mark.parametrize("program", [IN_MEMORY, IN_THIS_PROCESS], ids=["in memory", "called"])
def test_tasks_run_on_loopcore_without_a_worker_process(program: str, environment: dict[str, str]) -> None:
    del environment["JOBS_FOLDER"]
    environment |= {"JOBS_BROKER": "memory://", "JOBS_RESULTS": "cache+memory://"}
    assert [module for module, _, _ in ask(program, environment)] == ["loopcore.loop"] * 4


def test_lifespan_is_one_task_and_its_error_is_raised(environment: dict[str, str]) -> None:
    assert run(LIFESPANS, environment).splitlines() == ["3 7", "left", "no database"]


# Over a real broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Redis of this module's own."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("there is no redis-server on PATH")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("redis")
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            with redis.Redis(port=port) as client:
                until(lambda: answers(client))
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.wait()


def answers(client: Any) -> bool:
    try:
        return bool(client.ping())
    except redis.exceptions.ConnectionError:
        return False


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def over_redis(broker: str) -> dict[str, str]:
    return {**os.environ, "JOBS_REDIS": broker, "PYTHONPATH": on_path(), "C_FORCE_ROOT": "1"}


@pytest.fixture
def store(broker: str) -> Iterator[Any]:
    with redis.Redis.from_url(broker, decode_responses=True) as client:
        client.flushall()
        yield client


class Caller:
    """A program that calls tasks and waits for their results. An error is its text, with the name of its class."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", CALLER],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, task: str, *arguments: str, **options: Any) -> str:
        """Return the id of the call."""
        return str(self._ask("send", task, arguments, options))

    def get(self, id_: str) -> Any:
        return self._ask("get", id_, (), {"timeout": PATIENCE})

    def revoke(self, id_: str, **options: Any) -> None:
        assert self._ask("revoke", id_, (), {"terminate": True, **options}) is None

    def _ask(self, *message: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(message), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=PATIENCE)


@pytest.fixture(scope="module")
def caller(over_redis: dict[str, str]) -> Iterator[Caller]:
    caller = Caller(over_redis)
    yield caller
    caller.close()


def entries(store: Any, name: str) -> list[list[str]]:
    """What the runs of `follow` logged: what happened, the task's id, the process."""
    return [entry.split() for entry in store.lrange(f"{name}:log", 0, -1)]


def test_tasks_of_a_process_share_its_connections(
    caller: Caller, store: Any, over_redis: dict[str, str], tmp_path: Path
) -> None:
    with worker("prefork", over_redis, tmp_path / "log"):
        ids = [caller.send("visit", "/") for _ in range(20)]
        assert sorted(caller.get(each) for each in ids) == list(range(1, 21))
    assert len(set(closed(tmp_path / "log"))) == 2
    assert caller.send("visit") == "TypeError: visit() missing 1 required positional argument: 'page'"


def test_limit_and_revocation_cancel_the_coroutine(
    caller: Caller, store: Any, over_redis: dict[str, str], tmp_path: Path
) -> None:
    with worker("prefork", over_redis, tmp_path / "log"):
        limited = caller.send("follow", "limited", soft_time_limit=1)
        assert caller.get(limited).startswith("SoftTimeLimitExceeded")

        for name, options in (("interrupted", {"signal": "SIGUSR1"}), ("terminated", {})):
            revoked = caller.send("follow", name)
            until(lambda: entries(store, name))  # noqa: B023 - called at once
            caller.revoke(revoked, **options)
            # The worker reports the revocation, the process what its task raised; the later report stays.
            assert caller.get(revoked).startswith(("TaskRevokedError", "SoftTimeLimitExceeded"))
            until(lambda: len(entries(store, name)) == 2)  # noqa: B023

        store.set("finished", "")
        assert caller.get(caller.send("follow", "finished")) is None
    for name in ("interrupted", "terminated", "finished"):
        assert [what for what, _, _ in entries(store, name)] == ["began", "ended"]
    # A slow machine reaches the limit before the coroutine has logged that it began.
    assert [what for what, _, _ in entries(store, "limited")] in ([], ["began", "ended"])
    [_, [_, _, victim]] = entries(store, "terminated")
    assert victim in closed(tmp_path / "log")


def test_shutdown_loses_no_task_and_runs_none_twice(
    caller: Caller, store: Any, over_redis: dict[str, str], tmp_path: Path
) -> None:
    ids = [caller.send("follow", "open") for _ in range(6)]
    with worker("prefork", over_redis, tmp_path / "first") as process:
        until(lambda: len(entries(store, "open")) == 2)
        process.send_signal(signal.SIGTERM)
        until(lambda: "Warm shutdown" in (tmp_path / "first").read_text(encoding="utf-8"))
        store.set("open", "")
        assert process.wait(PATIENCE) == 0
    first = entries(store, "open")
    assert sorted(what for what, _, _ in first) == ["began", "began", "ended", "ended"]
    with worker("prefork", over_redis, tmp_path / "second"):
        assert [caller.get(each) for each in ids] == [None] * 6
    for happened in ("began", "ended"):
        assert sorted(task for what, task, _ in entries(store, "open") if what == happened) == sorted(ids)


def test_task_of_a_killed_process_runs_again(
    caller: Caller, store: Any, over_redis: dict[str, str], tmp_path: Path
) -> None:
    with worker("prefork", over_redis, tmp_path / "log"):
        id_ = caller.send("follow", "killed")
        until(lambda: entries(store, "killed"))
        [[_, _, victim]] = entries(store, "killed")
        os.kill(int(victim), signal.SIGKILL)
        until(lambda: len(entries(store, "killed")) == 2)
        store.set("killed", "")
        assert caller.get(id_) is None
    began, again, ended = entries(store, "killed")
    assert [began[0], again[0], ended[0]] == ["began", "began", "ended"]
    assert {began[1], again[1], ended[1]} == {id_}
    assert victim == began[2] != again[2] == ended[2]
