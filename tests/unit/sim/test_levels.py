"""What each level lets the tape choose: what happens outside, the order of wake-ups too, or that of all callbacks."""

import asyncio
from typing import Any

import pytest

from loopcore import sim

IN_ORDER = ["first", "second"]


async def wakes() -> list[str]:
    """Two tasks that the same event wakes."""
    event, order = asyncio.Event(), []

    async def wait(name: str) -> None:
        await event.wait()
        order.append(name)

    tasks = [asyncio.create_task(wait(name), name=name) for name in IN_ORDER]
    await asyncio.sleep(0)
    event.set()
    await asyncio.gather(*tasks)
    return order


async def callbacks() -> list[str]:
    """Two callbacks that are ready at the same time."""
    order: list[str] = []
    loop = asyncio.get_running_loop()
    for name in IN_ORDER:
        loop.call_soon(order.append, name)
    await asyncio.sleep(0.1)
    return order


@pytest.mark.parametrize(
    ("program", "level", "varies"),
    [
        (wakes, sim.Level.IO, False),
        (wakes, sim.Level.WAKE, True),
        (wakes, sim.Level.ALL, True),
        (callbacks, sim.Level.IO, False),
        (callbacks, sim.Level.WAKE, False),
        (callbacks, sim.Level.ALL, True),
    ],
)
def test_the_level_says_what_may_change_places(program: Any, level: sim.Level, varies: bool) -> None:
    orders = {tuple(sim.run(program, seed=seed, level=level)) for seed in range(40)}
    assert orders == ({tuple(IN_ORDER), tuple(reversed(IN_ORDER))} if varies else {tuple(IN_ORDER)})


def test_a_failure_of_a_level_is_said_in_words_and_replayed() -> None:
    async def main() -> None:
        assert await wakes() == IN_ORDER

    failure = sim.search(main, seeds=range(200), level=sim.Level.WAKE).failure
    assert failure is not None
    assert len(failure.changes) == 1
    assert "second" in sim.in_words(failure)
    with pytest.raises(AssertionError):
        sim.replay(main, failure.token)
    assert sim.search(main, seeds=range(50)).failure is None
