"""Loops begin and end while others run: created, closed, forked, interrupted by signals, in several threads."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.threads.loops import HAS_GIL, LOOPS, PATIENCE, ROUNDS, Factory, Others, Threads, bounded, each
from tests.threads.test_echo import converse, serving

unix = pytest.mark.skipif(sys.platform == "win32", reason="Unix only")


def test_loops_are_made_and_closed_beside_each_other(factory: Factory) -> None:
    def live() -> None:
        for turn in range(25 * ROUNDS):
            with asyncio.Runner(loop_factory=factory) as runner:
                loop = runner.get_loop()
                if turn % 2:
                    loop.call_later(3600, int)
                    assert runner.run(asyncio.wait_for(asyncio.sleep(0, turn), PATIENCE)) == turn
                if turn % 5 == 0:
                    runner.run(asyncio.to_thread(int))
            assert loop.is_closed()

    with Threads() as threads:
        for _ in range(LOOPS):
            threads.start(live)


def test_a_loop_is_closed_while_others_transfer(factory: Factory, tmp_path: Path) -> None:
    """Descriptors are closed in one thread and their numbers reused in another: no loop may take them for its own."""

    async def main(number: int) -> None:
        for turn in range(5 * ROUNDS):
            async with serving("tcp", tmp_path / "unused", None) as address:
                sent = bytes([number, turn]) * 5000
                assert await converse("tcp", address, None, sent) == sent

    def come_and_go() -> None:
        for turn in range(5 * ROUNDS):
            with asyncio.Runner(loop_factory=factory) as runner:
                runner.run(main(100 + turn % 10) if turn % 2 else asyncio.sleep(0))

    with Threads() as threads:
        threads.start(come_and_go)
        threads.start(come_and_go)
        each(factory, main, 2)


def test_tasks_are_cancelled_at_the_end_of_each_run(factory: Factory) -> None:
    async def main(number: int) -> list[Any]:
        async def hang() -> None:
            await asyncio.get_running_loop().create_future()

        tasks = [asyncio.create_task(hang()) for _ in range(20)]
        await asyncio.sleep(0)
        return tasks

    for _ in range(3 * ROUNDS):
        for tasks in each(factory, main):
            assert all(task.cancelled() for task in tasks)


@unix
def test_signals_arrive_in_the_main_loop_while_others_run(factory: Factory) -> None:
    counts = {signal.SIGUSR1: 0, signal.SIGUSR2: 0}

    async def main() -> None:
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()

        def note(number: signal.Signals) -> None:
            counts[number] += 1
            arrived.set()

        for number in counts:
            loop.add_signal_handler(number, note, number)
        for turn in range(30 * ROUNDS):
            arrived.clear()
            os.kill(os.getpid(), (signal.SIGUSR1, signal.SIGUSR2)[turn % 2])
            await arrived.wait()
        for number in counts:
            loop.remove_signal_handler(number)

    async def busy() -> None:
        while not ended.is_set():
            await asyncio.gather(*[asyncio.sleep(0) for _ in range(10)])

    ended = threading.Event()
    with Others(factory) as others:
        jobs = [asyncio.run_coroutine_threadsafe(busy(), loop) for loop in others.loops]
        try:
            with asyncio.Runner(loop_factory=factory) as runner:
                runner.run(bounded(main()))
        finally:
            ended.set()
        for job in jobs:
            job.result(PATIENCE)
    assert counts == {signal.SIGUSR1: 15 * ROUNDS, signal.SIGUSR2: 15 * ROUNDS}


@unix
def test_an_interrupt_ends_the_main_loop_and_no_other(factory: Factory) -> None:
    with Others(factory) as others:
        for _ in range(3 * ROUNDS):
            with asyncio.Runner(loop_factory=factory) as runner:

                async def interrupt() -> None:
                    signal.raise_signal(signal.SIGINT)
                    await asyncio.sleep(3600)

                with pytest.raises(KeyboardInterrupt):
                    runner.run(interrupt())
            for number in range(LOOPS):
                assert others.run(number, asyncio.sleep(0, number)) == number


def run_program(text: str, *arguments: str) -> None:
    """Run a program in a new process, which prints that it is done."""
    command = [sys.executable, "-c", text, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=4 * PATIENCE)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


FORK = """
import asyncio, os, signal, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of threads and fork
from tests.threads.loops import Others, content, bounded
kind, rounds = sys.argv[1], int(sys.argv[2])
if kind == "asyncio":
    factory = asyncio.SelectorEventLoop
else:
    import loopcore
    factory = lambda: loopcore.new_event_loop(kind)

async def busy():
    while not ended.is_set():
        await asyncio.gather(*[asyncio.sleep(0) for _ in range(5)])

async def child_main():
    assert await asyncio.to_thread(lambda: 5) == 5
    for _ in range(10):
        await asyncio.sleep(0.0001)
    return 7

def child():
    with asyncio.Runner(loop_factory=factory) as runner:
        assert runner.run(child_main()) == 7

async def fork_in_a_task():
    for _ in range(rounds):
        pid = os.fork()
        if not pid:
            signal.alarm(30)
            code = 1
            try:
                asyncio._set_running_loop(None)  # where it was forked, this is the parent's
                child()
                code = 0
            except BaseException as error:
                import traceback
                traceback.print_exc()
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        await asyncio.sleep(0)
    return "parent"

ended = threading.Event()
with Others(factory) as others:
    jobs = [asyncio.run_coroutine_threadsafe(busy(), loop) for loop in others.loops]
    with asyncio.Runner(loop_factory=factory) as runner:
        assert runner.run(fork_in_a_task()) == "parent"
    assert others.run(1, fork_in_a_task()) == "parent"
    ended.set()
    for job in jobs:
        job.result(30)
print("done")
"""


@unix
@pytest.mark.skipif(
    not HAS_GIL and sys.version_info < (3, 14),
    reason="the child may inherit a locked set of tasks, with asyncio as well: docs/reference/python-versions.md",
)
def test_a_process_forks_while_loops_run_in_other_threads(kind: str) -> None:
    """The child, which has none of their threads, runs a new loop; the parent's loops go on."""
    run_program(FORK, kind, str(ROUNDS))


FIRST = """
import asyncio, sys, threading
import loopcore
begin, results = threading.Barrier(4), []

async def main():
    await asyncio.sleep(0)
    return len(asyncio.all_tasks())

def run():
    begin.wait()
    results.append(loopcore.run(main(), backend=sys.argv[1], plugins=["metrics"]))

threads = [threading.Thread(target=run) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert results == [1] * 4, results
print("done")
"""


def test_the_first_loops_of_a_process_are_made_in_several_threads(kind: str, own_factory: Factory) -> None:
    """Backends and plugins are looked up, imported and checked by all of them at the same time."""
    for _ in range(ROUNDS):
        run_program(FIRST, kind)
