"""A world whose main host has a disk, installed in the place of Python's functions."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from loopcore.sim.loops import Loops
from loopcore.sim.tape import Tape
from loopcore_backends.sim import calls, clock, refusals, replacing
from loopcore_backends.sim.files import calls as file_calls
from loopcore_backends.sim.world import World


@contextmanager
def installed(world: World) -> Iterator[World]:
    parts = [*calls.replacements(world), *clock.replacements(world), *file_calls.replacements(world)]
    parts += refusals.replacements(world)
    with replacing.installed(parts):
        yield world


@pytest.fixture
def simulated() -> Callable[[], AbstractContextManager[World]]:
    return lambda: installed(World(Tape(), Loops()))


@pytest.fixture
def world() -> World:
    return World(Tape(), Loops())
