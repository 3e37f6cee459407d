"""Backends for the contract that do what seldom happens, over two that keep it."""

from loopcore.testing.faults import FaultyCompletions, FaultyReadiness
from loopcore_backends.proactor import ProactorBackend
from loopcore_backends.select_ import SelectBackend


class FaultySelect(FaultyReadiness):
    def __init__(self, seed: int = 0) -> None:
        super().__init__(SelectBackend(), seed)


class FaultyProactor(FaultyCompletions):
    def __init__(self, seed: int = 0) -> None:
        super().__init__(ProactorBackend("select"), seed)
