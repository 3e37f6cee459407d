import os
import random
import secrets
import ssl
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from random import choice
from typing import Any

import pytest

from loopcore_backends.sim import clock
from loopcore_backends.sim.chance import replacements
from loopcore_backends.sim.replacing import installed
from tests.unit.sim.conftest import FakeTape, FakeWorld

DRAWS = {
    "random": lambda: (random.random(), random.sample(range(99), 5), choice(range(10**9))),
    "an unseeded generator": lambda: random.Random().random(),
    "seed() without a seed": lambda: (random.seed(), random.random()),
    "SystemRandom": lambda: random.SystemRandom().random(),
    "os.urandom": lambda: os.urandom(16),
    "os.getrandom": lambda: os.getrandom(16) if hasattr(os, "getrandom") else os.urandom(16),
    "secrets": lambda: (secrets.token_hex(), secrets.randbelow(10**9), secrets.choice(range(10**9))),
    "ssl": lambda: ssl.RAND_bytes(8),
    "uuid1": uuid.uuid1,
    "uuid4": uuid.uuid4,
    "uuid7": lambda: uuid.uuid7() if sys.version_info >= (3, 14) else uuid.uuid4(),
    "names of temporary files": lambda: Path(tempfile.mktemp()).name,
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_the_seed_decides(draw: Any) -> None:
    def run(seed: int) -> object:
        world = FakeWorld(tape=FakeTape(seed))
        with installed([*clock.replacements(world), *replacements(world)]):
            return draw(), draw()

    first, second = run(1)  # type: ignore[misc]
    assert first != second
    assert run(1) == (first, second)
    assert run(2) != (first, second)


def test_the_program_s_own_generator_goes_on_where_it_was(world: Any) -> None:
    random.seed(5)
    expected = [random.random() for _ in range(4)]
    random.seed(5)
    before = [random.random(), random.random()]
    with installed(replacements(world)):
        random.seed(7)
        random.random()
    assert [*before, random.random(), random.random()] == expected


def test_a_seed_of_the_program_is_obeyed(world: Any) -> None:
    expected = random.Random(3).random()
    with installed(replacements(world)):
        assert random.Random(3).random() == expected
        random.seed(3)
        assert random.random() == expected


def test_hosts_have_different_nodes_and_no_hardware_address(world: Any) -> None:
    with installed(replacements(world)):
        one = uuid.getnode()
        world.host.name = "other"
        assert one != uuid.getnode()
        assert one >> 40 & 1
        assert uuid.uuid1().node == uuid.getnode()


def test_time_of_uuids_is_the_world_s(world: Any) -> None:
    with installed([*clock.replacements(world), *replacements(world)]):
        since_1582 = uuid.uuid1().time
        assert since_1582 == time.time_ns() // 100 + 0x01B21DD213814000


def test_names_of_threads_begin_at_one(world: Any) -> None:
    for _ in range(2):
        with installed(replacements(world)):
            assert threading.Thread(target=int).name == "Thread-1 (int)"
