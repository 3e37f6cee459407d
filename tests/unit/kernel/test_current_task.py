"""Which task asyncio shows as the current one, also where a tick goes from one task straight to the next."""

import asyncio
from asyncio import tasks as asyncio_tasks
from typing import Any

import pytest

import loopcore
from loopcore.kernel.exceptions import bad_yield_error
from loopcore.kernel.own_tasks import OwnTasks
from loopcore.kernel.scheduler import Scheduler
from loopcore.testing import ScriptedBackend

Loop = asyncio.AbstractEventLoop


async def test_each_step_sees_its_own_task(loop: Loop) -> None:
    seen: list[tuple[Any, Any]] = []

    async def look(turns: int) -> None:
        for _ in range(turns):
            seen.append((asyncio.current_task(), me[turns]))
            await asyncio.sleep(0)

    me: dict[int, Any] = {}
    for turns in (1, 3, 2):
        me[turns] = loop.create_task(look(turns))
    for task in list(me.values()):
        await task
    assert asyncio.current_task() not in me.values()
    assert len(seen) == 6
    assert all(shown is own for shown, own in seen)


async def test_callbacks_between_steps_see_no_task(loop: Loop) -> None:
    seen: list[Any] = []

    def look() -> None:
        seen.append(asyncio.current_task(loop))

    async def suspend() -> None:
        loop.call_soon(look)
        loop.call_later(0, look)
        await asyncio.sleep(0)
        loop.call_soon(look)
        await asyncio.sleep(0)

    first, second = loop.create_task(suspend()), loop.create_task(suspend())
    await first
    await second
    await asyncio.sleep(0.001)
    assert seen == [None] * 6


def test_node_like_callbacks_see_no_task_after_a_step() -> None:
    loop: Any = loopcore.new_event_loop()
    seen: list[Any] = []

    def look() -> None:
        seen.append(asyncio.current_task(loop))

    async def main() -> None:
        loop.queue_microtask(look)
        loop.next_tick(look)
        loop.call_immediate(look)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    loop.run_until_complete(main())
    assert seen == [None] * 3
    loop.close()


def test_whoever_drives_the_ticks_sees_no_task_between_them() -> None:
    scheduler = Scheduler(ScriptedBackend(), tasks=OwnTasks())

    async def endless() -> None:
        while True:
            await asyncio.sleep(0)

    task = scheduler.create_task(endless())
    for _ in range(3):
        scheduler.tick()
        assert asyncio.current_task(scheduler) is None  # type: ignore[arg-type]
        scheduler.process_events(scheduler.poll_events())
        scheduler.process_ready()
        assert asyncio.current_task(scheduler) is None  # type: ignore[arg-type]
    task.cancel()
    scheduler.tick()
    assert task.cancelled()
    scheduler._close_scheduler()


def test_a_loop_that_stops_in_the_middle_of_tasks_shows_none(loop: Loop) -> None:
    async def stop() -> None:
        loop.stop()
        while True:
            await asyncio.sleep(0)

    task = loop.create_task(stop())
    loop.run_forever()
    assert asyncio.current_task(loop) is None
    assert loop not in getattr(asyncio_tasks, "_current_tasks", {})
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))


async def test_tasks_of_asyncios_own_take_turns_with_loopcores(loop: Loop) -> None:
    seen: list[bool] = []

    async def look(turns: int) -> None:
        for _ in range(turns):
            task: Any = asyncio.current_task()
            seen.append(task.get_name() == f"turns-{turns}")
            await asyncio.sleep(0)

    ours = [loop.create_task(look(turns), name=f"turns-{turns}") for turns in (3, 5)]
    theirs = [asyncio_tasks.Task(look(turns), loop=loop, name=f"turns-{turns}") for turns in (4, 6)]
    await asyncio.gather(*ours, *theirs)
    assert seen == [True] * 18


def test_a_tick_inside_a_step_gives_the_current_task_back() -> None:
    scheduler = Scheduler(ScriptedBackend(), tasks=OwnTasks())
    seen: list[Any] = []

    async def other() -> None:
        seen.append(asyncio.current_task(scheduler))  # type: ignore[arg-type]
        await asyncio.sleep(0)

    async def ticks() -> None:
        scheduler.tick()
        seen.append(asyncio.current_task(scheduler))  # type: ignore[arg-type]
        await asyncio.sleep(0)

    outer, inner = scheduler.create_task(ticks()), scheduler.create_task(other())
    scheduler.tick()
    assert seen == [inner, outer]
    assert asyncio.current_task(scheduler) is None  # type: ignore[arg-type]
    scheduler.tick()
    assert outer.done()
    assert inner.done()
    scheduler._close_scheduler()


