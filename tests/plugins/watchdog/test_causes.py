"""Each cause, by a program that has exactly this trouble; and a quiet program."""

import asyncio
import gc
import re
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from loopcore_plugins.watchdog import Watchdog
from tests.plugins.watchdog.finder import PATIENCE, Finder, find

pytestmark = pytest.mark.loopcore_only


def spin(finder: Finder) -> None:
    while not finder.found.is_set():
        pass


async def blocking(finder: Finder) -> None:
    finder.found.wait(PATIENCE)


async def computing(finder: Finder) -> None:
    spin(finder)


async def collecting(finder: Finder) -> None:
    kept = [[number] for number in range(200_000)]
    while not finder.found.is_set():
        gc.collect()
    kept.clear()


async def matching(finder: Finder) -> None:
    """A match in C code that lets nobody else run, longer each time: by one letter, twice as long."""
    length = 18
    while not finder.found.is_set():
        re.match(r"(a+)+$", "a" * length + "b")
        length = min(length + 1, 25)


def test_a_blocking_call_is_named_while_it_blocks(loop: Any) -> None:
    stall, _ = find(loop, blocking, cause="blocked")
    assert stall.place is not None
    assert (stall.place.file, stall.place.function) == (__file__, "blocking")
    assert stall.call is not None
    assert stall.call.file == threading.__file__
    assert stall.stack[-1] == stall.call


def test_a_computing_callback_is_busy(loop: Any) -> None:
    stall, _ = find(loop, computing, cause="busy")
    assert stall.place is not None
    assert stall.place.function == "spin"
    assert stall.cpu_seconds > 0


def test_garbage_collection_is_told_apart(loop: Any) -> None:
    stall, _ = find(loop, collecting, cause="gc")
    # Innermost may be what others do in each collection (hypothesis), and 3.11 makes the list in a function of its own.
    assert any(place.function.startswith("collecting") for place in stall.stack)


def test_a_call_in_c_that_keeps_the_lock_is_named_after_it_returned(loop: Any) -> None:
    stall, _ = find(loop, matching, cause="busy")
    assert stall.place is not None
    assert stall.place.function == "matching"
    assert stall.call is not None
    assert stall.call.file == re.__file__


@pytest.fixture
def slow_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.3)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("slow_switches")
def test_a_thread_that_keeps_the_lock_is_named(loop: Any) -> None:
    async def starving(finder: Finder) -> None:
        thread = threading.Thread(target=spin, args=(finder,), name="hog")
        thread.start()
        while thread.is_alive():
            await asyncio.sleep(0.01)

    stall, _ = find(loop, starving, cause="gil")
    assert stall.holder is not None
    if sys.platform == "linux":
        assert stall.holder.name == "hog"


def test_many_callbacks_of_which_none_lasts_are_no_place(loop: Any) -> None:
    async def flood(finder: Finder) -> None:
        for _ in range(500):
            loop.call_soon(lambda: finder.over.wait(0.002))
            loop.call_soon(finder.over.wait, 0.002)
        finished = loop.create_future()
        loop.call_soon(finished.set_result, None)
        await finished

    stall, _ = find(loop, flood)
    assert stall.samples > 1
    assert stall.task is None
    assert stall.awaited_by == ()


def test_the_task_and_those_that_wait_for_it_are_named(loop: Any) -> None:
    async def outer(finder: Finder) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(blocking(finder), name="inner")

    async def program(finder: Finder) -> None:
        await asyncio.gather(loop.create_task(outer(finder), name="outer"), asyncio.sleep(0))

    stall, _ = find(loop, program)
    assert stall.task is not None
    assert (stall.task.name, stall.task.coroutine, stall.task.state) == ("inner", "blocking", "running")
    assert [task.name for task in stall.awaited_by][:1] == ["outer"]
    assert len(stall.awaited_by) == 2


async def test_a_quiet_program_is_not_reported(loop: Any, caplog: pytest.LogCaptureFixture) -> None:
    watchdog = Watchdog(threshold=0.4)
    loop.probes.register(watchdog)
    await asyncio.sleep(1)  # idle
    end = loop.time() + 1
    while loop.time() < end:  # busy, in short steps
        await asyncio.sleep(0)
    assert watchdog.counters()["stalls"] == 0
    assert caplog.records == []
