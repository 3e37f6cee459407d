"""Snapshots: their differences, from other threads, and what becomes of them when loops come and go."""

import asyncio
import gc
import itertools
import threading
import warnings
import weakref
from typing import Any

import pytest

import loopcore
from loopcore.errors import UsageError
from loopcore_plugins.metrics import Metrics, snapshots
from loopcore_plugins.metrics.record import pool_name
from tests.plugins.metrics.reading import Reader, nothing

pytestmark = pytest.mark.loopcore_only


async def work() -> None:
    for _ in range(10):
        await asyncio.sleep(0.001)
    await asyncio.to_thread(int)


def test_a_difference_is_what_happened_in_between(loop: Any) -> None:
    reader = Reader(loop)
    loop.run_until_complete(nothing())
    first = reader.metrics.snapshot()
    loop.run_until_complete(work())
    loop.call_later(100, int)
    second = reader.metrics.snapshot()
    moved = second.since(first)
    assert moved.counters.tasks_created == 1
    assert moved.measurements.lateness.count == 10
    assert moved.pools["default"].outcomes["finished"] == 1
    assert moved.counters.timers == second.counters.timers == 1
    assert moved.seconds == second.seconds - first.seconds
    assert (moved.name, moved.started_at) == (second.name, second.started_at)
    active, idle = moved.measurements.active_ns, moved.measurements.idle_ns
    assert moved.utilization == active / (active + idle)
    loop.run_until_complete(loop.shutdown_default_executor())


def test_the_difference_to_itself_is_nothing(loop: Any) -> None:
    reader = Reader(loop)
    loop.run_until_complete(work())
    snapshot = reader.metrics.snapshot()
    moved = snapshot.since(snapshot)
    assert moved.counters.callbacks == moved.measurements.tick.count == moved.delay.count == 0
    assert moved.pools["default"].run_time.count == 0
    assert moved.utilization == 0.0
    loop.run_until_complete(loop.shutdown_default_executor())


def test_other_threads_take_snapshots_that_never_go_back(loop: Any) -> None:
    reader = Reader(loop, full=True)
    over = threading.Event()
    seen: list[Any] = []

    def look() -> None:
        while not over.is_set() or len(seen) < 2:
            seen.append(reader.metrics.snapshot())

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(5):
        loop.run_until_complete(work())
    over.set()
    thread.join()
    loop.run_until_complete(loop.shutdown_default_executor())
    for then, now in itertools.pairwise(seen):
        moved = now.since(then)
        assert min(moved.counters[:-3]) >= 0
        assert moved.measurements.idle_ns >= 0
        assert moved.measurements.active_ns >= 0
        assert min(moved.measurements.tick.buckets) >= 0
        assert all(each.count >= 0 for each in moved.measurements.run_time.values())


def test_the_last_snapshot_of_a_closed_loop_stays(backend_name: str) -> None:
    metrics = Metrics()
    loopcore.run(work(), backend=backend_name, plugins=[metrics])
    assert metrics.snapshot().counters.tasks_live == 0
    assert metrics.snapshot().counters.timers_fired >= 10
    assert metrics.snapshot() is metrics.snapshot()
    assert metrics.snapshot().backend == backend_name
    assert snapshots() == []


def test_loops_have_names_that_are_used_again(loopcore_factory: Any) -> None:
    loops = [loopcore_factory() for _ in range(3)]
    for loop in loops:
        loop.probes.register(Metrics(name="api"))
    assert [each.name for each in snapshots()] == ["api", "api-2", "api-3"]
    loops[1].close()
    assert [each.name for each in snapshots()] == ["api", "api-3"]
    another = loopcore_factory()
    another.probes.register(Metrics(name="api"))
    assert [each.name for each in snapshots()] == ["api", "api-2", "api-3"]


def test_a_loop_that_nobody_closed_is_collected(backend_name: str) -> None:
    loop = loopcore.new_event_loop(backend_name, plugins=[Metrics()])
    reference = weakref.ref(loop)
    assert len(snapshots()) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del loop
        gc.collect()
    assert reference() is None
    assert snapshots() == []


def test_a_second_loop_is_refused_and_the_first_goes_on(loopcore_factory: Any) -> None:
    metrics = Metrics()
    first, second = loopcore_factory(), loopcore_factory()
    first.probes.register(metrics)
    second.probes.register(metrics)
    assert [plugin for _, plugin in second.probes.plugins()] == []
    first.run_until_complete(nothing())
    assert metrics.snapshot().counters.tasks_finished == 1
    assert len(snapshots()) == 1


def test_one_plugin_serves_one_loop_after_the_other(backend_name: str) -> None:
    metrics = Metrics()
    for _ in range(2):
        loopcore.run(work(), backend=backend_name, plugins=[metrics])
        assert metrics.snapshot().pools["default"].outcomes["finished"] == 1


def test_it_comes_and_goes_while_the_loop_runs(loop: Any) -> None:
    metrics = Metrics()

    async def main() -> None:
        loop.probes.register(metrics)
        await work()
        loop.probes.unregister(metrics)
        await work()

    loop.run_until_complete(main())
    loop.run_until_complete(loop.shutdown_default_executor())
    assert metrics.snapshot().pools["default"].outcomes["finished"] == 1
    assert metrics.snapshot().measurements.lateness.count == 10
    assert snapshots() == []


def test_it_has_no_hook_that_is_called_for_ticks_callbacks_or_tasks(loop: Any) -> None:
    loop.probes.register(Metrics())
    assert (loop.probes.watching_ticks, loop.probes.watching_handles) == (False, False)


def test_without_a_loop_there_is_nothing_to_read() -> None:
    with pytest.raises(UsageError, match="have no loop yet"):
        Metrics().snapshot()


@pytest.mark.parametrize(
    ("pool", "name"),
    [
        ("default", "default"),
        ("<concurrent.futures.thread.ThreadPoolExecutor object at 0x7f0>", "ThreadPoolExecutor"),
        ("<tests.unit.make.<locals>.Pool object at 0x7f0>", "Pool"),
        ("<Pool>", "Pool"),
        ("my\npool", r"my\npool"),
        ("p" * 1000, "p" * 100),
    ],
)
def test_pools_are_named_by_their_class(pool: str, name: str) -> None:
    assert pool_name(pool) == name


def test_the_name_of_a_pool_can_be_exported() -> None:
    """Issue 32: no scrape of the process was answered any more."""
    assert pool_name("a\ud800").isprintable()
