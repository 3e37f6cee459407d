"""The only callback of a future: what it sees, and which code sees it."""

import asyncio
import gc
import weakref
from contextvars import ContextVar
from typing import Any

import pytest

from loopcore import hookimpl

Loop = asyncio.AbstractEventLoop


async def nothing() -> None:
    pass


async def test_a_callback_is_not_to_be_seen_any_more_when_it_is_due_and_runs(loop: Loop) -> None:
    called: list[Any] = []
    future: Any = loop.create_future()
    future.add_done_callback(called.append)
    future.set_result(None)
    assert future._callbacks is None
    assert future.remove_done_callback(called.append) == 0
    assert called == []
    future.add_done_callback(called.append)
    await asyncio.sleep(0)
    assert called == [future, future]
    await asyncio.sleep(0)
    assert called == [future, future]


async def test_no_task_is_the_current_one_in_a_callback_of_a_task(loop: Loop) -> None:
    seen: list[Any] = []
    variable: ContextVar[int] = ContextVar("variable", default=0)

    def look(task: Any) -> None:
        seen.append((asyncio.current_task(), task.done(), variable.get()))
        variable.set(9)

    async def set_variable() -> None:
        variable.set(5)

    variable.set(1)
    for _ in range(3):
        loop.create_task(set_variable()).add_done_callback(look)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert seen == [(None, True, 1)] * 3


def test_a_callback_that_is_due_when_the_run_ends_comes_in_the_next(loop: Loop) -> None:
    called: list[Any] = []

    def finish() -> None:
        future = loop.create_future()
        future.add_done_callback(called.append)
        future.set_result(None)
        loop.stop()

    loop.call_soon(finish)
    loop.run_forever()
    assert called == []
    loop.run_until_complete(asyncio.sleep(0))
    assert len(called) == 1


def test_a_callback_that_is_due_when_the_loop_is_closed_goes_with_it(loop: Loop) -> None:
    class Callback:
        def __call__(self, _: Any) -> None:
            raise AssertionError

    known: list[Any] = []

    def finish() -> None:
        callback = Callback()
        known.append(weakref.ref(callback))
        future = loop.create_future()
        future.add_done_callback(callback)
        future.set_result(None)

    loop.call_soon(finish)
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    gc.collect()
    assert known[0]() is None


class Watching:
    """A plugin that keeps what begins."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    @hookimpl
    def loopcore_handle_begin(self, handle: Any) -> None:
        self.seen.append(handle)


class Ordering:
    """A plugin that keeps what it puts in order, and a ready order that leaves it unchanged."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.entries: list[Any] = []

    @hookimpl
    def loopcore_make_ready_queue(self) -> object:
        return self

    def push(self, runnable: Any) -> None:
        self.seen.append(runnable)
        self.entries.append(runnable)

    def pop(self) -> Any:
        return self.entries.pop(0) if self.entries else None


@pytest.mark.loopcore_only
@pytest.mark.parametrize("plugin", [Watching, Ordering])
async def test_who_comes_to_look_while_a_callback_is_due_sees_a_handle(loop: Any, plugin: Any) -> None:
    called: list[Any] = []
    looker = plugin()
    task = loop.create_task(nothing())
    task.add_done_callback(called.append)
    future = loop.create_future()
    future.add_done_callback(called.append)
    await asyncio.sleep(0)  # the task is done now
    future.set_result(None)
    loop.probes.register(looker)
    await asyncio.sleep(0)
    loop.probes.unregister(looker)
    await asyncio.sleep(0)
    assert called == [task, future]
    found = [each for each in looker.seen if "append" in repr(each) and isinstance(each, asyncio.Handle)]
    assert len(found) == 2
    assert not [each for each in looker.seen if each is task or each is future]
