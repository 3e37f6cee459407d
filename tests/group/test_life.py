"""How a group starts, ends and reports: the same with threads and with processes."""

import asyncio
import contextlib
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from loopcore import UsageError
from loopcore.group import LoopGroup, Member, MemberFailedError
from loopcore.group.load import Load
from loopcore.group.supervisor import Supervisor
from tests.group import mains
from tests.group.mains import PATIENCE

Make = Callable[..., LoopGroup]


def test_all_members_serve_one_port(make_group: Make) -> None:
    with make_group(mains.keeps) as group:
        ports = {group.run_on(index, mains.port).result(PATIENCE) for index in range(2)}
        assert len(ports) == 1
        answers = set()
        clients = []
        while answers != {0, 1}:  # the kernel chooses
            clients.append(mains.connected(*ports))
            answers.add(mains.asked(clients[-1]))
        for client in clients:
            client.close()
    assert group.state == "ended"
    assert group.exit_code == 0


def test_members_are_known_by_state(make_group: Make) -> None:
    group = make_group(mains.only_waits)
    assert group.state == "new"
    assert group.members == ()
    group.start()
    assert group.state == "running"
    assert [(each.index, each.state, each.generation) for each in group.members] == [
        (0, "running", 0),
        (1, "running", 0),
    ]
    assert len({(each.pid, each.thread_id) for each in group.members}) == 2
    group.drain()
    assert [each.state for each in group.members] == ["ended", "ended"]


def test_a_group_ends_when_all_mains_have_returned(make_group: Make) -> None:
    group = make_group(mains.returns)
    group.start()
    assert group.wait(PATIENCE)
    assert group.exit_code == 0


def test_a_main_that_does_not_wait_for_draining_is_cancelled(make_group: Make) -> None:
    group = make_group(mains.never_drains)
    group.start()
    group.drain(timeout=PATIENCE)
    assert group.exit_code == 0


def test_a_main_that_does_not_return_is_cancelled_at_the_deadline(make_group: Make) -> None:
    group = make_group(mains.ignores_draining)
    group.start()
    group.drain(timeout=0)
    assert group.exit_code == 0


def test_stop_does_not_wait(make_group: Make) -> None:
    group = make_group(mains.ignores_draining)
    group.start()
    group.stop()
    assert group.exit_code == 0


def test_the_end_of_with_stops_after_an_exception(make_group: Make) -> None:
    with pytest.raises(KeyError), make_group(mains.ignores_draining, drain_timeout=PATIENCE):
        raise KeyError
    # `drain` would have waited for PATIENCE.


def test_a_member_that_fails_before_it_is_ready_ends_the_group(
    make_group: Make, caplog: pytest.LogCaptureFixture
) -> None:
    group = make_group(mains.fails_at_once)
    with pytest.raises(
        MemberFailedError, match="member 1 raised ValueError: no database before it was ready"
    ) as caught:
        group.start()
    assert isinstance(caught.value.__cause__, ValueError)
    assert group.wait(PATIENCE)
    assert group.exit_code == 1
    assert "the group ends" in caplog.text


def test_a_member_that_fails_is_replaced(make_group: Make, caplog: pytest.LogCaptureFixture) -> None:
    with make_group(mains.fails_when_told) as group:
        group.run_on(1, mains.fail).result(PATIENCE)
        wait_for_generation(group, 1)
        assert group.state == "running"
    assert "member 1 raised ValueError: told to fail; it is restarted" in caplog.text


