"""The loops that channels are tested on: the backend of this platform, and asyncio's own. They must not care."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import loopcore

Run = Callable[[Coroutine[Any, Any, Any]], Any]
FACTORIES = {"loopcore": loopcore.new_event_loop, "asyncio": asyncio.SelectorEventLoop}


@pytest.fixture(params=FACTORIES)
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine to its end on a new loop; in any thread."""

    def run_on(main: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=FACTORIES[request.param]) as runner:
            return runner.run(main)

    return run_on
