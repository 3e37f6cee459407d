"""A program that runs a group, from the outside: signals, exit codes, and what outlives it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from loopcore.group import LoopGroup
from loopcore.group.group import Signals
from tests.group import mains
from tests.group.mains import PATIENCE, asked, connected

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

PROGRAM = Path(__file__).with_name("program.py")


class Program(NamedTuple):
    process: "subprocess.Popen[str]"
    pids: list[int]
    port: int

    def wait(self) -> int:
        return self.process.wait(PATIENCE)


@pytest.fixture
def run() -> Iterator[Callable[..., Program]]:
    """Starts the program in a new process group, as a shell does, and waits until its members serve."""
    started: list[subprocess.Popen[str]] = []

    def run(kind: str, main: str, *arguments: str) -> Program:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", str(PROGRAM), kind, main, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            process_group=0,
        )
        started.append(process)
        assert process.stdout is not None
        lines = [process.stdout.readline().split() for _ in range(2)]
        return Program(process, [int(pid) for pid, _ in lines], int(lines[0][1]))

    yield run
    for process in started:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_the_group(kind: str, run: Callable[..., Program], number: signal.Signals) -> None:
    program = run(kind, "only_waits")
    with connected(program.port) as client:
        first = asked(client)
        program.process.send_signal(number)
        assert asked(client) == first
    assert program.wait() == 0
    assert program.process.stderr is not None
    assert program.process.stderr.read() == ""


def test_ctrl_c_reaches_the_members_too_and_ends_them_once(kind: str, run: Callable[..., Program]) -> None:
    """A terminal sends SIGINT to the whole foreground process group."""
    program = run(kind, "only_waits")
    with connected(program.port) as client:
        first = asked(client)
        os.killpg(program.process.pid, signal.SIGINT)
        assert asked(client) == first
    assert program.wait() == 0
    assert program.process.stderr is not None
    assert program.process.stderr.read() == ""


def test_a_second_signal_stops_at_once(kind: str, run: Callable[..., Program]) -> None:
    program = run(kind, "ignores_draining")
    program.process.send_signal(signal.SIGTERM)
    while refused_after(program.port):  # the first signal has been handled
        continue
    program.process.send_signal(signal.SIGINT)
    assert program.wait() == 128 + signal.SIGINT


def test_a_second_signal_is_ignored_without_escalation(kind: str, run: Callable[..., Program]) -> None:
    program = run(kind, "only_waits", str(PATIENCE), "patient")
    with connected(program.port) as client:
        first = asked(client)
        program.process.send_signal(signal.SIGTERM)
        while refused_after(program.port):  # the first signal has been handled
            continue
        program.process.send_signal(signal.SIGTERM)
        assert asked(client) == first
    assert program.wait() == 0


def test_two_signals_before_there_is_a_group_stop_it(
    make_group: Callable[..., LoopGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = make_group(mains.ignores_draining, drain_timeout=3600.0)
    begin = group._begin

    def signalled(until_ready: bool) -> object:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        return begin(until_ready)

    monkeypatch.setattr(group, "_begin", signalled)
    assert group.run() == 128 + signal.SIGINT


def refused_after(port: int) -> bool:
    try:
        connected(port).close()
    except (ConnectionRefusedError, ConnectionResetError):
        return False
    return True


def test_the_deadline_ends_the_program(kind: str, run: Callable[..., Program]) -> None:
    program = run(kind, "ignores_draining", "0")
    program.process.send_signal(signal.SIGTERM)
    assert program.wait() == 0


def test_the_members_end_with_the_process_of_their_group(run: Callable[..., Program]) -> None:
    program = run("processes", "only_waits", "0")
    client = connected(program.port)
    asked(client)
    program.process.kill()
    program.wait()
    assert client.recv(1) == b""  # closed by the member that served it
    client.close()
    assert program.process.stdout is not None
    assert program.process.stdout.read() == ""  # the members held the other end


def test_a_blocked_member_ends_with_the_process_of_its_group(run: Callable[..., Program]) -> None:
    program = run("processes", "blocks", "0")
    program.process.kill()
    program.wait()
    assert program.process.stdout is not None
    assert program.process.stdout.read() == ""


def test_a_member_process_that_gets_sigterm_is_replaced(run: Callable[..., Program]) -> None:
    program = run("processes", "only_waits")
    os.kill(program.pids[1], signal.SIGTERM)
    assert program.process.stdout is not None
    pid, port = program.process.stdout.readline().split()
    assert int(pid) not in program.pids
    assert int(port) == program.port
    with connected(program.port) as client:
        assert asked(client) in (0, 1)
    program.process.send_signal(signal.SIGTERM)
    assert program.wait() == 0


def test_signals_are_blocked_while_a_member_process_imports_the_program() -> None:
    with LoopGroup(mains.only_waits, loops=2, kind="processes") as group:
        for index in range(2):
            assert {signal.SIGINT, signal.SIGTERM} <= group.run_on(index, mains.blocked_at_import).result(PATIENCE)


def test_a_blocked_thread_does_not_keep_the_process(run: Callable[..., Program]) -> None:
    program = run("threads", "blocks", "0")
    program.process.send_signal(signal.SIGTERM)
    assert program.wait() == 1
    assert program.process.stderr is not None
    assert "is left behind" in program.process.stderr.read()


def test_handlers_that_c_code_has_set_become_the_default(
    make_group: Callable[..., LoopGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`signal.signal` returns None for them."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    set_handler = signal.signal

    def set_over_c(number: int, handler: Any) -> Any:
        replaced = set_handler(number, handler)
        return None if replaced is before[signal.Signals(number)] else replaced

    monkeypatch.setattr(signal, "signal", set_over_c)
    try:
        with Signals(make_group(mains.only_waits), True):
            pass
        assert {signal.getsignal(number) for number in before} == {signal.SIG_DFL}
    finally:
        for number, handler in before.items():
            set_handler(number, handler)
