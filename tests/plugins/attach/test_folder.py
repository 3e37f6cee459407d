"""The folder that the command and the process under inspection share: no other user can replace it."""

import errno
import os
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from loopcore.errors import UsageError
from loopcore_plugins.attach import agent, injection
from loopcore_plugins.attach.folder import SharedFolder
from loopcore_plugins.attach.process import Process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc")


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    """This process, with a temporary folder whose path is short enough for a socket's."""
    with tempfile.TemporaryDirectory(prefix="lc-") as name:
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Process(os.getpid())


def test_only_the_two_users_may_enter_it(process: Process) -> None:
    with SharedFolder(process) as folder, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        folder.bind(listener)
        folder.write("script", "pass")
        assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.path.iterdir()}
        assert modes == {"socket": 0o600, "script": 0o600}
    assert not folder.path.exists()


def test_what_is_written_is_in_the_folder_whatever_has_taken_its_name(process: Process, tmp_path: Path) -> None:
    with SharedFolder(process) as folder, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        hidden = folder.path.rename(folder.path.with_name("hidden"))
        folder.path.symlink_to(tmp_path)
        (hidden / "link").symlink_to(tmp_path / "target")
        folder.bind(listener)
        folder.write("script", "pass")
        assert not (tmp_path / "script").exists()
        assert {each.name for each in hidden.iterdir()} == {"socket", "script", "link"}
        with pytest.raises(OSError, match="link"):
            folder.open("link", os.O_WRONLY | os.O_CREAT)
    assert folder.path.is_symlink()


def test_another_folder_of_the_same_name_is_not_emptied(tmp_path: Path) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    (folder / "mine").write_text("kept")
    link.symlink_to(folder)
    status = folder.stat()
    agent.remove(str(link), (status.st_dev, status.st_ino))
    agent.remove(str(folder), (status.st_dev, status.st_ino + 1))
    assert (folder / "mine").read_text() == "kept"
    agent.remove(str(folder), (status.st_dev, status.st_ino))
    assert not folder.exists()


@pytest.mark.parametrize("mode", [0o777, 0o775])
@pytest.mark.parametrize("which", ["parent", "above"])
def test_place_that_others_may_write_to_is_refused(
    which: str, mode: int, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    above = Path(tempfile.gettempdir())
    parent = above / "parent"
    parent.mkdir()
    (parent if which == "parent" else above).chmod(mode)
    monkeypatch.setattr(tempfile, "tempdir", str(parent))
    with pytest.raises(UsageError, match="TMPDIR") as caught:
        SharedFolder(process)
    assert str(parent if which == "parent" else above) in str(caught.value)
    (parent if which == "parent" else above).chmod(0o1777)
    with SharedFolder(process):
        pass


def test_without_a_temporary_folder_the_variable_is_named(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", Mock(side_effect=FileNotFoundError("no usable temporary directory")))
    with pytest.raises(UsageError, match="TMPDIR"):
        SharedFolder(process)


def test_place_in_which_no_folder_can_be_made_is_named(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(tempfile, "mkdtemp", Mock(side_effect=full))
    with pytest.raises(UsageError, match=r"no folder can be made in .*: No space left on device; set TMPDIR"):
        SharedFolder(process)


@pytest.mark.parametrize("withdrawn", [True, False])
def test_folder_stays_while_the_script_may_run(
    withdrawn: bool, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def inject(pid: int, script: str) -> None:
        asked.append(script)
        if len(asked) == 1:
            raise KeyboardInterrupt
        if not withdrawn:
            raise OSError("not now")

    monkeypatch.setattr(injection, "_inject", inject)
    monkeypatch.setattr(Process, "check", lambda self, command: None)
    with pytest.raises(KeyboardInterrupt), injection.attached(os.getpid(), "ps"):
        pass
    assert asked[1:] == [os.devnull]
    assert Path(asked[0]).exists() != withdrawn
