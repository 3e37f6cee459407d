"""A world without events: its clock goes wherever `block` waits for."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest


@dataclass
class FakeHost:
    name: str = "main"
    pid: int = 5_000_000
    clock_offset: float = 0.0
    clock_rate: float = 1.0


class FakeTape:
    def __init__(self, seed: int = 1) -> None:
        self.streams: dict[str, random.Random] = {}
        self.seed = seed

    def stream(self, name: str) -> random.Random:
        return self.streams.setdefault(name, random.Random(f"{self.seed} {name}"))


@dataclass
class FakeWorld:
    now: float = 0.0
    host: FakeHost = field(default_factory=FakeHost)
    tape: FakeTape = field(default_factory=FakeTape)

    def block(self, condition: Callable[[], bool], deadline: float | None) -> bool:
        if condition():
            return True
        assert deadline is not None
        self.now = max(self.now, deadline)
        return False


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()
