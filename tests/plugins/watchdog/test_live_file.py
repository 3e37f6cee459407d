"""The file that is touched while the process is live."""

import asyncio
import logging
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import loopcore
from loopcore.errors import UsageError
from loopcore_plugins.watchdog import Watchdog, live_file
from loopcore_plugins.watchdog.clocks import Collections, Moment
from loopcore_plugins.watchdog.live_file import LiveFile
from tests.plugins.watchdog.finder import PATIENCE

pytestmark = pytest.mark.loopcore_only


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "live"


def look(file: LiveFile, at: float) -> float:
    """Make the file look old, look, and return its time."""
    if file.path.exists():
        os.utime(file.path, (0, 0))
    file.look(Moment(at, 0.0, 0.0), Collections())
    return file.path.stat().st_mtime


def test_the_file_is_there_from_the_first_loop_to_the_last(path: Path) -> None:
    watchdog = Watchdog(file=path)
    assert not path.exists()
    loops = [loopcore.new_event_loop(plugins=[watchdog]), loopcore.new_event_loop(plugins=[Watchdog(file=path)])]
    for loop in loops:
        assert path.exists()
        loop.close()
    assert not path.exists()


def test_a_running_process_touches_the_file(path: Path) -> None:
    async def main() -> None:
        os.utime(path, (0, 0))
        deadline = time.monotonic() + PATIENCE
        while not path.stat().st_mtime:
            assert time.monotonic() < deadline, "the file was not touched"
            await asyncio.sleep(0.01)

    loopcore.run(main(), plugins=[Watchdog(file=path)])
    assert not path.exists()


def test_a_process_that_is_not_live_does_not_touch_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trouble: dict[str, Any] = {}
    monkeypatch.setattr(live_file, "liveness", lambda: trouble)
    file = LiveFile(path)
    file.touch()
    assert look(file, 1.0) > 0
    trouble["cause"] = "blocked"
    assert look(file, 2.0) == 0
    trouble.clear()
    assert look(file, 3.0) > 0
    assert look(file, 3.1) == 0  # it was touched a moment ago


def test_a_file_that_somebody_removes_is_made_again(path: Path) -> None:
    file = LiveFile(path)
    assert look(file, 1.0) > 0
    path.unlink()
    assert look(file, 2.0) > 0


def test_a_file_is_not_touched_once_it_is_removed(path: Path) -> None:
    file = LiveFile(path)
    file.touch()
    file.remove()
    file.look(Moment(1.0, 0.0, 0.0), Collections())
    assert not path.exists()


def test_an_error_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = LiveFile(tmp_path / "folder" / "live")
    with caplog.at_level(logging.ERROR, "loopcore.plugin"):
        for second in range(3):
            file.look(Moment(float(second), 0.0, 0.0), Collections())
    (record,) = caplog.records
    assert "cannot touch" in record.getMessage()
    (tmp_path / "folder").mkdir()
    assert look(file, 9.0) > 0
    shutil.rmtree(tmp_path / "folder")
    with caplog.at_level(logging.ERROR, "loopcore.plugin"):
        file.look(Moment(18.0, 0.0, 0.0), Collections())
    assert len(caplog.records) == 2  # it had worked meanwhile


def test_the_name_may_have_the_number_of_the_process(tmp_path: Path) -> None:
    loop = loopcore.new_event_loop(plugins=f"watchdog:file={tmp_path}/live-{{pid}}")
    assert [each.name for each in tmp_path.iterdir()] == [f"live-{os.getpid()}"]
    loop.close()


def test_a_file_that_cannot_be_written_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"watchdog cannot write .*missing/live: .*; name a file in a folder"):
        Watchdog(file=tmp_path / "missing" / "live")


def test_other_files_are_not_taken(path: Path) -> None:
    path.write_text("data")
    for file in (path, path.parent):
        with pytest.raises(UsageError, match="which is not an empty file"):
            Watchdog(file=file)
    assert path.read_text() == "data"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have owners on POSIX systems")
def test_no_file_of_another_user_is_taken(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.touch()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(UsageError, match="not a file of this user"):
        Watchdog(file=path)
    assert path.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names and links are POSIX's")
def test_no_link_is_followed(path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    target = tmp_path / "target"
    path.symlink_to(target)
    with pytest.raises(UsageError, match="which is not an empty file"):
        Watchdog(file=path)
    with caplog.at_level(logging.ERROR, "loopcore.plugin"):
        LiveFile(path).touch()
    assert "cannot touch" in caplog.text
    assert not target.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are POSIX's")
def test_no_pipe_is_touched(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.mkfifo(path)
    os.utime(path, (0, 0))
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with caplog.at_level(logging.ERROR, "loopcore.plugin"):
        LiveFile(path).touch()
    os.close(reader)
    assert "it is not a file of this user" in caplog.text
    assert path.stat().st_mtime == 0


EXIT = """
import os, sys
from pathlib import Path
import loopcore

path = Path(sys.argv[1])
loop = loopcore.new_event_loop(plugins=f"watchdog:file={path},port=0")
((_, watchdog),) = loop.probes.plugins()
if hasattr(os, "fork"):
    child = os.fork()
    if child == 0:
        assert watchdog.address is None
        loop.close()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert watchdog.address is not None
assert path.exists()
"""


def test_the_end_of_the_interpreter_removes_it_and_a_forked_child_does_not(path: Path) -> None:
    # From 3.12 on Python warns of forks beside threads, rightly; this one touches nothing that they hold.
    options = ["-W", "ignore::DeprecationWarning", "-W", "ignore::ResourceWarning"]
    done = subprocess.run([sys.executable, *options, "-c", EXIT, str(path)], check=False, timeout=2 * PATIENCE)
    assert done.returncode == 0
    assert not path.exists()
