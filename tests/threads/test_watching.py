"""Plugins and other threads look at loops while several of them run."""

import asyncio
import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loopcore_plugins import _tasktree
from loopcore_plugins.inspect import Inspect
from loopcore_plugins.metrics import Metrics, snapshots
from loopcore_plugins.recorder.layout import Kind
from loopcore_plugins.recorder.reading import read
from loopcore_plugins.watchdog import Watchdog
from tests.plugins.inspect.processes import socket_folder
from tests.plugins.recorder.recording import named, of, quiet
from tests.threads.loops import HAS_GIL, LOOPS, PATIENCE, ROUNDS, Factory, Others, Threads, each


class Work:
    """What each loop does while it is looked at; `end` may be called in any thread."""

    def __init__(self) -> None:
        self.begun = threading.Barrier(LOOPS + 1)
        self.ended = False
        self.turns = [0] * LOOPS

    async def turn(self) -> None:
        await asyncio.sleep(0)

    async def run(self, number: int) -> int:
        """Make tasks, timers and jobs until the end, once at least."""
        loop = asyncio.get_running_loop()
        self.begun.wait(PATIENCE)
        while not (self.ended and self.turns[number]):
            await asyncio.gather(self.turn(), self.turn(), loop.run_in_executor(None, int))
            loop.call_later(0.001, int)
            await asyncio.sleep(0)
            self.turns[number] += 1
        await asyncio.sleep(0.002)
        return self.turns[number]

    def end(self) -> None:
        self.ended = True


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for the sockets of inspect."""
    with socket_folder() as path:
        monkeypatch.setenv("LOOPCORE_INSPECT_DIR", str(path))
        yield path


def look(work: Work, others: Others, *watchers: Any) -> None:
    """Run the work in all loops while each of `watchers` runs in a thread; end it after them."""
    jobs = [asyncio.run_coroutine_threadsafe(work.run(number), loop) for number, loop in enumerate(others.loops)]
    try:
        work.begun.wait(PATIENCE)
        with Threads() as threads:
            for watcher in watchers:
                threads.start(watcher)
    finally:
        work.end()
    for job in jobs:
        assert job.result(PATIENCE)


def test_the_tasks_of_a_loop_are_listed_in_another_thread(factory: Factory) -> None:
    with Others(factory) as others:
        work = Work()

        def list_tasks() -> None:
            for _ in range(50 * ROUNDS):
                for loop in others.loops:
                    for task in asyncio.all_tasks(loop):
                        assert task.get_loop() is loop
                        task.get_name()
                        if HAS_GIL:  # without it, CPython 3.13 reads the frame of a coroutine while that runs
                            repr(task)

        look(work, others, list_tasks, list_tasks)
        assert all(work.turns)


def test_figures_are_read_in_other_threads(own_factory: Factory) -> None:
    with Others(own_factory) as others:
        work = Work()

        def read_figures() -> None:
            ticks = [0] * LOOPS
            for _ in range(50 * ROUNDS):
                for number, loop in enumerate(others.loops):
                    figures: Any = loop.counters()  # type: ignore[attr-defined]
                    assert figures.ticks >= ticks[number]
                    ticks[number] = figures.ticks
                    assert loop.is_running()
                    repr(loop)

        look(work, others, read_figures, read_figures)


def test_the_recorders_of_several_loops_keep_to_their_own(own_factory: Factory, tmp_path: Path) -> None:
    async def main(number: int) -> None:
        loop: Any = asyncio.get_running_loop()
        recorder = quiet(tmp_path)
        loop.probes.register(recorder)

        async def step(turns: int) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        for turn in range(10 * ROUNDS):
            tasks = [asyncio.create_task(step(turn % 4)) for _ in range(5)]
            await asyncio.gather(*tasks, loop.run_in_executor(None, int))
        recording = read(recorder.dump(tmp_path / f"{number}.rec"))
        assert recording.problems == []
        spawned = [event.who for event in named(recording, "step", Kind.SPAWN)]
        assert len(spawned) == 50 * ROUNDS
        done = [event.who for event in of(recording, Kind.DONE)]
        assert all(done.count(who) == spawned.count(who) for who in spawned)
        loop.probes.unregister(recorder)

    each(own_factory, main)


def test_a_recording_is_dumped_in_another_thread(own_factory: Factory, tmp_path: Path) -> None:
    with Others(own_factory) as others:
        work = Work()
        recorders = [quiet(tmp_path) for _ in range(LOOPS)]

        async def begin(number: int) -> None:
            loop: Any = asyncio.get_running_loop()
            loop.probes.register(recorders[number])

        async def finish(number: int) -> None:
            loop: Any = asyncio.get_running_loop()
            loop.probes.unregister(recorders[number])

        for number in range(LOOPS):
            others.run(number, begin(number))

        def dump() -> None:
            for turn in range(2 * ROUNDS):
                for number, recorder in enumerate(recorders):
                    dumped = recorder.dump(tmp_path / f"{threading.get_ident()}-{number}-{turn}.rec")
            assert read(dumped).problems == []  # one, because a sanitizer takes long to decode it

        look(work, others, dump, dump)
        for number in range(LOOPS):
            others.run(number, finish(number))


def test_inspect_answers_for_every_loop(own_factory: Factory, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from loopcore_plugins.inspect.client import connect, find

    # On a busy machine a loop may need more than a second, and only its running task would be described.
    monkeypatch.setattr(_tasktree, "BLOCKED_AFTER", PATIENCE)
    with Others(own_factory) as others:
        work, plugins = Work(), [Inspect() for _ in range(LOOPS)]

        async def begin(number: int) -> None:
            loop: Any = asyncio.get_running_loop()
            loop.probes.register(plugins[number])

        for number in range(LOOPS):
            others.run(number, begin(number))
        addresses = find("all")
        assert len(addresses) == LOOPS

        def ask() -> None:
            for _ in range(3 * ROUNDS):
                for address in addresses:
                    with connect(address) as client:
                        assert client.ask("ps")["tasks"]
                        client.ask("watch", parts=["meter"])
                        client.ask("sample")

        look(work, others, ask, ask)


def test_several_plugins_come_and_go_while_all_loops_run(own_factory: Factory, tmp_path: Path, folder: Path) -> None:
    async def main(number: int) -> None:
        loop: Any = asyncio.get_running_loop()
        for turn in range(3 * ROUNDS):
            made = [Metrics(), Watchdog(threshold=5.0), quiet(tmp_path), Inspect(ages=True)]
            for plugin in made:
                loop.probes.register(plugin)
                await asyncio.gather(*[asyncio.sleep(0) for _ in range(10)])
            assert len(snapshots()) >= 1
            for plugin in made[turn % 2 :: -1] + made[1 + turn % 2 :]:
                loop.probes.unregister(plugin)
                await asyncio.sleep(0)

    each(own_factory, main)
    assert snapshots() == []


def test_garbage_is_collected_in_another_thread(factory: Factory) -> None:
    """Cycles of futures, tasks and handles of all loops are found and finalized in a thread that has none of them."""
    with Others(factory) as others:
        finalized: list[int] = []

        class Cycle:
            def __init__(self) -> None:
                self.future = asyncio.get_running_loop().create_future()
                self.future.add_done_callback(self.note)
                self.handle = asyncio.get_running_loop().call_later(3600, self.note)
                self.handle.cancel()

            def note(self, *done: object) -> None:
                raise AssertionError("it is garbage")

            def __del__(self) -> None:
                finalized.append(1)

        class Cycles(Work):
            async def turn(self) -> None:
                for _ in range(5):
                    Cycle()
                    await asyncio.sleep(0)

        def collect() -> None:
            for _ in range(20 * ROUNDS):
                gc.collect()

        look(Cycles(), others, collect, collect)
    gc.collect()
    assert finalized
