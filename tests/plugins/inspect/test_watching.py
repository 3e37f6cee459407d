"""What is measured, when, and what it costs when nobody looks: nothing is on."""

import asyncio
import os
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from loopcore import EventLoop
from loopcore.errors import UsageError
from loopcore_plugins.inspect import Inspect
from loopcore_plugins.inspect.client import Client, connect, find
from loopcore_plugins.inspect.figures import compare
from loopcore_plugins.inspect.observer import MOST_NAMES, OTHERS, PARTS, CallbackTimes
from loopcore_plugins.inspect.sampler import sites_of, watch
from loopcore_plugins.inspect.stalls import Stalls
from loopcore_plugins.watchdog import Watchdog
from tests.plugins.inspect.processes import SERVER, client_of, running, until

pytestmark = pytest.mark.loopcore_only


@pytest.fixture
def meters(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The meters that were asked for; a stopped one is taken off."""
    made: list[Any] = []

    class Counted:
        def __init__(self, loop: Any, window: float = 0.001) -> None:
            self._meter = original(loop, window)
            self.snapshot = self._meter.snapshot
            made.append(self)

        def stop(self) -> None:
            self._meter.stop()
            made.remove(self)

    original = EventLoop.meter
    monkeypatch.setattr(EventLoop, "meter", lambda loop: Counted(loop))
    return made


def is_measured(loop: Any, meters: list[Any]) -> tuple[bool, bool, bool]:
    """Whether the meter, the hooks of callbacks and those of ticks are on."""
    return bool(meters), loop.probes.watching_handles, loop.probes.watching_ticks


def test_nothing_is_measured_unless_somebody_watches(folder: Path, loop: Any, meters: list[Any]) -> None:
    async def until_measured(wanted: tuple[bool, bool, bool]) -> None:
        async with asyncio.timeout(30):
            while is_measured(loop, meters) != wanted:
                await asyncio.sleep(0.001)

    async def program() -> None:
        assert is_measured(loop, meters) == (False, False, False)
        client: Client = await asyncio.to_thread(connect, find("all")[0])
        await asyncio.to_thread(client.ask, "stacks")
        assert is_measured(loop, meters) == (False, False, False)
        await asyncio.to_thread(client.ask, "watch", parts=["meter"])
        await until_measured((True, False, False))
        with await asyncio.to_thread(connect, find("all")[0]) as other:
            await asyncio.to_thread(other.ask, "watch", parts=sorted(PARTS))
            await until_measured((True, True, True))
        await until_measured((True, False, False))
        await asyncio.to_thread(client.ask, "watch", parts=[])
        await until_measured((False, False, False))
        await asyncio.to_thread(client.ask, "watch", parts=["phases"])
        await until_measured((False, False, True))
        client.close()
        await until_measured((False, False, False))

    loop.probes.register(Inspect())
    loop.run_until_complete(program())


def test_a_loop_that_is_closed_while_it_is_watched(folder: Path, loopcore_factory: Any, meters: list[Any]) -> None:
    loop = loopcore_factory()
    loop.probes.register(Inspect())

    async def program() -> Client:
        client: Client = await asyncio.to_thread(connect, find("all")[0])
        await asyncio.to_thread(client.ask, "watch", parts=sorted(PARTS))
        return client

    with loop.run_until_complete(program()):
        loop.close()
        assert is_measured(loop, meters) == (False, False, False)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_child_of_a_watched_process_measures_nothing(folder: Path, loop: Any, meters: list[Any]) -> None:
    async def program() -> int:
        with await asyncio.to_thread(connect, find("all")[0]) as client:
            await asyncio.to_thread(client.ask, "watch", parts=sorted(PARTS))
            async with asyncio.timeout(30):
                while is_measured(loop, meters) != (True, True, True):
                    await asyncio.sleep(0.001)
            child = os.fork()
            if child == 0:
                try:
                    inspect.loopcore_fork_child(loop)  # as the next tick would; from 3.14 on there is none
                    os._exit(is_measured(loop, meters) != (False, False, False))
                finally:
                    os._exit(2)
            assert is_measured(loop, meters) == (True, True, True)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    inspect = Inspect()
    loop.probes.register(inspect)
    assert loop.run_until_complete(program()) == 0


def test_the_figures_of_a_server_add_up(folder: Path, backend_name: str) -> None:
    with running(folder, SERVER, backend=backend_name) as process, client_of(process) as client:
        client.ask("watch", parts=sorted(PARTS))
        first = until(lambda: (sample := client.ask("sample"))["phases"] and sample, "the last part is measured")
        wanted = first["counters"]["callbacks"] + 2000
        until(lambda: client.ask("sample")["counters"]["callbacks"] > wanted, "callbacks run")
        frame = compare(first, client.ask("sample"))
    rows = {row.name: row for row in frame.rows}
    assert rows["client"].tasks == 3
    assert rows["client"].rate > 0
    assert rows["client"].place.startswith("<string>:")
    assert rows["query"].tasks == 2
    assert any(name.endswith(" for StreamReaderProtocol") for name in rows)
    assert frame.utilization is not None
    assert 0.0 < frame.utilization <= 1.0
    assert frame.queue_time.count > 0
    assert frame.ticks.percentile(99) >= frame.ticks.percentile(50) > 0
    assert frame.rates["bytes_received"] == pytest.approx(frame.rates["bytes_sent"], rel=0.2)
    assert frame.sockets == 6
    assert {"pending", "io", "poll"} <= set(frame.phases)
    assert sum(frame.phases.values()) == pytest.approx(1.0)


def test_a_stall_is_named_while_it_lasts(folder: Path, backend_name: str) -> None:
    with running(folder, SERVER, "blocking", backend=backend_name) as process, client_of(process) as client:
        client.ask("watch", parts=["meter", "callbacks"])
        stall = until(lambda: client.ask("sample")["stalls"]["present"], "it is stalled")
        until(lambda: client.ask("sample")["slow"]["count"], "the callback was slow")
        later = client.ask("sample")
    assert stall["task"] == "blocker"
    assert stall["place"][2] == "blocker"
    assert stall["seconds"] >= 0.2
    assert later["slow"]["last"][0]["name"] == "blocker"
    assert next(row for row in later["callbacks"] if row[1] == "blocker")[4] >= 200_000_000


def test_stalls_that_the_watchdog_found_are_shown_to_later_clients(folder: Path, loop: Any) -> None:
    async def program() -> tuple[dict[str, Any], bool]:
        while not any(is_of_program(stall) for stall in subject_of(inspect).stalls.view()["past"]):
            time.sleep(0.05)
            await asyncio.sleep(0)
        with await asyncio.to_thread(connect, find("all")[0]) as client:
            await asyncio.to_thread(client.ask, "watch", parts=["meter"])
            sample = await asyncio.to_thread(client.ask, "sample")
            return sample["stalls"], subject_of(inspect).stalls._watch is not None

    def is_of_program(stall: dict[str, Any]) -> bool:
        return stall["place"] is not None and stall["place"][2].endswith("program")

    inspect = Inspect()
    loop.probes.register(inspect)
    loop.probes.register(Watchdog(threshold=0.01, max_reports=0))
    stalls, is_watched_twice = loop.run_until_complete(program())
    assert not is_watched_twice
    # Others may be a busy machine's, and the last of them may not have ended.
    waited_for = list(filter(is_of_program, stalls["past"]))
    assert stalls["count"] >= len(stalls["past"]) >= len(waited_for) > 0
    assert {stall["cause"] for stall in waited_for} <= {"blocked", "gil", "suspended"}


def test_a_loop_is_not_watched_for_stalls_between_its_runs(folder: Path, loop: Any) -> None:
    async def connected() -> Client:
        client: Client = await asyncio.to_thread(connect, find("all")[0])
        await asyncio.to_thread(client.ask, "watch", parts=["meter"])
        return client

    async def nothing() -> bool:
        return subject_of(inspect).stalls._watch is not None

    inspect = Inspect()
    loop.probes.register(inspect)
    with loop.run_until_complete(connected()):
        assert subject_of(inspect).stalls._watch is None
        assert loop.run_until_complete(nothing())
        assert subject_of(inspect).stalls._watch is None


def test_a_client_that_comes_as_a_run_ends_watches_nothing(
    folder: Path, loop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, begins, may_watch = Stalls.watch, threading.Event(), threading.Event()

    def watch_late(stalls: Stalls, *arguments: Any) -> None:
        begins.set()
        may_watch.wait(30)
        watch(stalls, *arguments)

    async def leave() -> tuple[Client, Future[Any]]:
        client: Client = await asyncio.to_thread(connect, find("all")[0])
        answer = pool.submit(client.ask, "watch", parts=["meter"])
        await asyncio.to_thread(begins.wait, 30)
        return client, answer

    monkeypatch.setattr(Stalls, "watch", watch_late)
    inspect = Inspect()
    loop.probes.register(inspect)
    with ThreadPoolExecutor(1) as pool:
        client, answer = loop.run_until_complete(leave())
        may_watch.set()
        answer.result(30)
    assert subject_of(inspect).stalls._watch is None
    client.close()


def subject_of(inspect: Inspect) -> Any:
    (_, subject), *_ = inspect._inspected.values()
    return subject


def test_tasks_are_grouped_by_where_they_wait(folder: Path, loop: Any) -> None:
    async def worker(gate: asyncio.Event) -> None:
        await gate.wait()

    async def program() -> list[dict[str, Any]]:
        gate = asyncio.Event()
        early = asyncio.create_task(worker(gate))
        await asyncio.sleep(0)
        with await asyncio.to_thread(connect, find("all")[0]) as client:
            await asyncio.to_thread(client.ask, "watch", parts=["ages"])
            async with asyncio.timeout(30):
                while subject_of(inspect)._observer.creation_times is None:
                    await asyncio.sleep(0.001)
            late = [asyncio.create_task(worker(gate)) for _ in range(3)]
            await asyncio.sleep(0)
            found = [await asyncio.to_thread(client.ask, "sites")]
            early.cancel()
            await asyncio.wait([early])
            found.append(await asyncio.to_thread(client.ask, "sites"))
        gate.set()
        await asyncio.gather(*late)
        return found

    inspect = Inspect()
    loop.probes.register(inspect)
    before, after = (
        next(site for site in answer["sites"] if site["waits_for"] == "Event.wait")
        for answer in loop.run_until_complete(program())
    )
    assert before["place"][2].endswith("worker")
    assert (before["count"], before["at_least"], before["state"]) == (4, True, "waiting")
    assert before["example"]["age"] is None
    assert (after["count"], after["at_least"]) == (3, False)
    assert after["oldest"] >= 0.0
    assert after["example"]["coroutine"].endswith("worker")


def test_a_client_asks_an_older_process_for_what_it_knows() -> None:
    class Older:
        greeting: dict[str, Any] = {"pid": 1}
        asked: list[Any] = []

        def ask(self, what: str, **arguments: Any) -> Any:
            self.asked.append(arguments)
            raise UsageError(f"there is no question {what!r}")

    older: Any = Older()
    with pytest.raises(UsageError):
        watch(older, "meter", "callbacks", "ages")
    assert older.asked == [{"parts": ["meter", "callbacks"]}]
    assert sites_of(older) == []


def test_the_time_of_nested_callbacks_is_counted_once() -> None:
    times = CallbackTimes()
    times._end()  # of something that had begun before
    times._begin("task", outer := _named("outer"))
    times._begin("task", _named("inner"))
    times._end()
    (_, name, so_far, *_), (_, _, inner_count, inner_ns, *_) = times.view()
    assert (name, so_far, inner_count) == (outer.__qualname__, 1, 1)
    times._end()
    (_, _, count, outer_ns, longest, place), _ = times.view()
    assert count == 1
    assert outer_ns == longest > 0 < inner_ns
    assert place is not None
    assert times._running == []


def test_names_are_bounded() -> None:
    times = CallbackTimes()
    for number in range(MOST_NAMES + 10):
        times._begin("callback", _named(f"callback{number}"))
        times._end()
    rows = times.view()
    assert len(rows) == MOST_NAMES + 1
    assert rows[-1][1:3] == [OTHERS, 10]


def _named(name: str) -> Any:
    def function() -> None:
        """Be named."""

    function.__qualname__ = name
    return function
