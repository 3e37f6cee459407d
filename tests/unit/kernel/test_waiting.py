"""Other threads can ask whether a loop waits."""

from typing import Any

import pytest

from loopcore.kernel.reactor import Reactor
from loopcore.testing import ScriptedBackend, VirtualClock


class Asking(ScriptedBackend):
    """Asks its loop, inside the wait, whether it waits; may be told to interrupt it there."""

    reactor: Reactor
    interrupt = False

    def wait(self, timeout: float | None) -> Any:
        self.answers.append(self.reactor.is_waiting())
        if self.interrupt:
            raise KeyboardInterrupt
        return super().wait(timeout)

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.answers: list[bool] = []


@pytest.fixture
def backend() -> Asking:
    clock = VirtualClock()
    backend = Asking(clock)
    backend.reactor = Reactor(backend, clock=clock)
    return backend


def test_a_loop_waits_in_its_wait_and_nowhere_else(backend: Asking) -> None:
    reactor, outside = backend.reactor, []
    reactor.call_later(1, lambda: outside.append(reactor.is_waiting()))
    reactor.call_later(2, reactor.stop_ticks)
    assert not reactor.is_waiting()
    reactor.run_ticks()
    assert backend.answers
    assert all(backend.answers)
    assert outside == [False]


def test_a_loop_that_was_interrupted_in_its_wait_does_not_wait(backend: Asking) -> None:
    reactor, outside = backend.reactor, []
    backend.interrupt = True
    with pytest.raises(KeyboardInterrupt):
        reactor.run_ticks()
    assert not reactor.is_waiting()
    backend.interrupt = False
    reactor.call_soon(lambda: outside.append(reactor.is_waiting()))
    reactor.call_soon(reactor.stop_ticks)
    reactor.run_ticks()
    assert outside == [False]
