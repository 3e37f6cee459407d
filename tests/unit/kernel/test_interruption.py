"""SystemExit and KeyboardInterrupt end the run at once, and everything else stays in its queue."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest

from loopcore.kernel.scheduler import Scheduler
from loopcore.testing import ScriptedBackend, VirtualClock

Loop = asyncio.AbstractEventLoop
EXITS = [KeyboardInterrupt, SystemExit]


@pytest.fixture(params=EXITS)
def leave(request: pytest.FixtureRequest) -> Callable[[], None]:
    def leave() -> None:
        raise request.param

    return leave


def run_through(loop: Loop) -> None:
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        loop.run_forever()
    assert not loop.is_running()
    for _ in range(4):
        loop.stop()
        loop.run_forever()


def test_in_a_callback(loop: Loop, leave: Callable[[], None]) -> None:
    log: list[Any] = []
    loop.call_later(0, log.append, "timer")
    loop.call_soon(log.append, "before")
    loop.call_soon(leave)
    loop.call_soon(log.append, "after")
    run_through(loop)
    assert log[0] == "before"
    assert sorted(log) == ["after", "before", "timer"]


def test_in_a_timer(loop: Loop, leave: Callable[[], None]) -> None:
    log: list[Any] = []
    now = loop.time()
    loop.call_at(now - 2, leave)
    loop.call_at(now - 1, log.append, "second")
    loop.call_at(now, log.append, "third")
    run_through(loop)
    assert log == ["second", "third"]


def test_in_a_reader(loop: Loop, leave: Callable[[], None], pair: tuple[socket.socket, socket.socket]) -> None:
    log: list[Any] = []

    def read() -> None:
        loop.remove_reader(pair[0])
        leave()

    pair[1].send(b"x")
    loop.add_reader(pair[0], read)
    loop.call_later(0, log.append, "timer")
    run_through(loop)
    assert log == ["timer"]


@pytest.mark.loopcore_only
def test_in_an_immediate_a_next_tick_and_a_microtask(loop: Any, leave: Callable[[], None]) -> None:
    for schedule in (loop.call_immediate, loop.next_tick, loop.queue_microtask):
        log: list[Any] = []
        schedule(log.append, "before")
        schedule(leave)
        schedule(log.append, "after")
        loop.call_soon(log.append, "soon")
        run_through(loop)
        assert sorted(log) == ["after", "before", "soon"]


def test_in_a_task_the_task_is_done_and_the_others_go_on(loop: Loop) -> None:
    log: list[Any] = []

    async def leave() -> None:
        raise KeyboardInterrupt

    async def stay() -> None:
        await asyncio.sleep(0)
        log.append("stayed")

    leaving, staying = loop.create_task(leave()), loop.create_task(stay())
    run_through(loop)
    assert log == ["stayed"]
    assert staying.done()
    assert isinstance(leaving.exception(), KeyboardInterrupt)


@pytest.mark.loopcore_only
def test_while_descriptors_are_closed_the_rest_is_closed_in_the_next_tick() -> None:
    reactor = Scheduler(ScriptedBackend(), clock=VirtualClock())
    closed: list[str] = []

    class Resource:
        def __init__(self, name: str, error: type[BaseException] | None = None) -> None:
            self.name, self.error = name, error

        def close(self) -> None:
            closed.append(self.name)
            if self.error is not None:
                raise self.error

    for resource in (Resource("a"), Resource("b", KeyboardInterrupt), Resource("c"), Resource("d")):
        reactor._close_soon(resource)
    with pytest.raises(KeyboardInterrupt):
        reactor.tick()
    reactor.tick()
    assert closed == ["a", "b", "c", "d"]


@pytest.mark.loopcore_only
def test_timers_that_were_collected_twice_all_fire() -> None:
    """A host of the tick may poll again before it calls `process_ready`."""
    clock = VirtualClock()
    reactor = Scheduler(ScriptedBackend(clock), clock=clock)
    fired: list[int] = []
    reactor.call_at(clock.at, fired.append, 1)
    reactor.poll_events()
    reactor.call_at(clock.at, fired.append, 2)
    reactor.process_events(reactor.poll_events())
    reactor.process_ready()
    assert fired == [1, 2]


@pytest.mark.loopcore_only
def test_a_wait_does_not_block_while_a_due_timer_has_not_run() -> None:
    clock = VirtualClock()
    reactor = Scheduler(ScriptedBackend(clock), clock=clock)
    begun, fired = clock.at, []
    reactor.call_at(begun, fired.append, 1)
    reactor.poll_events()
    reactor.call_at(begun + 5, fired.append, 2)
    reactor.tick()
    assert (clock.at, fired) == (begun, [1])