async def test_a_loop_whose_ticks_another_hosts_is_the_running_one_meanwhile(loop: Loop) -> None:
    hosted: Any = loopcore.new_event_loop()
    seen: list[tuple[Any, Any]] = []

    def look() -> None:
        seen.append((asyncio.get_running_loop(), asyncio.current_task()))

    async def other() -> None:
        look()
        await asyncio.sleep(0)
        look()

    hosted.call_soon(look)
    task = hosted.create_task(other())
    hosted.tick()
    look()
    hosted.process_events(hosted.poll_events())
    hosted.process_ready()
    look()
    own = asyncio.current_task()
    assert seen == [(hosted, None), (hosted, task), (loop, own), (hosted, task), (loop, own)]
    hosted.close()


def test_what_a_step_raises_that_ends_the_run_leaves_no_task(loop: Loop) -> None:
    async def suspend() -> None:
        while True:
            await asyncio.sleep(0)

    async def leave() -> None:
        await asyncio.sleep(0)
        raise SystemExit(3)

    waiting, leaving = loop.create_task(suspend()), loop.create_task(leave())
    with pytest.raises(SystemExit):
        loop.run_forever()
    assert asyncio.current_task(loop) is None
    assert isinstance(leaving.exception(), SystemExit)
    waiting.cancel()
    loop.run_until_complete(asyncio.gather(waiting, return_exceptions=True))


class WatchesTicks:
    """Notes which task asyncio shows at the ends of phases and ticks."""

    def __init__(self, seen: list[Any]) -> None:
        self._seen = seen

    @loopcore.hookimpl
    def loopcore_phase_end(self, loop: Any) -> None:
        self._seen.append(asyncio.current_task(loop))

    @loopcore.hookimpl
    def loopcore_tick_end(self, loop: Any) -> None:
        self._seen.append(asyncio.current_task(loop))


class WatchesHandles:
    """Notes which task asyncio shows when a callback begins."""

    def __init__(self, seen: list[Any]) -> None:
        self._seen = seen

    @loopcore.hookimpl
    def loopcore_handle_begin(self, loop: Any) -> None:
        self._seen.append(asyncio.current_task(loop))


@pytest.mark.parametrize("watches", [WatchesTicks, WatchesHandles])
def test_a_step_that_begins_to_watch_leaves_no_task(watches: Any) -> None:
    loop: Any = loopcore.new_event_loop()
    seen: list[Any] = []

    def look() -> None:
        seen.append(asyncio.current_task(loop))

    async def suspend() -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def main() -> None:
        before, after = loop.create_task(suspend()), None
        await asyncio.sleep(0)
        loop.probes.register(watches(seen))
        loop.call_soon(look)
        after = loop.create_task(suspend())
        await before
        await after

    loop.run_until_complete(main())
    loop.close()
    assert len(seen) > 1
    assert set(seen) == {None}


def test_what_cannot_be_waited_for_is_told_why(loop: Loop) -> None:
    class Foreign:
        _asyncio_future_blocking = True
        _loop = loop

    future = loop.create_future()
    texts = [str(bad_yield_error("task", loop, each)) for each in (1, (_ for _ in ()), future)]
    assert texts[0] == "Task got bad yield: 1"
    assert texts[1].startswith("yield was used instead of yield from for generator in task 'task' with")
    assert texts[2].startswith("yield was used instead of yield from in task 'task' with")
    foreign = Foreign()
    assert bad_yield_error("task", loop, foreign) is None
    assert "attached to a different loop" in str(bad_yield_error("task", None, foreign))
    assert str(bad_yield_error(foreign, loop, foreign)).startswith("Task cannot await on itself")


def test_a_task_that_is_ready_when_a_run_ends_is_the_current_one_in_the_next(loop: Loop) -> None:
    tasks: list[asyncio.Task[None]] = []
    seen: list[Any] = []

    async def look() -> None:
        seen.append(asyncio.current_task())

    def begin() -> None:
        loop.stop()
        tasks.append(loop.create_task(look()))

    loop.call_soon(begin)
    loop.run_forever()
    assert seen == []
    loop.run_until_complete(tasks[0])
    assert seen == tasks
