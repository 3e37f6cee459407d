"""What cannot be attached to is refused in one message that says what to do."""

import argparse
import errno
import json
import os
import subprocess
import sys
import sysconfig
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from loopcore.errors import UsageError
from loopcore_plugins.attach import NotReachedError, commands, reports
from loopcore_plugins.attach.process import Process
from loopcore_plugins.attach.screen import Screen
from tests.plugins.attach.targets import loopcore, running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc")


def refusal(pid: int, command: str = "ps") -> str:
    with pytest.raises(UsageError) as caught:
        Process(pid).check(f"{command} {pid}")
    return str(caught.value)


def test_missing_process() -> None:
    with subprocess.Popen(["true"]) as process:
        pass
    assert refusal(process.pid) == f"there is no process {process.pid}"


def test_process_that_ends_while_it_is_read_from_outside_has_no_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def attached(pid: int, command: str) -> Any:
        raise NotReachedError("it has executed no Python")

    monkeypatch.setattr(reports, "attached", attached)
    monkeypatch.setattr("loopcore_plugins.attach.outside.stacks", lambda process: {"threads": []})
    with subprocess.Popen(["true"]) as process:
        pass
    ((greeting, answer),) = reports.ask_each(str(process.pid), "stacks")
    assert greeting["program"] == ""
    assert answer == {"threads": []}


def test_process_that_is_not_python() -> None:
    with subprocess.Popen(["sleep", "100"]) as process:
        try:
            assert "does not run Python" in refusal(process.pid)
        finally:
            process.kill()


@pytest.mark.skipif(sys.version_info < (3, 14), reason="an older Python is refused first")
def test_process_without_the_gil(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_config_var", {"Py_GIL_DISABLED": 1}.get)
    assert "runs a free-threaded Python" in refusal(os.getpid())


@pytest.mark.parametrize("command", ["dump", "record"])
def test_place_of_the_output_is_looked_at_first(tmp_path: Path, command: str) -> None:
    absent = tmp_path / "absent"
    for output, why in ((absent / "it.rec", f"there is no folder '{absent}'"), (tmp_path, "it is a folder")):
        refused = loopcore(command, str(os.getpid()), "--output", str(output))
        assert refused.returncode == 2
        assert refused.stderr == f"loopcore: error: cannot write '{output}': {why}\n"


@pytest.mark.parametrize("command", ["dump", "record"])
def test_file_that_is_not_a_recording_is_refused_first(tmp_path: Path, command: str) -> None:
    output = tmp_path / "it.rec"
    output.write_bytes(b"no recording")
    refused = loopcore(command, str(os.getpid()), "--output", str(output))
    assert refused.returncode == 2
    reason = "this file is not a recording, and is not overwritten"
    assert (
        refused.stderr == f"loopcore: error: {output} cannot be written: {reason}; choose another file with --output\n"
    )
    assert output.read_bytes() == b"no recording"


def test_output_that_cannot_be_written_is_named_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "it.rec"
    full = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "it.rec.part"))
    monkeypatch.setattr(commands, "write_recording", Mock(side_effect=full))
    monkeypatch.setattr(commands, "attached", lambda pid, command: nullcontext(Mock(folder=tmp_path)))
    monkeypatch.setattr(commands, "chosen", lambda agent, wish: [{"loop": 1, "backend": "loopcore epoll"}])
    parser = argparse.ArgumentParser()
    commands.record(parser)
    arguments = parser.parse_args(["1", "--output", str(output)])
    with pytest.raises(UsageError) as caught:
        arguments.act(arguments)
    assert (
        str(caught.value) == f"{output} cannot be written: No space left on device; choose another file with --output"
    )


@pytest.mark.skipif(hasattr(sys, "remote_exec"), reason="Python 3.14 can")
def test_old_python_is_to_be_started_prepared() -> None:
    assert "--plugin inspect" in refusal(os.getpid())


@pytest.mark.skipif(hasattr(sys, "remote_exec"), reason="Python 3.14 can")
@pytest.mark.parametrize("command", ["dump", "record"])
def test_old_python_is_to_be_started_with_a_recorder(command: str) -> None:
    message = refusal(os.getpid(), command)
    assert message.endswith("loopcore run --plugin recorder:signal=USR2 FILE, then kill -USR2 PID")
    assert "inspect" not in message


@pytest.mark.usefixtures("attaching")
def test_another_version_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    with running("asyncio") as target:
        monkeypatch.setattr(sys, "version_info", (3, 99, 0))
        message = refusal(target.pid)
        assert "this command 3.99" in message
        assert f"{sys.executable} -m loopcore ps {target.pid}" in message


@pytest.mark.usefixtures("attaching")
def test_disabled_debugging_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_DISABLE_REMOTE_DEBUG", "1")
    with running("asyncio") as target:
        monkeypatch.delenv("PYTHON_DISABLE_REMOTE_DEBUG")
        assert "disabled" in refusal(target.pid)


@pytest.mark.usefixtures("attaching")
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
def test_other_users_process_needs_root() -> None:
    with running("asyncio") as target:
        command = [sys.executable, "-m", "loopcore", "ps", str(target.pid)]
        theirs = {name: value for name, value in os.environ.items() if name != "LOOPCORE_INSPECT_DIR"}
        try:
            refused = subprocess.run(
                command, capture_output=True, text=True, check=False, user=65534, extra_groups=[], env=theirs
            )
        except PermissionError:
            pytest.skip("the other user cannot run this Python")
        if "Permission denied" in refused.stderr:
            pytest.skip("the other user cannot read this Python")
        assert refused.returncode != 0
        assert "belongs to another user" in refused.stderr
        assert "Traceback" not in refused.stderr


@pytest.mark.usefixtures("attaching")
def test_missing_loop_is_refused() -> None:
    with running("asyncio") as target:
        assert f"there is no loop {target.pid}.7" in loopcore("ps", f"{target.pid}.7").stderr


@pytest.mark.skipif(sys.version_info < (3, 14), reason="its annotations are evaluated")
def test_agent_writes_json_that_any_reader_reads() -> None:
    agent = pytest.importorskip("loopcore_plugins.attach.agent")
    value = {
        "text": 'quote " backslash \\ line\nend \x00 \x7f é \u2028 😀',
        "list": [1, 2.5, True, False, None, ("a",)],
    }
    assert json.loads(agent.encode(value)) == value | {"list": [*value["list"][:5], ["a"]]}
    assert json.loads(agent.encode("\ud800").encode("utf-8", "replace")) == "?"


def test_no_field_of_an_answer_controls_the_terminal() -> None:
    evil = "\x1b[2J"
    loop = {"loop": 1, "native_id": 1, "pid": evil, "program": evil, "python": evil, "backend": evil}
    figures = {"delays": [], "ready": evil, "timers": evil, "tasks": evil, "stalls": [], "blocked": None, "sites": []}
    sample = {"agent": 0, "threads": [], "loops": [figures]}
    agent = Mock(ask={"loops": [loop], "watch": None, "sample": sample}.__getitem__)
    agent.process.thread_ids.return_value = []
    assert [line for line in Screen(agent, "1").frame(None) if not line.isprintable()] == []
