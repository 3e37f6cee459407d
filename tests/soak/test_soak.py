"""Opened, used and closed again and again, with the collector off: everything returns to the start.

SOAK_CYCLES is the number of cycles of each kind: `SOAK_CYCLES=500 python -m pytest tests/soak/test_soak.py` is the
soak, the default is a short one that finds a leak of an object a cycle just as well.
"""

import asyncio
import gc
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.oracle import ORACLE
from tests.soak import cycles_of_services  # noqa: F401 - adds its own to CYCLES
from tests.soak.census import ROUNDS, soak
from tests.soak.cycles import CYCLES

COUNT = int(os.environ.get("SOAK_CYCLES", "20"))


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("name", CYCLES)
def test_everything_returns_to_the_start(loop_factory: Any, name: str, backend_name: str) -> None:
    rounds = 1 if backend_name == ORACLE else ROUNDS
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        growth = runner.run(soak(CYCLES[name], COUNT, rounds))
    if backend_name == ORACLE:
        # A socket transport of asyncio's refers to itself, and so waits for the collector with all that it holds.
        assert growth.descriptors == 0
    else:
        assert not growth.is_leak(), growth


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("what", ["cycle of objects", "block", "descriptor"])
def test_a_leak_of_one_a_cycle_is_found(loop_factory: Any, what: str) -> None:
    kept: list[Any] = []

    async def leak() -> None:
        if what == "cycle of objects":
            ring: list[Any] = []
            ring.append(ring)
        elif what == "block":
            kept.append(bytes(100))
        else:
            kept.append(os.dup(0))

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        growth = runner.run(soak(leak, 20))
    if what == "descriptor":
        for number in kept:
            os.close(number)
    assert growth.is_leak()
    assert (growth.objects, growth.blocks, growth.descriptors)[["cycle of objects", "block", "descriptor"].index(what)]
