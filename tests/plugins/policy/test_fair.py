"""The plugin `fair`: one noisy group does not hold up the others."""

import asyncio
import contextvars
import itertools
import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

import loopcore
from loopcore.errors import UsageError
from loopcore_plugins.policy import Fair, group, priority
from loopcore_plugins.policy.fairness import FairOrder
from loopcore_plugins.policy.marks import group_of, priority_of

pytestmark = pytest.mark.loopcore_only


def counting() -> Callable[[], int]:
    """A clock that steps once a look: each callback takes as long as every other."""
    return itertools.count().__next__


def fair(**options: Any) -> Fair:
    return Fair(**{"callbacks": 10, "seconds": None, "clock": counting()} | options)


async def noise_until_the_quiet_one_is_done(noisy: int = 500) -> int:
    """A tenant with hundreds of tasks, another with one; count the steps of the first until the other ends."""
    steps = 0

    async def work() -> None:
        nonlocal steps
        for _ in range(20):
            steps += 1
            await asyncio.sleep(0)

    async def quiet() -> int:
        for _ in range(10):
            await asyncio.sleep(0)
        return steps

    async def tenant(name: str, tasks: int, coroutine: Any) -> list[Any]:
        with group(name):
            return await asyncio.gather(*(coroutine() for _ in range(tasks)))

    _, (heard,) = await asyncio.gather(tenant("noisy", noisy, work), tenant("quiet", 1, quiet))
    assert steps == 20 * noisy
    return int(heard)


def test_without_it_every_step_waits_for_the_noisy_tenant(backend_name: str) -> None:
    assert loopcore.run(noise_until_the_quiet_one_is_done(), backend=backend_name) >= 10 * 500


def test_with_it_a_step_waits_for_one_budget(backend_name: str) -> None:
    assert loopcore.run(noise_until_the_quiet_one_is_done(), backend=backend_name, plugins=[fair()]) <= 12 * 10


def test_groups_take_turns_and_within_one_it_is_first_come(backend_name: str) -> None:
    async def program() -> list[str]:
        loop = asyncio.get_running_loop()
        ran: list[str] = []
        for name, count in (("a", 4), ("b", 2), ("c", 1)):
            with group(name):
                for number in range(count):
                    loop.call_soon(ran.append, f"{name}{number}")
        while len(ran) < 7:
            await asyncio.sleep(0)
        return ran

    ran = loopcore.run(program(), backend=backend_name, plugins=[fair(callbacks=None)])
    assert ran == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]


def test_what_is_shared_is_time_not_callbacks(backend_name: str) -> None:
    now = 0

    async def program() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        used = {"long": 0, "short": 0}
        rounds = {"long": 0, "short": 0}

        def work(name: str, nanoseconds: int) -> None:
            nonlocal now
            now += nanoseconds
            used[name] += nanoseconds
            rounds[name] += 1
            if sum(used.values()) < 20_000:
                loop.call_soon(work, name, nanoseconds)

        with group("long"):
            loop.call_soon(work, "long", 100)
        with group("short"):
            for _ in range(200):
                loop.call_soon(work, "short", 1)
        while sum(used.values()) < 20_000:
            await asyncio.sleep(0)
        return used["long"], used["short"]

    long, short = loopcore.run(program(), backend=backend_name, plugins=[fair(clock=lambda: now)])
    assert abs(long - short) <= 300


def test_children_belong_to_the_group_of_their_parent(backend_name: str) -> None:
    async def program() -> int:
        async def spawn() -> None:
            await asyncio.gather(*(asyncio.create_task(asyncio.sleep(0)) for _ in range(50)))

        order = plugin.loopcore_make_ready_queue()
        assert isinstance(order, FairOrder)
        with group("tenant"):
            task = asyncio.create_task(spawn())
        await task
        return len(order._groups)

    plugin = fair()
    assert loopcore.run(program(), backend=backend_name, plugins=[plugin]) == 2


class Ready:
    """What a loop would push: something with a context."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        with group(name) if name is not None else nullcontext():
            self.context = contextvars.copy_context()

    def get_context(self) -> Any:
        return self.context


def test_an_idle_group_saves_nothing_up_and_its_debt_is_bounded() -> None:
    now = 0
    order = FairOrder(100, lambda: now)

    def run(name: str, nanoseconds: int) -> str:
        nonlocal now
        order.push(Ready(name))
        ran = order.pop().name
        now += nanoseconds
        order.settle()
        return str(ran)

    for _ in range(1000):
        run("busy", 10)
    for _ in range(10):
        order.push(Ready("busy"))
        order.push(Ready("idle"))
    served = []
    for _ in range(20):
        served.append(order.pop().name)
        now += 10
        order.settle()
    assert all(abs(served[:end].count("idle") - served[:end].count("busy")) <= 1 for end in range(20))
    run("greedy", 10**9)
    for _ in range(30):
        order.push(Ready("busy"))
    order.push(Ready("greedy"))
    waited = 0
    while order.pop().name != "greedy":
        now += 10
        waited += 1
    assert 5 <= waited <= 10  # callbacks of 10, for a debt of 100


def test_the_time_after_a_phase_is_not_the_last_groups() -> None:
    now = 0
    plugin = Fair(clock=lambda: now)
    order = plugin.loopcore_make_ready_queue()
    assert isinstance(order, FairOrder)
    order.push(Ready("last"))
    order.pop()
    now += 10
    plugin.loopcore_phase_end("pending")
    now += 1000  # the loop waits
    order.pop()
    assert order._groups["last"].used == 10


def test_a_group_is_remembered_while_it_runs_and_as_long_as_it_owes() -> None:
    now = 0
    order = FairOrder(100, lambda: now)

    def forget_others(first: int) -> None:
        for number in range(first, first + 200):
            order.push(Ready(str(number)))
        while order.pop():
            pass

    order.push(Ready("greedy"))
    order.pop()
    for number in range(200):
        order.push(Ready(str(number)))
    assert "greedy" in order._groups  # it runs
    now += 10**9
    while order.pop():
        pass
    forget_others(200)
    assert "greedy" in order._groups  # it owes
    now += 100
    forget_others(400)
    assert "greedy" not in order._groups


def test_a_mark_ends_with_its_block() -> None:
    with group("tenant"), priority(1):
        pass
    assert (group_of(Ready()), priority_of(Ready())) == (None, 0)


def test_a_group_has_a_name_that_can_be_looked_up() -> None:
    with pytest.raises(TypeError, match="unhashable"), group([]):  # type: ignore[arg-type]
        pass


def test_groups_that_are_gone_are_forgotten() -> None:
    order = FairOrder(100, counting())
    for number in range(10_000):
        order.push(Ready(str(number)))
        order.pop()
        order.settle()
    assert len(order._groups) <= 256
    assert order.pop() is None


@pytest.mark.parametrize("debt", [-1.0, math.nan, math.inf])
def test_a_debt_that_cannot_be_is_an_error(debt: float) -> None:
    with pytest.raises(UsageError, match="debt must be a number of seconds"):
        Fair(debt=debt)
