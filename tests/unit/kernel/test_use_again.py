"""Handles that have run are used again, tasks are listed without references: nobody may notice either."""

import asyncio
import gc
import weakref
from typing import Any

import pytest

from loopcore.kernel.reactor import Reactor
from loopcore.kernel.task import Task
from loopcore.testing import ScriptedBackend


def test_a_handle_that_the_program_keeps_stays_as_it_was() -> None:
    reactor = Reactor(ScriptedBackend())
    ran: list[int] = []
    kept = reactor.call_soon(ran.append, 1)
    reactor.tick()
    later = [reactor.call_soon(ran.append, number) for number in (2, 3)]
    assert all(handle is not kept for handle in later)
    assert "append" in repr(kept)
    reactor.tick()
    assert ran == [1, 2, 3]
    reactor.close_scheduler()


def test_a_weak_reference_to_a_handle_dies_when_it_has_run() -> None:
    reactor = Reactor(ScriptedBackend())
    watched = weakref.ref(reactor.call_soon(int))
    reactor.tick()
    gc.collect()
    assert watched() is None
    reactor.close_scheduler()


def test_a_handle_that_has_run_keeps_nothing_alive() -> None:
    class Owner:
        def method(self) -> None:
            pass

    reactor = Reactor(ScriptedBackend())
    owner = Owner()
    watched = weakref.ref(owner)
    reactor.call_soon(owner.method)
    reactor.tick()
    del owner
    gc.collect()
    assert watched() is None
    reactor.close_scheduler()


class Silent(Task):
    """A task whose finalizer does nothing, not even what its base's does."""

    def __del__(self) -> None:
        pass


@pytest.mark.parametrize("count", [1, 600])
def test_tasks_that_are_destroyed_pending_are_not_listed_any_more(loop: Any, count: int) -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        before = asyncio.all_tasks()
        tasks = [Silent(wait(), loop=loop) for _ in range(count)]
        assert len(asyncio.all_tasks()) == len(before) + count
        await asyncio.sleep(0)
        tasks.clear()
        gc.collect()
        assert asyncio.all_tasks() == before

    loop.run_until_complete(main())