def test_a_group_goes_on_while_its_last_member_is_replaced(make_group: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopcore.group.supervisor.RESTART_EVERY", 2.0)
    with make_group(mains.member_0_returns_when_told) as group:
        group.run_on(1, mains.fail).result(PATIENCE)
        while group.members[1].state != "ended":
            pass
        group.run_on(0, mains.fail).result(PATIENCE)
        while group.members[0].state != "ended":
            pass
        wait_for_generation(group, 1)
        assert group.stats(PATIENCE).members[1].responsive
    assert group.exit_code == 0


def test_a_member_that_is_not_replaced_because_the_group_drains_sets_the_exit_code(
    make_group: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loopcore.group.supervisor.RESTART_EVERY", PATIENCE)
    group = make_group(mains.fails_when_told, loops=1)
    group.start()
    group.run_on(0, mains.fail).result(PATIENCE)
    while group.members[0].state != "ended":
        pass
    assert group.state == "running"
    group.drain()
    assert group.exit_code == 1


@pytest.mark.parametrize("main", [mains.only_waits, mains.serves])
def test_a_drain_that_is_requested_while_the_group_starts_ends_it(
    make_group: Make, monkeypatch: pytest.MonkeyPatch, main: Any
) -> None:
    """As a signal handler does: it may interrupt `run` anywhere."""
    group = make_group(main)
    begin = Supervisor.begin

    def begin_and_drain(supervisor: Supervisor) -> None:
        group.request_drain()
        begin(supervisor)
        assert supervisor.over.wait(PATIENCE)

    monkeypatch.setattr(Supervisor, "begin", begin_and_drain)
    assert group.run() == 0


def wait_for_generation(group: LoopGroup, index: int) -> None:
    """Ask until the replacement answers: each question ends, because a member that ends fails it."""
    while True:
        try:
            if group.run_on(index, mains.generation).result(PATIENCE) == 1:
                return
        except MemberFailedError:
            continue


def test_a_successor_that_fails_as_soon_as_it_is_ready_does_not_leave_its_place_empty(make_group: Make) -> None:
    """It does not take over, or it is replaced."""
    with make_group(mains.successor_fails_once_ready) as group:
        with contextlib.suppress(MemberFailedError):
            group.restart(1)
        ended = time.monotonic() + PATIENCE
        while (group.members[1].state, group.members[1].generation) not in (("running", 0), ("running", 2)):
            assert time.monotonic() < ended, group.members
            time.sleep(0.01)
    assert group.exit_code == 0


def give_up(group: LoopGroup, begins: threading.Event, may_go_on: threading.Event) -> None:
    """Stop a group whose member is held as it begins, and let that go on."""
    starting = threading.Thread(target=group.start)
    starting.start()
    assert begins.wait(PATIENCE)
    group.stop(timeout=0)
    starting.join()
    may_go_on.set()
    for thread in threading.enumerate():
        if thread.name == "loopcore_member_0":
            thread.join(PATIENCE)


def test_a_thread_whose_loop_comes_after_the_end_of_its_group_does_not_call_main() -> None:
    asked, may_go_on, ran = threading.Event(), threading.Event(), []

    def slow_factory() -> asyncio.AbstractEventLoop:
        asked.set()
        may_go_on.wait(PATIENCE)
        return asyncio.new_event_loop()

    async def main(member: Member) -> None:
        ran.append(member.index)

    group = LoopGroup(main, loops=1, kind="threads", loop_factory=slow_factory)
    give_up(group, asked, may_go_on)
    assert (ran, group.exit_code) == ([], 1)


def test_a_thread_that_is_given_up_as_it_begins_does_not_call_main(monkeypatch: pytest.MonkeyPatch) -> None:
    begins, may_go_on, ran = threading.Event(), threading.Event(), []
    make = Load.__init__

    def make_late(load: Load, *arguments: Any, **options: Any) -> None:
        begins.set()
        may_go_on.wait(PATIENCE)
        make(load, *arguments, **options)

    async def main(member: Member) -> None:
        ran.append(member.index)

    monkeypatch.setattr(Load, "__init__", make_late)
    group = LoopGroup(main, loops=1, kind="threads")
    give_up(group, begins, may_go_on)
    assert ran == []


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGCHLD")
def test_processes_whose_exit_codes_are_lost_end() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with LoopGroup(mains.only_waits, loops=2, kind="processes") as group:
            pass
        assert group.exit_code == 0
        group = LoopGroup(mains.fails_at_once, loops=2, kind="processes")
        with pytest.raises(MemberFailedError, match="member 1 raised ValueError: no database"):
            group.start()
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_failure_stops_the_group_if_asked_for(make_group: Make, caplog: pytest.LogCaptureFixture) -> None:
    group = make_group(mains.fails_when_told, on_failure="stop")
    group.start()
    group.run_on(1, mains.fail).result(PATIENCE)
    assert group.wait(PATIENCE)
    assert group.exit_code == 1
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)


def test_the_exit_code_is_that_of_system_exit(make_group: Make) -> None:
    group = make_group(mains.exits, on_failure="stop")
    assert group.run() == 7


def test_a_group_runs_once(make_group: Make) -> None:
    group = make_group(mains.returns)
    group.start()
    group.stop()
    with pytest.raises(UsageError, match="make another"):
        group.start()
    group.stop()
    group.drain()


def test_one_of_two_threads_starts_the_group(make_group: Make) -> None:
    group = make_group(mains.only_waits)
    both = threading.Barrier(2)
    outcomes: list[object] = []

    def start() -> None:
        both.wait(PATIENCE)
        try:
            outcomes.append(group.start())
        except UsageError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=start) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(map(str, outcomes)) == ["None", "the group was started before; make another LoopGroup"]
    assert len(group.members) == 2


def test_a_plugin_of_the_environment_that_does_not_exist_is_refused_before_members_start(
    make_group: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPCORE_PLUGINS", "watchdg")
    group = make_group(mains.returns)
    with pytest.raises(UsageError, match=r"^LOOPCORE_PLUGINS=watchdg: there is no plugin 'watchdg'"):
        group.run()
    assert group.state == "new"


def test_a_group_that_gets_no_thread_can_be_started_later(make_group: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    group = make_group(mains.returns)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            group.start()
    assert group.state == "new"
    group.stop()
    group.start()
    assert group.wait(PATIENCE)


def test_a_member_that_does_not_report_ready_is_a_time_out(make_group: Make) -> None:
    group = make_group(mains.never_reports)
    with pytest.raises(TimeoutError, match=r"member\.draining\(\)"):
        group.start(timeout=0)
    assert group.state == "ended"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kind": "fibers"}, "'threads', 'processes'"),
        ({"loops": 0}, "1 or more"),
        ({"on_failure": "ignore"}, "'restart', 'stop'"),
    ],
)
def test_wrong_arguments_are_refused_with_the_right_ones(options: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        LoopGroup(mains.returns, **options)  # type: ignore[arg-type]


def test_a_coroutine_is_no_main() -> None:
    coroutine = mains.never()
    with pytest.raises(UsageError, match="without calling it"):
        LoopGroup(coroutine)  # type: ignore[arg-type]
    coroutine.close()


def test_a_main_that_processes_cannot_import_is_refused() -> None:
    async def main(member: object) -> None:
        await asyncio.sleep(0)

    with pytest.raises(UsageError, match="top level of a module"):
        LoopGroup(main, kind="processes").start()
