"""Handles that have run keep nothing alive, and tasks are listed without references."""

import asyncio
import gc
import sys
import weakref
from typing import Any

import pytest

from loopcore.kernel import registry
from loopcore.kernel.flags import HAS_GIL
from loopcore.kernel.scheduler import Scheduler
from loopcore.kernel.task import Task
from loopcore.testing import ScriptedBackend


def test_a_handle_that_the_program_keeps_stays_as_it_was() -> None:
    reactor = Scheduler(ScriptedBackend())
    ran: list[int] = []
    kept = reactor.call_soon(ran.append, 1)
    reactor.tick()
    later = [reactor.call_soon(ran.append, number) for number in (2, 3)]
    assert all(handle is not kept for handle in later)
    assert "append" in repr(kept)
    reactor.tick()
    assert ran == [1, 2, 3]
    reactor._close_scheduler()


def test_a_weak_reference_to_a_handle_dies_when_it_has_run() -> None:
    reactor = Scheduler(ScriptedBackend())
    watched = weakref.ref(reactor.call_soon(int))
    reactor.tick()
    gc.collect()
    assert watched() is None
    reactor._close_scheduler()


def test_a_handle_that_has_run_keeps_nothing_alive() -> None:
    class Owner:
        def method(self) -> None:
            pass

    reactor = Scheduler(ScriptedBackend())
    owner = Owner()
    watched = weakref.ref(owner)
    reactor.call_soon(owner.method)
    reactor.tick()
    del owner
    gc.collect()
    assert watched() is None
    reactor._close_scheduler()


class Silent(Task):
    """A task whose finalizer does nothing, not even what its base's does."""

    def __del__(self) -> None:
        pass


@pytest.mark.parametrize("count", [1, 600])
async def test_tasks_that_are_destroyed_pending_are_not_listed_any_more(loop: Any, count: int) -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    before = asyncio.all_tasks()
    tasks = [Silent(wait(), loop=loop) for _ in range(count)]
    assert len(asyncio.all_tasks()) == len(before) + count
    await asyncio.sleep(0)
    tasks.clear()
    gc.collect()
    assert asyncio.all_tasks() == before


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="from Python 3.15 on this is an error")
async def test_a_task_that_is_initialized_again_is_listed_once(loop: Any) -> None:
    async def nothing() -> None:
        pass

    loop.set_exception_handler(lambda *_: None)  # the step of the first time finds the task done
    gc.collect()  # what other tests have left
    before = len(list(registry._known))
    for _ in range(600):
        left = nothing()
        task = Task(left, loop=loop)
        task.__init__(nothing(), loop=loop)  # type: ignore[misc]  # as asyncio's allows
        left.close()
        task.cancel()
    await asyncio.sleep(0)
    del task
    gc.collect()
    assert len(list(registry._known)) == before


class Deaf:
    """A future of another maker that keeps no reference to who waits for it."""

    _asyncio_future_blocking = False

    def __init__(self, loop: Any) -> None:
        self._loop = loop

    def get_loop(self) -> Any:
        return self._loop

    def add_done_callback(self, fn: Any, *, context: Any = None) -> None:
        pass

    def __await__(self) -> Any:
        self._asyncio_future_blocking = True
        yield self


class Holder(Silent):
    """A task with an attribute that is let go after the finalizers and before the task itself."""

    __slots__ = ("held",)
    held: Any


class Looking:
    """Looks for the tasks there are when it is let go."""

    def __init__(self, found: list[Any]) -> None:
        self.found = found

    def __del__(self) -> None:
        self.found.append(asyncio.all_tasks())


@pytest.mark.skipif(not HAS_GIL, reason="without the GIL asyncio.all_tasks returns such a task, asyncio's too")
async def test_a_task_that_is_being_destroyed_is_not_shown(loop: Any) -> None:
    async def wait() -> None:
        await Deaf(loop)

    before = asyncio.all_tasks()
    found: list[Any] = []
    task = Holder(wait(), loop=loop)
    task.held = Looking(found)
    await asyncio.sleep(0)
    assert task in asyncio.all_tasks()
    del task  # the last reference: it goes now
    assert found == [before]
    assert asyncio.all_tasks() == before
