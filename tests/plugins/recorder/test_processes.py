"""What is left of a process that was killed, that crashed, or that forked, and of one that ended in order."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import loopcore
from loopcore.errors import UsageError
from loopcore_plugins.recorder import Recorder
from loopcore_plugins.recorder.files import MAGIC
from loopcore_plugins.recorder.layout import Kind
from loopcore_plugins.recorder.reading import Recording, read
from tests.plugins.recorder.recording import PATIENCE, named, of, quiet

pytestmark = [pytest.mark.loopcore_only, pytest.mark.skipif(os.name != "posix", reason="needs signals and os.fork")]

PROGRAM = """
import asyncio, ctypes, os, signal
import loopcore

async def end():
    {end}

async def handle():
    await asyncio.sleep(0.01)
    await asyncio.create_task(end(), name="last")

loopcore.run(handle())
"""


def run(text: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program with the recorder; return it when it has ended."""
    given = ",".join(f"{name}={value}" for name, value in ({"size": 1, "stall": 0} | options).items())
    return subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "LOOPCORE_PLUGINS": f"recorder:{given}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * PATIENCE,
    )


def why(path: Path) -> str:
    command = [sys.executable, "-m", "loopcore", "why", path]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=2 * PATIENCE).stdout


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", signal.SIGKILL),
        ("ctypes.string_at(0)", signal.SIGSEGV),
    ],
    ids=["killed", "crashed"],
)
def test_the_mapped_file_survives_the_process(tmp_path: Path, end: str, status: int) -> None:
    path = tmp_path / "app.rec"
    done = run(PROGRAM.format(end=end), file=path)
    assert done.returncode == -status, done.stderr
    recording = read(path)
    assert recording.problems == []
    assert not recording.is_dump
    last = [event for event in recording.events if event.kind is Kind.BEGIN][-1]
    assert recording.label(last.label).name == "end"  # that is where it was
    assert re.search(r"at the end .*end\S* \(<string>:5\) ran, which had not returned", why(path))


def test_sigterm_is_dumped_for_every_loop_and_then_ends_the_process(tmp_path: Path) -> None:
    text = """
import signal
import loopcore
loops = [loopcore.new_event_loop() for _ in range(2)]
signal.raise_signal(signal.SIGTERM)
"""
    done = run(text, at_exit="yes", dumps=tmp_path / "app-{n}.rec")
    assert done.returncode == -signal.SIGTERM, done.stderr
    recordings = [read(tmp_path / f"app-{number}.rec") for number in (1, 2)]
    assert [recording.facts["reason"] for recording in recordings] == ["exit", "exit"]
    assert done.stderr.count("read it with: loopcore why") == 2


FORK = """
import asyncio, os, sys
import loopcore

async def in_child():
    await asyncio.sleep(0)

async def forking():
    await asyncio.sleep(0)
    pid = os.fork()
    if pid:
        assert os.waitpid(pid, 0)[1] == 0
        await asyncio.sleep(0)
        os.kill(os.getpid(), 9)
    return pid

loop = loopcore.new_event_loop()
loop.run_until_complete(forking())
assert loop.probes.plugins() == []
loop.run_until_complete(in_child())
loop.close()
"""


def test_a_forked_child_leaves_the_recording_to_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "app.rec"
    done = run(FORK, file=path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    recording = read(path)
    assert recording.problems == []
    assert len(named(recording, "forking", Kind.BEGIN)) == 3
    assert not of(recording, Kind.DONE)
    assert not named(recording, "in_child")


# In this process


async def nothing() -> None: ...


def test_the_file_is_there_while_the_loop_is_and_private(tmp_path: Path) -> None:
    path = tmp_path / "app-1.rec"
    loop = loopcore.new_event_loop(plugins=[quiet(tmp_path, file=path)])
    loop.run_until_complete(nothing())
    recording = read(path)
    assert named(recording, "nothing", Kind.BEGIN)
    assert path.stat().st_mode & 0o777 == 0o600
    loop.close()
    assert list(tmp_path.iterdir()) == []


def test_a_dump_of_a_mapped_recording_is_a_whole_one(tmp_path: Path) -> None:
    recorder = quiet(tmp_path, file=tmp_path / "app.rec")
    loop = loopcore.new_event_loop(plugins=[recorder])
    loop.run_until_complete(nothing())
    recording: Recording = read(recorder.dump())
    loop.close()
    assert recording.is_dump
    assert recording.problems == []


def test_the_name_of_a_file_has_the_process_and_a_number(tmp_path: Path) -> None:
    name = tmp_path / "app-{pid}-{n}-{other}.rec"
    loops = [loopcore.new_event_loop(plugins=[quiet(tmp_path, file=name)]) for _ in range(2)]
    names = {path.name for path in tmp_path.iterdir()}
    for loop in loops:
        loop.close()
    assert len(names) == 2
    assert all(each.startswith(f"app-{os.getpid()}-") and each.endswith("-{other}.rec") for each in names)


def test_the_file_of_a_process_that_was_killed_is_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, earlier = tmp_path / "app.rec", tmp_path / "app.rec.old"
    loop = loopcore.new_event_loop(plugins=[quiet(tmp_path, file=path)])
    loop.run_until_complete(nothing())
    left = path.read_bytes()
    loop.close()
    path.write_bytes(left)  # as if it had been killed
    loop = loopcore.new_event_loop(plugins=[quiet(tmp_path, file=path)])
    assert named(read(earlier), "nothing", Kind.BEGIN)
    assert f"loopcore why {earlier}" in caplog.text
    loop.close()
    assert list(tmp_path.iterdir()) == [earlier]


def test_a_file_in_use_is_not_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "app.rec"
    loop = loopcore.new_event_loop(plugins=[quiet(tmp_path, file=path)])
    with pytest.raises(UsageError, match=r"another recorder does; put \{pid\} and \{n\} into the name"):
        Recorder(file=path)
    loop.close()
    quiet(tmp_path, file=path)


def test_a_file_that_is_no_recording_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text("print()")
    with pytest.raises(UsageError, match="not a recording; name another file"):
        Recorder(file=path)
    assert path.read_text() == "print()"


def test_a_pipe_and_a_link_are_not_taken(tmp_path: Path) -> None:
    pipe, link, target = tmp_path / "pipe", tmp_path / "link", tmp_path / "target"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="not a recording; name another file"):
        Recorder(file=pipe)
    target.write_bytes(MAGIC)
    link.symlink_to(target)
    with pytest.raises(UsageError, match="it is a link; name another file"):
        Recorder(file=link)
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "link", "target"}


def test_a_file_that_may_not_be_renamed_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "app.rec"
    path.write_bytes(MAGIC)
    (tmp_path / "app.rec.old").mkdir()
    with pytest.raises(UsageError, match=r"recorder cannot rename .*; name another file"):
        Recorder(file=path)


def test_a_file_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    recorder = quiet(tmp_path, file=folder / "app.rec")
    folder.rmdir()
    with pytest.raises(UsageError, match=r"recorder cannot keep its records in .*; name another file"):
        loopcore.new_event_loop(plugins=[recorder])
