"""The watchdog's thread: one for all loops, out of the way of signals, forks and the end of the interpreter."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

import loopcore
from loopcore_plugins.watchdog import Stall, Watchdog
from loopcore_plugins.watchdog.watch_thread import watch_thread
from tests.plugins.watchdog.finder import PATIENCE, Finder, find

pytestmark = pytest.mark.loopcore_only


def watchdogs() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "loopcore-watchdog"]


async def blocking(finder: Finder) -> None:
    finder.found.wait(PATIENCE)


def test_one_thread_looks_after_every_loop(loopcore_factory: Any) -> None:
    seen: list[list[str]] = []
    finders = [Finder(), Finder()]
    both = threading.Barrier(2)

    async def program(finder: Finder) -> None:
        both.wait(PATIENCE)  # both loops are stalled at once from here on
        finder.found.wait(PATIENCE)
        seen.append([thread.name for thread in watchdogs()])

    def run(finder: Finder) -> None:
        loop = loopcore_factory()
        for plugin in (Watchdog(threshold=0.1), finder):
            loop.probes.register(plugin)
        loop.run_until_complete(program(finder))

    threads = [threading.Thread(target=run, args=(finder,)) for finder in finders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [["loopcore-watchdog"]] * 2
    assert all(finder.over.wait(PATIENCE) for finder in finders)
    assert all(len(finder.begun) >= 1 for finder in finders)


def test_without_a_loop_that_runs_the_thread_ends_and_the_next_run_starts_it_again(loop: Any) -> None:
    loop.probes.register(Watchdog())
    loop.run_until_complete(asyncio.sleep(0))
    (thread,) = watchdogs()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    finder = Finder()
    loop.probes.register(finder)
    loop.run_until_complete(blocking(finder))
    assert len(finder.begun) == 1


@pytest.mark.reports_errors
def test_a_thread_that_could_not_be_started_is_started_when_a_watchdog_needs_it_again(
    loop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for thread in watchdogs():
        thread.join(PATIENCE)
    callbacks = gc.callbacks.copy()
    failing = [RuntimeError("can't start new thread")]
    start = threading.Thread.start

    def start_once_failing(thread: threading.Thread) -> None:
        if failing:
            raise failing.pop()
        start(thread)

    watchdog, finder = Watchdog(threshold=0.1), Finder()
    loop.probes.register(watchdog)
    loop.probes.register(finder)
    monkeypatch.setattr(threading.Thread, "start", start_once_failing)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert not failing
    assert watchdogs() == []
    assert gc.callbacks == callbacks
    assert watch_thread()._subjects == []
    loop.probes.register(watchdog)  # the error took it out of the loop
    loop.run_until_complete(blocking(finder))
    assert len(finder.begun) == 1


async def test_a_watchdog_may_come_and_go_while_the_loop_runs(loop: Any) -> None:
    watchdog, finder = Watchdog(threshold=0.1), Finder()
    loop.probes.register(finder)
    loop.probes.register(watchdog)
    finder.found.wait(PATIENCE)
    loop.probes.unregister(watchdog)
    assert watchdog._watches == {}
    assert finder.over.wait(PATIENCE)


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no signal masks here")
def test_no_signal_is_delivered_to_the_thread(loop: Any) -> None:
    masks: list[set[Any]] = []

    class Asking:
        @loopcore.hookimpl
        def loopcore_stall_begin(self, stall: Stall) -> None:
            masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))

    loop.probes.register(Asking())
    find(loop, blocking)
    assert {signal.SIGINT, signal.SIGTERM, signal.SIGCHLD} <= masks[0]


def test_a_signal_handler_runs_when_the_stall_is_over(loop: Any) -> None:
    if not hasattr(signal, "SIGUSR1"):
        pytest.skip("no SIGUSR1 here")
    handled = loop.create_future()
    loop.add_signal_handler(signal.SIGUSR1, handled.set_result, "handled")

    async def program(finder: Finder) -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        finder.found.wait(PATIENCE)
        assert await handled == "handled"

    find(loop, program)


def test_a_copy_of_a_loop_is_forgotten(loop: Any) -> None:
    watchdog = Watchdog()
    watchdog.loopcore_run_started(loop)
    (watch,) = watchdog._watches.values()
    watchdog.loopcore_fork_child(loop)
    assert watch.gone
    assert watchdog._watches == {}


def run_script(text: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", text], capture_output=True, text=True, check=False, timeout=2 * PATIENCE
    )


FORK = """
import os, sys
import loopcore
from loopcore_plugins.watchdog import Watchdog
from tests.plugins.watchdog.finder import Finder

async def main():
    finder.found.wait(30)

async def parent():
    pid = os.fork()
    if pid == 0:
        return True
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status

finder = Finder()
if loopcore.run(parent(), plugins=[Watchdog(threshold=0.1), Finder()]):
    loopcore.run(main(), plugins=[Watchdog(threshold=0.1), finder])
    os._exit(0 if finder.begun else 1)
"""

EXIT = """
import threading
import loopcore
from loopcore_plugins.watchdog import Watchdog

async def main():
    running.set()
    threading.Event().wait()

running = threading.Event()
options = {"plugins": [Watchdog(threshold=0.05)]}
threading.Thread(target=loopcore.run, args=(main(),), kwargs=options, daemon=True).start()
running.wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_begins_anew(tmp_path: Any) -> None:
    # From 3.12 on Python warns of forks beside threads, rightly; this one touches nothing that they hold.
    done = run_script(FORK, "-W", "ignore::DeprecationWarning")
    assert done.returncode == 0, done.stderr


def test_the_interpreter_ends_quietly_while_a_loop_is_stalled() -> None:
    done = run_script(EXIT)
    assert done.returncode == 0
    assert "Fatal" not in done.stderr
    assert "Traceback" not in done.stderr
