"""fork(2) in a program with a loop: the child can build a new one, and the parent's lives on as if nothing had been."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

import loopcore
from loopcore.ports.completion import is_completion_backend
from loopcore.selection.discovery import choose_backend
from loopcore.services import forking
from tests.oracle import ORACLE

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 60.0

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork(2)")


def run(program: str, backend: str, module: str = "fork_programs") -> None:
    """Run a program of `module`, without warnings of a fork beside threads (3.12) and of sockets that the exit closes.

    The second kind is shown by default in debug builds of CPython only.
    """
    quiet = ["-W", "ignore::DeprecationWarning", "-W", "ignore::ResourceWarning"]
    command = [sys.executable, *quiet, "-m", f"tests.transports.{module}"]
    ended = subprocess.run(
        [*command, program, backend], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("program", ["child_of_a_running_loop", "multiprocessing_by_fork", "started_programs"])
def test_child_with_a_loop_of_its_own_leaves_the_parents_alone(backend_name: str, program: str) -> None:
    run(program, backend_name)


@pytest.mark.parametrize("program", ["written_before", "written_to_a_loop_that_stands_still"])
def test_what_was_written_before_the_fork_is_sent_once(backend_name: str, program: str) -> None:
    if program == "written_before" and backend_name == ORACLE and sys.version_info >= (3, 14):
        pytest.skip("asyncio's tasks keep the child from leaving by an exception: it hangs")
    run(program, backend_name)


def test_signal_sent_to_the_child_is_not_the_parents(backend_name: str) -> None:
    if backend_name == ORACLE and sys.version_info < (3, 12):
        pytest.skip("gh-66285: asyncio's parents hear the signals of their children")
    run("signals_of_the_child", backend_name)


@pytest.mark.loopcore_only
@pytest.mark.parametrize(
    "program",
    [
        "backend_of_a_factory",
        "child_that_closes",
        "child_that_goes_on",
        "child_that_watches_in_vain",
        "forked_while_plugins_change",
        "woken_before_its_first_wait",
    ],
)
def test_inherited_loop_is_the_childs_own(backend_name: str, program: str) -> None:
    """Beyond asyncio (bpo-21998), whose child changes what its parent's epoll instance watches."""
    run(program, backend_name)


@pytest.mark.loopcore_only
@pytest.mark.skipif(sys.platform != "linux", reason="what becomes of a connection to a full listener is Linux's")
def test_connection_that_is_being_made_at_the_fork_is_made_once_for_both(backend_name: str) -> None:
    """Over a completion port connect(2) is begun again in the child; takes the second until a SYN is repeated."""
    if not is_completion_backend(choose_backend(backend_name).factory):
        pytest.skip("a registration, as any other")
    run("connecting_at_the_fork", backend_name, "fork_connecting")


def test_loops_are_looked_after_in_the_order_of_their_making() -> None:
    loops = [loopcore.new_event_loop() for _ in range(20)]
    hosts = [state._host for state in forking._living()]
    assert [host for host in hosts if host in loops] == loops
    for loop in loops:
        loop.close()
    gc.collect()  # where references are not counted
    assert not {state._host for state in forking._living()}.intersection(loops)
