"""The plugin `budget`: a flood of callbacks does not keep the loop from its events."""

import asyncio
import math
import socket
from typing import Any

import pytest

import loopcore
from loopcore.errors import UsageError
from loopcore_plugins.policy import Budget

pytestmark = pytest.mark.loopcore_only

FLOOD = 5000


async def callbacks_before_the_event() -> int:
    """A byte comes, and at the same time thousands of callbacks; return how many run before the byte is read."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    ran: list[int] = []
    before = loop.create_future()

    def read() -> None:
        loop.remove_reader(ours)
        before.set_result(len(ran))

    with ours, theirs:
        loop.add_reader(ours, read)
        theirs.send(b"x")
        for number in range(FLOOD):
            loop.call_soon(ran.append, number)
        count: int = await before
        while len(ran) < FLOOD:
            await asyncio.sleep(0)
    assert ran == list(range(FLOOD))
    return count


def test_without_it_the_event_waits_for_the_whole_flood(backend_name: str) -> None:
    assert loopcore.run(callbacks_before_the_event(), backend=backend_name) == FLOOD


def test_with_it_the_event_waits_for_one_budget_and_nothing_is_lost(backend_name: str) -> None:
    # Two, if the byte arrives after the first poll.
    plugins = [Budget(callbacks=100, seconds=None)]
    assert loopcore.run(callbacks_before_the_event(), backend=backend_name, plugins=plugins) <= 200


def test_a_budget_of_time_ends_a_tick_too(backend_name: str) -> None:
    plugins = [Budget(seconds=1e-9)]
    assert loopcore.run(callbacks_before_the_event(), backend=backend_name, plugins=plugins) <= 20


def test_ticks_that_it_ends_are_counted(backend_name: str) -> None:
    async def program() -> int:
        await callbacks_before_the_event()
        loop: Any = asyncio.get_running_loop()
        yields: int = loop.counters().budget_yields
        return yields

    plugins = [Budget(callbacks=100, seconds=None)]
    assert loopcore.run(program(), backend=backend_name, plugins=plugins) >= FLOOD // 100 - 1


@pytest.mark.parametrize("options", [{"callbacks": 0}, {"seconds": 0.0}, {"seconds": -1.0}, {"seconds": math.nan}])
def test_a_budget_of_nothing_is_an_error(options: Any) -> None:
    with pytest.raises(UsageError, match="a budget must be above zero"):
        Budget(**options)
