"""What happens as a member, or the program, ends: nothing hangs, and no member takes what another has."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from loopcore.group import LoopGroup, MemberFailedError
from loopcore.group.host import Host
from loopcore.group.post import SocketPost
from loopcore.group.processes import ProcessHost
from loopcore.group.supervisor import Supervisor
from tests.group import mains
from tests.group.mains import PATIENCE

Make = Callable[..., LoopGroup]

needs_processes = pytest.mark.skipif(sys.platform == "win32", reason="members are threads on Windows")

LEFT_RUNNING = """
import os, sys, warnings
from loopcore.group import LoopGroup
from tests.group import mains

group = LoopGroup(mains.only_waits, loops=1, kind=sys.argv[1])
child = sys.argv[2] == "daemon" and os.fork()
if child:
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status))
group.start()
if sys.argv[2] == "fork":
    warnings.simplefilter("ignore")  # of a fork beside threads
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        sys.exit(os.waitstatus_to_exitcode(status))
    group.stop()
sys.exit(3)
"""


def until(is_so: Callable[[], object]) -> None:
    ended = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < ended
        time.sleep(0.01)


def left_running(*arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-c", LEFT_RUNNING, *arguments]
    done = subprocess.run(command, timeout=PATIENCE, check=False, capture_output=True, text=True)
    return done.returncode, done.stderr


def test_a_program_that_ends_stops_its_group(kind: str) -> None:
    assert left_running(kind, "end") == (3, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_group_may_be_started_in_a_forked_child() -> None:
    assert left_running("threads", "daemon") == (3, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_ends_without_the_group_of_its_parent() -> None:
    assert left_running("threads", "fork") == (3, "")


def test_a_member_that_fails_as_the_only_other_one_returns_is_replaced(
    make_group: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle_end = Supervisor._handle_end

    async def after_member_0(supervisor: Supervisor, host: Host) -> None:
        while host.index == 1 and supervisor._hosts[0] in supervisor._watched:
            await asyncio.sleep(0.01)
        await handle_end(supervisor, host)

    monkeypatch.setattr(Supervisor, "_handle_end", after_member_0)
    with make_group(mains.member_0_returns_when_told) as group:
        group.run_on(1, mains.fail).result(PATIENCE)
        group.run_on(0, mains.fail).result(PATIENCE)
        until(lambda: group.members[1].generation == 1)
        assert group.state == "running"


def test_a_member_that_fails_while_its_successor_does_is_replaced(make_group: Make, tmp_path: Path) -> None:
    with make_group(partial(mains.first_successor_fails, folder=tmp_path), loops=1) as group:
        failures: list[MemberFailedError] = []

        def restart() -> None:
            with pytest.raises(MemberFailedError) as caught:
                group.restart(0)
            failures.append(caught.value)

        restarting = threading.Thread(target=restart)
        restarting.start()
        until((tmp_path / "successor").exists)
        group.run_on(0, mains.fail).result(PATIENCE)
        until(lambda: group.members[0].state == "ended")
        (tmp_path / "fail").touch()
        restarting.join(PATIENCE)
        until(lambda: group.members[0].generation == 1)
        assert group.state == "running"
        assert len(failures) == 1


def test_a_successor_that_fails_leaves_the_server_to_the_one_after_it(make_group: Make, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with make_group(partial(mains.first_successor_fails, folder=tmp_path, serves=True), loops=1) as group:
        outcomes: list[str] = []

        def restart() -> None:
            try:
                group.restart(0)
            except MemberFailedError:
                outcomes.append("failed")
            else:
                outcomes.append("replaced")

        restarting = [threading.Thread(target=restart) for _ in range(2)]
        restarting[0].start()
        until((tmp_path / "successor").exists)
        restarting[1].start()
        assert group._supervisor is not None
        until(lambda: len(group._supervisor._replacing[0]._waiters or ()) == 1)  # type: ignore[union-attr]
        (tmp_path / "fail").touch()
        for thread in restarting:
            thread.join(PATIENCE)
        assert sorted(outcomes) == ["failed", "replaced"]
        group.stats(PATIENCE)
        assert path.exists()


def test_a_member_that_returns_while_it_is_replaced_leaves_its_server(make_group: Make, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with make_group(partial(mains.serves_until_told, folder=tmp_path), loops=1) as group:
        restarting = threading.Thread(target=group.restart, args=(0,))
        restarting.start()
        until((tmp_path / "successor").exists)
        group.run_on(0, mains.fail).result(PATIENCE)
        until(lambda: group.members[0].state == "ended")
        group.stats(PATIENCE)  # what was begun with the end has been done
        assert path.exists()
        (tmp_path / "be ready").touch()
        restarting.join(PATIENCE)
        assert path.exists()
        group.run_on(0, mains.fail).result(PATIENCE)
        until(lambda: not path.exists())


@needs_processes
def test_a_connection_for_a_process_that_has_returned_is_reset() -> None:
    with LoopGroup(mains.member_0_returns_when_told, loops=2, kind="processes") as group:
        group.run_on(0, mains.fail).result(PATIENCE)
        until(lambda: group.members[0].state == "ended")
        assert group._supervisor is not None
        assert group._supervisor._shared is not None
        pairs = group._supervisor._shared.pairs
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
            post = SocketPost(pairs[1][0], [pair[1] for pair in pairs], 1)
            assert post.give(0, 0, server.accept()[0])
            client.settimeout(PATIENCE)
            with pytest.raises(ConnectionResetError):
                client.recv(1)


@needs_processes
def test_a_process_that_is_being_started_refuses_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    start = ProcessHost.start

    def start_after_a_call(host: ProcessHost) -> None:
        calls.append(host.supervisor.run_on(host.index, mains.index, ()))
        start(host)

    monkeypatch.setattr(ProcessHost, "start", start_after_a_call)
    with LoopGroup(mains.only_waits, loops=1, kind="processes"):
        with pytest.raises(MemberFailedError, match="does not run"):
            calls[0].result(PATIENCE)


@needs_processes
def test_a_process_is_killed_as_it_ends() -> None:
    with LoopGroup(mains.only_waits, loops=1, kind="processes") as group:
        pass
    assert group._supervisor is not None
    host: Any = group._supervisor._hosts[0]
    host._process._closed = False  # as between two steps of its `close`
    assert host.kill()


@needs_processes
def test_a_process_whose_link_is_cut_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    with LoopGroup(mains.only_waits, loops=1, kind="processes") as group:
        with pytest.raises(MemberFailedError):
            group.run_on(0, mains.cut_off).result(PATIENCE)
        until(lambda: group.members[0].generation == 1)
    assert "member 0 ended with exit code 1; it is restarted" in caplog.text
