"""A loop over the backend under test, for the levels above the port."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from loopcore.loop import EventLoop
from loopcore.testing.conformance.base import Level
from loopcore.testing.conformance.surroundings import PATIENCE

T = TypeVar("T")


class LoopLevel(Level):
    """Tests over `loop`."""

    @pytest.fixture
    def loop(self) -> Iterator[EventLoop]:
        """A loop over a new backend; a task left pending after the test is an error."""
        made = EventLoop(self.make())
        yield made
        pending = asyncio.all_tasks(made)
        made.close()
        assert not pending

    def run(self, loop: EventLoop, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on `loop`, and fail if it does not end."""
        return loop.run_until_complete(asyncio.wait_for(work, PATIENCE))
