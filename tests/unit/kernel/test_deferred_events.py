"""Events that are put off to the next tick, because those before them have brought much (docs/adr/0003)."""

from collections.abc import Callable

import pytest

from loopcore.kernel.handle import Handle
from loopcore.kernel.limits import RECEIVE_BUDGET
from loopcore.kernel.runnable import Runnable
from loopcore.kernel.scheduler import Scheduler
from loopcore.ports.interest import READ
from loopcore.testing import ScriptedBackend, VirtualClock


class Receiver(Runnable):
    """The reader of a transport, as far as the tick knows."""

    def __init__(self, receive: Callable[[], object]) -> None:
        self.receive = receive

    def _run(self) -> None:
        self.receive()


class Loop:
    """A reactor over a script, with a reader for each descriptor; `log` has what ran."""

    def __init__(self) -> None:
        clock = VirtualClock()
        self.backend = ScriptedBackend(clock)
        self.reactor = Scheduler(self.backend, clock=clock)
        self.log: list[str] = []

    def read(self, fd: int, size: int, then: Callable[[], object] | None = None) -> None:
        """Have `fd` bring `size` bytes whenever it is readable, and `then` be called soon."""

        def receive() -> None:
            self.log.append(f"read {fd}")
            self.reactor._bytes_received += size
            if then is not None:
                self.reactor.call_soon(then)

        self.reactor._readiness.set_reader(fd, Receiver(receive))

    def call(self, fd: int) -> None:
        """Have a callback of the program's called whenever `fd` is readable, as `add_reader` does."""
        self.reactor._readiness.set_reader(fd, Handle(self.note(f"call {fd}"), (), self.reactor))

    def note(self, what: str) -> Callable[[], None]:
        return lambda: self.log.append(what)

    def tick(self, *fds: int) -> list[str]:
        """Tick, with those descriptors readable if the tick polls; return what ran in it."""
        self.backend.script.clear()
        self.backend.script.append([(fd, READ) for fd in fds])
        before = len(self.log)
        self.reactor.tick()
        return self.log[before:]

    @property
    def polls(self) -> int:
        return len(self.backend.timeouts)


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_much_is_used_before_more_is_received(loop: Loop) -> None:
    for fd in (5, 6, 7):
        loop.read(fd, RECEIVE_BUDGET, loop.note(f"use {fd}"))
    assert loop.tick(5, 6, 7) == ["read 5"]
    assert loop.tick() == ["use 5", "read 6"]
    assert loop.tick() == ["use 6", "read 7"]
    assert loop.polls == 1
    loop.reactor.poll_skip_ticks = 0
    assert loop.tick(5) == ["use 7", "read 5"]
    assert loop.polls == 2


def test_little_is_received_in_one_tick(loop: Loop) -> None:
    for fd in (5, 6, 7, 8):
        loop.read(fd, RECEIVE_BUDGET // 2, loop.note(f"use {fd}"))
    assert loop.tick(5, 6, 7, 8) == ["read 5", "read 6"]
    assert loop.tick() == ["use 5", "use 6", "read 7", "read 8"]
    assert loop.tick() == ["use 7", "use 8"]


def test_nothing_is_put_off_if_nobody_is_ready(loop: Loop) -> None:
    for fd in (5, 6, 7):
        loop.read(fd, RECEIVE_BUDGET)
    assert loop.tick(5, 6, 7) == ["read 5", "read 6", "read 7"]


def test_a_busy_queue_puts_nothing_off(loop: Loop) -> None:
    def again() -> None:
        loop.reactor.call_soon(again)

    for fd in (5, 6, 7):
        loop.read(fd, RECEIVE_BUDGET, loop.note(f"use {fd}"))
    loop.reactor.call_soon(again)
    loop.reactor.poll_skip_ticks = 0
    assert loop.tick(5, 6, 7) == ["read 5", "read 6", "read 7"]


def test_phases_keep_their_order(loop: Loop) -> None:
    reactor = loop.reactor
    loop.read(5, RECEIVE_BUDGET, loop.note("use 5"))
    loop.read(6, 1)
    reactor.call_later(0, loop.note("timer"))
    reactor.call_soon(reactor.call_immediate, loop.note("immediate"))
    reactor.poll_skip_ticks = 0
    assert loop.tick(5, 6) == ["read 5", "immediate", "timer"]
    assert loop.tick() == ["use 5", "read 6"]


def test_callbacks_of_the_program_are_called_while_what_they_were_told_of_is_there(loop: Loop) -> None:
    loop.read(5, RECEIVE_BUDGET, loop.note("use 5"))
    loop.read(6, RECEIVE_BUDGET)
    loop.call(7)
    loop.read(8, 1)
    loop.call(9)
    assert loop.tick(5, 6, 7, 8, 9) == ["read 5", "call 7", "call 9"]
    assert loop.tick() == ["use 5", "read 6", "read 8"]


def test_who_comes_new_gets_nothing_that_was_put_off(loop: Loop) -> None:
    def replace() -> None:
        loop.reactor._readiness.forget(6)
        loop.read(6, 1)

    loop.read(5, RECEIVE_BUDGET, replace)
    loop.read(6, RECEIVE_BUDGET)
    assert loop.tick(5, 6) == ["read 5"]
    assert loop.tick() == []
    loop.reactor.poll_skip_ticks = 0
    assert loop.tick(6) == ["read 6"]


def test_a_run_that_stops_forgets_them_and_the_next_hears_of_them_again(loop: Loop) -> None:
    reactor = loop.reactor
    loop.read(5, RECEIVE_BUDGET, reactor._stop_ticks)
    loop.read(6, RECEIVE_BUDGET, loop.note("use 6"))
    loop.read(7, 1, reactor._stop_ticks)
    loop.backend.script.extend([[(5, READ), (6, READ), (7, READ)], [(7, READ)]])
    reactor._run_ticks()
    assert loop.log == ["read 5", "read 6"]
    loop.log.clear()
    reactor._run_ticks()
    assert loop.log == ["use 6", "read 7"]
    assert loop.polls == 3, "the last one is that of the tick that stops"


def test_a_tick_by_hand_after_a_stop_polls_anew(loop: Loop) -> None:
    loop.read(5, RECEIVE_BUDGET, loop.reactor._stop_ticks)
    loop.read(6, 1)
    loop.tick(5, 6)
    loop.tick()  # runs what stops
    loop.tick(6)
    assert loop.log == ["read 5", "read 6", "read 6"]
    loop.log.clear()
    assert loop.tick() == []


def test_they_outlive_an_interruption(loop: Loop) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    loop.read(5, RECEIVE_BUDGET, interrupt)
    loop.read(6, 1)
    loop.tick(5, 6)
    with pytest.raises(KeyboardInterrupt):
        loop.tick()
    loop.reactor.poll_skip_ticks = 0
    assert loop.tick(6) == ["read 6"]  # the tick's events went with it, and are told of again
    loop.reactor._close_scheduler()
