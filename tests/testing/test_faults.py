"""Loops bear what backends may do, and seldom do."""

from collections.abc import Callable
from typing import Any

import pytest

from loopcore.loop import EventLoop
from loopcore.testing.conformance import BackendContract
from loopcore.testing.conformance.loop.transports import Transports
from tests.testing.faulty import FaultyProactor, FaultySelect

CANNOT = {"hooks": "which waits end for nothing is chance"}


class TestOverFaultyReadiness(BackendContract):
    backend = "tests.testing.faulty:FaultySelect"
    options = {"seed": 1}
    levels = ("shape", "loop")
    cannot = CANNOT


class TestOverFaultyCompletions(BackendContract):
    backend = "tests.testing.faulty:FaultyProactor"
    options = {"seed": 2}
    levels = ("shape", "loop")
    cannot = CANNOT


@pytest.mark.parametrize(
    ("make", "kinds"),
    [
        (FaultySelect, {"early end", "one at a time", "spurious event", "stale event"}),
        (FaultyProactor, {"early end", "late completion", "short read"}),
    ],
)
def test_every_fault_is_injected(make: Callable[[int], Any], kinds: set[str]) -> None:
    backend = make(3)
    loop = EventLoop(backend)
    Transports().test_connections_do_not_starve_each_other(loop)
    loop.close()
    assert {kind for kind, count in backend.injected.items() if count} >= kinds
