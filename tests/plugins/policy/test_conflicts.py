"""Two plugins that decide the same are refused, with the names of both."""

import asyncio
from typing import Any

import pytest

import loopcore
from loopcore.errors import UsageError

pytestmark = pytest.mark.loopcore_only

ALL = ["budget", "fair", "keep", "priority", "shed", "strict"]


async def names() -> list[str]:
    loop: Any = asyncio.get_running_loop()
    return sorted(name for name, _ in loop.probes.plugins())


@pytest.mark.parametrize("name", ALL)
def test_each_can_be_had_alone_by_its_name(backend_name: str, name: str) -> None:
    assert loopcore.run(names(), backend=backend_name, plugins=name) == [name]


@pytest.mark.parametrize("order", ["fair", "priority", "budget"])
def test_those_that_decide_different_things_go_together(backend_name: str, order: str) -> None:
    plugins = [order, "keep", "shed", "strict"]
    assert loopcore.run(names(), backend=backend_name, plugins=plugins) == sorted(plugins)


@pytest.mark.parametrize(
    ("plugins", "policy"),
    [
        (["priority", "fair"], "loopcore_make_(ready_queue|tick_budget)"),
        (["priority", "budget"], "loopcore_make_tick_budget"),
        (["fair", "budget"], "loopcore_make_tick_budget"),
    ],
)
def test_those_that_decide_the_same_are_an_error(backend_name: str, plugins: list[str], policy: str) -> None:
    first, second = plugins
    with pytest.raises(
        UsageError, match=f"plugins '{first}' and '{second}' both decide {policy}; leave one of them out"
    ):
        loopcore.new_event_loop(backend_name, plugins=plugins)
