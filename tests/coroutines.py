"""Tests that are coroutine functions: the fixture `run` runs each of them to its end, by default on the fixture `loop`.

    async def test_a_future_is_waited_for(loop):
        future = loop.create_future()
        loop.call_soon(future.set_result, 5)
        assert await future == 5

Such a test has both fixtures without naming them. A folder or a module that defines its own `run`
or `loop` decides how its tests are run.
"""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
Run = Callable[[Awaitable[Any]], Any]
PATIENCE = float(os.environ.get("LOOPCORE_TEST_PATIENCE", "10"))
"""Seconds until a test that waits for something that does not come has failed."""


async def bounded(test: Awaitable[T]) -> T:
    """Wait for `test`, for at most PATIENCE seconds."""
    async with asyncio.timeout(PATIENCE):
        return await test


async def settled(test: Awaitable[T]) -> T:
    """Wait for `test`, then for all other tasks, and for what closes transports a few ticks later."""
    try:
        return await test
    finally:
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture
def run(loop: asyncio.AbstractEventLoop) -> Run:
    """Runs a coroutine to its end, for at most PATIENCE seconds."""
    return lambda test: loop.run_until_complete(bounded(test))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "settles: a coroutine that leaves tasks behind, which are waited for as well")


def pytest_pycollect_makeitem(name: str, obj: object) -> None:
    if name.startswith("test_") and inspect.iscoroutinefunction(obj):
        pytest.mark.usefixtures("run")(obj)


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    test = pyfuncitem.obj(**arguments)
    pyfuncitem.funcargs["run"](settled(test) if pyfuncitem.get_closest_marker("settles") else test)
    return True
