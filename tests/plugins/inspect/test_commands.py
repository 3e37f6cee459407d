"""loopcore ps, stacks and cancel, on real processes."""

import io
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from loopcore_plugins.inspect import commands
from loopcore_plugins.inspect.places import Address
from tests.plugins.inspect.processes import SERVER, client_of, loopcore, running

pytestmark = pytest.mark.loopcore_only

BLOCKED = """
import sys
import loopcore

def wait_for_a_line():
    print("ready", flush=True)
    sys.stdin.readline()

async def main():
    wait_for_a_line()

loopcore.run(main(), plugins=["inspect"])
"""


def test_ps_shows_what_each_task_awaits(folder: Path, backend_name: str) -> None:
    with running(folder, SERVER, backend=backend_name) as process:
        result = loopcore("ps", str(process.pid))
    lines = result.stdout.splitlines()
    assert result.returncode == 0, result.stderr
    assert backend_name in lines[0]
    report = next(number for number, line in enumerate(lines) if "report" in line)
    assert "gather of 2" in lines[report]
    assert all("query" in line and "─ Task-" in line for line in lines[report + 1 : report + 3])
    assert "<string>:" in lines[report + 1]


def test_ps_gives_json(folder: Path) -> None:
    with running(folder, SERVER) as process:
        (loop,) = json.loads(loopcore("ps", "--json", "all").stdout)
    assert (loop["pid"], loop["loop"], loop["running"]) == (process.pid, 1, True)
    (report,) = (task for task in loop["tasks"] if task["name"] == "report")
    inner = [task for task in loop["tasks"] if report["id"] in task["awaited_by"]]
    assert {task["coroutine"] for task in inner} == {"query"}


def test_a_blocked_loop_can_be_looked_at(folder: Path, backend_name: str) -> None:
    with running(folder, BLOCKED, backend=backend_name) as process:
        listing = loopcore("ps", str(process.pid)).stdout
        stacks = loopcore("stacks", str(process.pid)).stdout
    assert ", busy, 1 task" in listing
    assert "running" in listing
    loop_thread, *_ = stacks.split("\n\n")[1:]
    assert loop_thread.startswith("thread MainThread (runs the loop)")
    assert "in wait_for_a_line" in loop_thread
    assert "task Task-1 (main), running" in stacks


def test_stacks_shows_the_threads_of_pools(folder: Path) -> None:
    program = """
import asyncio, sys, threading
import loopcore

def job():
    print("ready", flush=True)
    threading.Event().wait()

loopcore.run(asyncio.to_thread(job), plugins=["inspect"])
"""
    with running(folder, program) as process:
        stacks = loopcore("stacks", str(process.pid)).stdout
    (pool,) = (part for part in stacks.split("\n\n") if part.startswith("thread loopcore_"))
    assert ", in job" in pool
    assert "loopcore-inspect" not in stacks


def test_a_task_is_cancelled_by_name(folder: Path, backend_name: str) -> None:
    with running(folder, SERVER, backend=backend_name) as process:
        result = loopcore("cancel", str(process.pid), "client-1")
        names = loopcore("ps", str(process.pid)).stdout
    assert (result.returncode, result.stdout) == (0, "client-1 is cancelled\n")
    assert "client-1" not in names
    assert "client-2" in names


def test_a_task_of_a_blocked_loop_is_cancelled_when_it_goes_on(folder: Path) -> None:
    program = BLOCKED.replace("import sys", "import asyncio, sys")
    program = program.replace(
        "    wait_for_a_line()\n\nloop", "    wait_for_a_line()\n    await asyncio.sleep(99)\n\nloop"
    )
    with running(folder, program) as process:
        result = loopcore("cancel", str(process.pid), "Task-1")
        assert result.returncode == 1
        assert "is still running" in result.stderr
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(30) != 0


def test_a_program_ends_with_its_main_task_and_that_is_no_failure(folder: Path, backend_name: str) -> None:
    """Issue 32: it was reported as a process that had gone."""
    program = """
import asyncio, loopcore
async def main():
    print("ready", flush=True)
    await asyncio.sleep(99)
try:
    loopcore.run(main(), plugins=["inspect"])
except asyncio.CancelledError:
    pass
"""
    with running(folder, program, backend=backend_name) as process:
        result = loopcore("cancel", str(process.pid), "Task-1")
        assert process.wait(30) == 0
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("Task-1 is cancelled")


def test_what_cannot_be_found_is_one_line_and_exit_code_two(folder: Path) -> None:
    for arguments in (["ps", "999999"], ["ps", "nonsense"], ["stacks", "all"], ["cancel", "1", "x"], ["top", "--once"]):
        result = loopcore(*arguments)
        assert result.returncode == 2, arguments
        assert result.stderr.startswith("loopcore: error: ")
        assert result.stderr.count("\n") == 1
        assert result.stdout == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_a_line_on_a_terminal_that_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    tell, clear = commands._progress("recording 1.1", 10.0)
    tell(3.2)
    clear()
    assert shown.getvalue() == "\rrecording 1.1: 3 of 10 s\r\x1b[K"


def test_progress_elsewhere_is_one_line_if_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", shown := io.StringIO())
    for seconds in (0.5, 10.0):
        tell, clear = commands._progress("recording 1.1", seconds)
        tell(0.1)
        clear()
    assert shown.getvalue() == "recording 1.1 for 10 s\n"


def test_command_that_waits_long_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    written = threading.Event()

    class Shown(io.StringIO):
        def flush(self) -> None:
            written.set()

    monkeypatch.setattr(commands, "NOTICE", 0.0)
    monkeypatch.setattr(sys, "stderr", shown := Shown())
    with commands._waiting_for(Address(4711, 1, Path())):
        assert written.wait(30)
    assert shown.getvalue() == "waiting for 4711.1, at most 10 s\n"


