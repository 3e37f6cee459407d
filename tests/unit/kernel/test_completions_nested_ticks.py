"""Who hosts the tick, or ticks within a callback, may poll again before what the last wait has brought was dealt with.

A completion is told once: it has to outlast that.
"""

from collections.abc import Iterator
from typing import Any

import pytest

import loopcore
from loopcore.kernel.handle import Handle
from loopcore.kernel.limits import POLL_SKIP_TICKS
from loopcore.kernel.scheduler import Scheduler
from loopcore.ports.operations import Receive
from loopcore.testing import ScriptedPort, VirtualClock

pytestmark = pytest.mark.loopcore_only


class Onlooker:
    @loopcore.hookimpl
    def loopcore_tick_begin(self) -> None: ...


@pytest.fixture(params=["reactor", "loop"])
def kind(request: pytest.FixtureRequest) -> Any:
    return Scheduler if request.param == "reactor" else loopcore.EventLoop


@pytest.fixture(params=[False, True], ids=["alone", "observed"])
def host(request: pytest.FixtureRequest, kind: Any) -> Iterator[Any]:
    made = kind(ScriptedPort(), clock=VirtualClock())
    if request.param:
        made.probes.register(Onlooker())
    yield made
    made._close_scheduler()


@pytest.fixture
def log(host: Any) -> list[Any]:
    """What has been told of a Receive, which the next wait will have brought."""
    told: list[Any] = []
    operation = Receive(7, 100)
    operation.target = Handle(lambda: told.append(operation.result), (), host)
    host._completions.submit(operation)
    host.backend.script.append([(operation, b"one", True)])
    return told


def test_by_a_host(host: Any, log: list[Any]) -> None:
    assert len(host.poll_events()) == 1
    for _ in range(2):  # it begins again; the first of these ticks does not poll
        host.call_soon(int)
        host.process_events(host.poll_events())
        host.process_ready()
        host.poll_skip_ticks = 0
    assert log == [b"one"]


def test_within_a_callback(host: Any, log: list[Any]) -> None:
    def tick() -> None:
        host.poll_skip_ticks = POLL_SKIP_TICKS
        host.call_soon(int)
        host.tick()
        host.poll_skip_ticks = 0

    host.poll_skip_ticks = 0
    host.call_soon(tick)
    for _ in range(2):
        host.tick()
        host.call_soon(int)
    assert log == [b"one"]
