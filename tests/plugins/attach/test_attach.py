"""ps, stacks, top, dump and record of programs that were not prepared for it."""

import importlib.util
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopcore_plugins.attach import attached
from loopcore_plugins.recorder import Recorder
from loopcore_plugins.recorder.layout import MAGIC
from tests.plugins.attach.targets import Target, command, loopcore, running, until, until_as_before

pytestmark = pytest.mark.usefixtures("attaching")

HAS_UVLOOP = importlib.util.find_spec("uvloop") is not None
HAS_RECORDER = hasattr(Recorder, "dump")


@pytest.fixture(
    params=["asyncio", "loopcore", pytest.param("uvloop", marks=pytest.mark.skipif(not HAS_UVLOOP, reason="no uvloop"))]
)
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    with running(request.param) as target:
        yield target


def test_idle_program_shows_its_tasks_and_is_as_before(target: Target) -> None:
    before = target.settled_state()
    shown = loopcore("ps", str(target.pid))
    assert shown.returncode == 0, shown.stderr
    assert shown.stderr == ""
    lines = shown.stdout.splitlines()
    (outer,) = (line for line in lines if " outer " in line)
    (inner,) = (line for line in lines if " inner " in line)
    assert "waiting" in outer
    assert "TaskGroup" in outer
    assert inner.index("inner") > outer.index("outer")
    until_as_before(target, before)


def test_requests_during_attaching_are_all_answered(target: Target) -> None:
    before = target.settled_state()
    stop = threading.Event()
    failures: list[object] = []
    answered = [0]

    def work() -> None:
        try:
            with socket.create_connection(("127.0.0.1", target.port), 20) as sock, sock.makefile("rb") as answers:
                while not stop.is_set():
                    line = b"request %d\n" % answered[0]
                    sock.sendall(line)
                    assert answers.readline() == line
                    answered[0] += 1
        except BaseException as exc:
            failures.append(exc)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        with attached(target.pid, "top") as agent:
            agent.ask("watch")
            served = answered[0]
            for _ in range(3):
                assert [task["name"] for task in agent.ask("ps", 1)["tasks"] if task["name"] == "inner"]
                (figures,) = agent.ask("sample")["loops"]
                assert figures["tasks"] >= 4
            until(lambda: answered[0] > served + 10 or failures, "requests are served while attached")
            until(lambda: agent.ask("sample")["loops"][0]["delays"], "the loop runs probes")
    finally:
        stop.set()
        worker.join()
    assert not failures
    until_as_before(target, before)


def test_killed_command_leaves_nothing(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    before = target.settled_state()
    with tempfile.TemporaryDirectory(prefix="lc-") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        with subprocess.Popen(
            command("top", str(target.pid), "--once", "--interval", "60"), stdout=subprocess.DEVNULL
        ) as top:
            until(lambda: target.state()["kernel threads"] > before["kernel threads"], "the agent is there")
            assert os.listdir(folder)
            top.send_signal(signal.SIGKILL)
        until_as_before(target, before)
        until(lambda: not os.listdir(folder), "the command's folder is removed")


def test_loop_of_another_thread_is_found() -> None:
    with running("asyncio", "second") as target:
        both = json.loads(loopcore("ps", str(target.pid), "--json").stdout)
        assert [each["loop"] for each in both] == [1, 2]
        assert [task["coroutine"] for task in both[1]["tasks"]] == ["second"]
        (second,) = json.loads(loopcore("stacks", f"{target.pid}.2", "--json").stdout)
        assert [thread["name"] for thread in second["threads"]] == ["second"]


def test_blocked_loop_shows_what_blocks() -> None:
    with running("asyncio") as target, attached(target.pid, "top") as agent:
        agent.ask("watch")
        target.say("block")
        (figures,) = until(
            lambda: [each for each in agent.ask("sample")["loops"] if each["blocked"]], "the loop is blocked"
        )
        assert "answer" in [function for _, _, function in figures["blocked_stack"]]
        assert target.process.stdin is not None
        target.process.stdin.write("\n")
        target.process.stdin.flush()
        assert target.hear() == "block"
        stalls = until(lambda: agent.ask("sample")["loops"][0]["stalls"], "the stall is reported")
        assert "answer" in [function for _, _, function in stalls[0][1]]


def test_main_thread_that_sleeps_is_read_from_outside_and_the_script_withdrawn() -> None:
    with running("sleeping") as target:
        shown = loopcore("stacks", str(target.pid))
        assert shown.returncode == 0, shown.stderr
        assert "has executed no Python" in shown.stderr
        assert "in sleeps" in shown.stdout


def test_top_prints_a_frame() -> None:
    with running("loopcore") as target:
        shown = loopcore("top", str(target.pid), "--once", "--interval", "0.3").stdout
        assert "loop 1: loopcore" in shown
        assert "delay: " in shown
        assert "MainThread (loop)" in shown


def test_other_loops_have_no_recorder() -> None:
    with running("asyncio") as target:
        refused = loopcore("record", str(target.pid))
        assert refused.returncode != 0
        assert "only loopcore's has a recorder" in refused.stderr
        assert f"loopcore top {target.pid}" in refused.stderr


@pytest.mark.skipif(not HAS_RECORDER, reason="there is no recorder")
@pytest.mark.parametrize("arguments", [("dump",), ("record", "--seconds", "0.2")])
def test_recorder_is_on_for_a_recording_only(arguments: tuple[str, ...], tmp_path: Path) -> None:
    with running("loopcore") as target:
        plugins = target.state()["plugins"]
        output = tmp_path / "recording"
        written = loopcore(*arguments, str(target.pid), "--output", str(output))
        assert written.returncode == 0, written.stderr
        assert output.read_bytes()[:8] == MAGIC.to_bytes(8, "little")
        until(lambda: target.state()["plugins"] == plugins, "the recorder is off")