def test_one_frame_and_a_page_are_not_asked_for_together(folder: Path, tmp_path: Path) -> None:
    result = loopcore("top", "--html", str(tmp_path / "page.html"), "--once")
    assert result.returncode == 2
    assert "--once: not allowed with argument --html" in result.stderr


def test_an_unknown_task_is_refused_with_those_there_are(folder: Path) -> None:
    with running(folder, SERVER) as process:
        result = loopcore("cancel", str(process.pid), "nobody")
    assert result.returncode == 2
    assert result.stderr.startswith("loopcore: error: no task is called 'nobody'; there are: ")
    assert "client-0" in result.stderr


def test_of_tasks_with_the_same_name_one_is_cancelled_by_its_id(folder: Path) -> None:
    with running(folder, SERVER.replace('name=f"client-{number}"', 'name="client"')) as process:
        pid = str(process.pid)
        refused = loopcore("cancel", pid, "client")
        chosen, *others = (number for number, _ in re.findall(r"(\d+) \(([^)]*:\d+)\)", refused.stderr))
        cancelled = loopcore("cancel", pid, chosen)
        (loop,) = json.loads(loopcore("ps", "--json", pid).stdout)
    assert refused.returncode == 2
    assert "3 tasks are called 'client'; give the id of one instead: " in refused.stderr
    assert (cancelled.returncode, cancelled.stdout) == (0, "client is cancelled\n")
    assert sorted(str(task["id"]) for task in loop["tasks"] if task["name"] == "client") == sorted(others)


@pytest.mark.parametrize("start", [["-m", "package"], ["-m", "loopcore", "run", "-m", "package"]])
def test_a_module_is_shown_as_it_was_started(folder: Path, tmp_path: Path, start: list[str]) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(SERVER)
    with subprocess.Popen([sys.executable, *start, "--port", "1"], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().split() == [b"ready"]
            shown = loopcore("ps", str(process.pid)).stdout
        finally:
            process.kill()
    assert shown.startswith(f"{process.pid}.1  -m package --port 1  ")


def test_two_loops_of_a_process_are_told_apart(folder: Path) -> None:
    program = """
import asyncio, threading
import loopcore
both = threading.Barrier(2, action=lambda: print("ready", flush=True))
async def main(name):
    asyncio.current_task().set_name(name)
    both.wait()
    await asyncio.sleep(99)
for name in ("one", "two"):
    threading.Thread(target=lambda name=name: loopcore.run(main(name), plugins=["inspect"])).start()
threading.Event().wait(99)  # from 3.12 on no thread can be started once the main one has ended
"""
    with running(folder, program) as process:
        shown = loopcore("ps", str(process.pid), "--json")
        assert shown.returncode == 0, shown.stderr
        loops = json.loads(shown.stdout)
        alone = [loopcore("ps", f"{process.pid}.{number}", "--json").stdout for number in (1, 2)]
    assert [loop["loop"] for loop in loops] == [1, 2]
    assert {loop["tasks"][0]["name"] for loop in loops} == {"one", "two"}
    assert [len(json.loads(text)) for text in alone] == [1, 1]


ODD_NAME = r"re\x1b[2J\x9b\r\n\u202eport\ud800"
"""It clears the screen, begins a line, turns the writing around, and cannot be encoded."""


def test_a_name_cannot_write_on_the_terminal(folder: Path) -> None:
    program = SERVER.replace('name="report"', f'name="{ODD_NAME}"')
    with running(folder, program) as process:
        pid = str(process.pid)
        shown = [loopcore(command, pid) for command in ("ps", "stacks")]
        refused = loopcore("cancel", pid, "nobody")
        json_text = loopcore("ps", "--json", pid).stdout
    for text in (*(each.stdout for each in shown), refused.stderr):
        assert ODD_NAME in text
        assert text.replace("\n", "").isprintable()
    assert "re\x1b[2J\x9b\r\n\u202eport\ud800" in [task["name"] for task in json.loads(json_text)[0]["tasks"]]


def test_a_name_that_the_output_cannot_encode_is_escaped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 32: the command ended with a traceback."""
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    with running(folder, SERVER.replace('name="report"', r'name="caf\xe9"')) as process:
        shown = loopcore("ps", str(process.pid))
    assert (shown.returncode, shown.stderr) == (0, "")
    assert r"caf\xe9" in shown.stdout


def test_a_long_name_leaves_the_other_columns_where_they_are_read(folder: Path) -> None:
    """Issue 32."""
    program = SERVER.replace('name="report"', 'name="n" * 100_000')
    with running(folder, program) as process:
        lines = loopcore("ps", str(process.pid)).stdout.splitlines()
    assert max(map(len, lines)) < 300
    column = lines[1].index("STATE")
    assert all(line[column:].startswith(("waiting", "ready", "running")) for line in lines[2:])


def test_ages_are_shown_where_they_are_asked_for(folder: Path) -> None:
    with running(folder, SERVER.replace('"inspect"', '"inspect:ages=yes"')) as process, client_of(process) as client:
        (age,) = (task["age"] for task in client.ask("ps")["tasks"] if task["name"] == "report")
        assert 0.0 < age < 600.0
        assert "AGE" in loopcore("ps", str(process.pid)).stdout


def test_a_listing_in_ascii_where_the_output_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    with running(folder, SERVER) as process:
        assert "`- Task-" in loopcore("ps", str(process.pid)).stdout


def test_nothing_is_open_unless_asked_for(folder: Path) -> None:
    with running(folder, SERVER.replace('plugins=["inspect"]', "")):
        assert os.listdir(folder) == []
