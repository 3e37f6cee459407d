"""The sampler: what it asks, how often, and what it keeps."""

from typing import Any

import pytest

from loopcore.errors import UsageError
from loopcore_plugins.inspect import sampler as module
from loopcore_plugins.inspect.sampler import KEPT, Question, Reply, Sampler
from tests.plugins.inspect.processes import SERVER, client_of, running


class Clock:
    """Stands for the module time."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Peer:
    """Stands for a process in which the question takes `seconds`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.seconds = 0.0
        self.asked: list[Any] = []

    def ask(self, what: str, **arguments: Any) -> Any:
        self.asked.append((what, arguments))
        self._clock.now += self.seconds
        if arguments.get("task") == 404:
            raise UsageError("there is no task 404")
        return {"number": len(self.asked)}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_a_question_that_takes_long_is_asked_less_often(clock: Clock) -> None:
    peer: Any = Peer(clock)
    sampler = Sampler(peer, 1.0)
    sampler.ask(Question("sites"))
    peer.seconds = 0.5  # a tenth of five seconds
    for _ in range(12):
        sampler._ask_question()
        clock.now += 1.0
    assert len(peer.asked) == 3
    assert sampler._reply == Reply(Question("sites"), {"number": 3})
    sampler.hurry()
    sampler._ask_question()
    assert len(peer.asked) == 4
    sampler.ask(Question("ps"))
    sampler._ask_question()
    assert peer.asked[-1] == ("ps", {})
    sampler.ask(None)
    sampler._ask_question()
    assert sampler._reply is None


def test_a_question_that_is_refused_is_answered_with_the_error(clock: Clock) -> None:
    peer: Any = Peer(clock)
    sampler = Sampler(peer, 1.0)
    sampler.ask(Question("task", 404))
    sampler._ask_question()
    assert sampler._reply == Reply(Question("task", 404), {"error": "there is no task 404"})


def test_the_history_is_bounded_and_without_rows(folder: Any) -> None:
    with running(folder, SERVER) as process, client_of(process) as client:
        samples = [client.ask("sample") for _ in range(2)]
        sampler = Sampler(client, 1.0)
        for number in range(KEPT + 5):
            sampler._take(samples[number % 2])
    assert sampler.latest is not None
    assert len(sampler.latest.history) == KEPT
    assert sampler.latest.frame.rows
    assert not any(frame.rows for frame in sampler.latest.history)
    assert len(sampler.samples) < KEPT
