"""The loops that channels are tested on: the backend of this platform, and asyncio's own. They must not care."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import loopcore

Run = Callable[[Coroutine[Any, Any, Any]], Any]
PATIENCE = 30.0
FACTORIES = {"loopcore": loopcore.new_event_loop, "asyncio": asyncio.SelectorEventLoop}


@pytest.fixture(params=FACTORIES)
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine to its end on a new loop, or fails after PATIENCE seconds; in any thread."""

    async def bounded(main: Coroutine[Any, Any, Any]) -> Any:
        async with asyncio.timeout(PATIENCE):
            return await main

    def run_on(main: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=FACTORIES[request.param]) as runner:
            return runner.run(bounded(main))

    return run_on
