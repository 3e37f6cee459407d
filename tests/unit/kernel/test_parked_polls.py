"""What a completion port is asked for a reader that leaves for a moment: nothing, until it is back."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from loopcore.kernel.handle import Handle
from loopcore.kernel.readiness import SWEEPS_KEPT
from loopcore.kernel.scheduler import Scheduler
from loopcore.ports.interest import READ, WRITE
from loopcore.ports.operations import Operation
from loopcore.testing import ScriptedPort, VirtualClock


class Owner:
    """Whose descriptor it is, in place of a socket."""

    def __init__(self, fd: int = -1) -> None:
        self._fd = fd

    def fileno(self) -> int:
        return self._fd


@pytest.fixture
def port() -> ScriptedPort:
    return ScriptedPort()


@pytest.fixture
def reactor(port: ScriptedPort) -> Scheduler:
    made = Scheduler(port, clock=VirtualClock())
    made._readiness.keeps = made._readiness.parks = True
    return made


@pytest.fixture
def fd() -> Iterator[int]:
    reader, writer = os.pipe()
    yield reader
    os.close(reader)
    os.close(writer)


def handle(reactor: Scheduler, callback: Callable[..., Any], *args: Any) -> Handle:
    return Handle(callback, args, reactor)  # type: ignore[arg-type]


def pending(port: ScriptedPort, fd: int) -> list[Operation]:
    return [poll for poll in port.polls(fd) if poll.pending]


def leave_when_ready(reactor: Scheduler, port: ScriptedPort, fd: int, owner: Owner) -> None:
    """A reader comes, is told that `fd` is readable, and leaves its registration to the next one of `owner`."""
    reactor._readiness.set_reader(fd, handle(reactor, lambda: reactor._readiness.keep_reader(fd, owner, True)))
    (polling,) = pending(port, fd)
    port.script.append([(polling, READ, False)])
    reactor._completions.submitted = True
    reactor.tick()


def test_nothing_is_in_flight_while_a_registration_is_kept(reactor: Scheduler, port: ScriptedPort, fd: int) -> None:
    leave_when_ready(reactor, port, fd, Owner())
    reactor._completions.polls.rearm()
    assert pending(port, fd) == []


def test_a_reader_that_is_back_is_asked_for_once(reactor: Scheduler, port: ScriptedPort, fd: int) -> None:
    log: list[str] = []
    owner = Owner()
    leave_when_ready(reactor, port, fd, owner)
    assert reactor._readiness.resume_reader(fd, owner, handle(reactor, log.append, "back"))
    reactor._completions.polls.rearm()  # it is among those that have fired twice: by its event, and as it was taken up
    (polling,) = pending(port, fd)
    port.script.append([(polling, READ, False)])
    reactor._completions.submitted = True
    reactor.tick()
    assert log == ["back"]


def test_a_reader_that_is_back_after_a_wait_is_asked_for(reactor: Scheduler, port: ScriptedPort, fd: int) -> None:
    owner = Owner()
    leave_when_ready(reactor, port, fd, owner)
    reactor._completions.polls.rearm()
    assert reactor._readiness.resume_reader(fd, owner, handle(reactor, int))
    reactor._completions.polls.rearm()
    assert len(pending(port, fd)) == 1


def test_another_owner_finds_the_number_unregistered(reactor: Scheduler, port: ScriptedPort, fd: int) -> None:
    owner = Owner(fd)
    leave_when_ready(reactor, port, fd, owner)
    assert not reactor._readiness.resume_reader(fd, Owner(), handle(reactor, int))
    reactor._readiness.set_writer(fd, handle(reactor, int))
    (polling,) = pending(port, fd)
    assert polling.interest == WRITE  # type: ignore[attr-defined]
    assert not reactor._readiness.is_drained(owner)


def test_what_nobody_takes_up_is_forgotten(reactor: Scheduler, port: ScriptedPort, fd: int) -> None:
    owner = Owner()
    leave_when_ready(reactor, port, fd, owner)
    for _ in range(SWEEPS_KEPT):
        reactor._readiness.sweep()
    assert reactor._readiness.lookup(fd) is None
    assert pending(port, fd) == []
    assert not reactor._readiness.resume_reader(fd, owner, handle(reactor, int))


def test_beside_a_writer_nothing_is_kept(reactor: Scheduler, port: ScriptedPort, fd: int) -> None:
    owner = Owner(fd)
    reactor._readiness.set_writer(fd, handle(reactor, int))
    reactor._readiness.set_reader(fd, handle(reactor, int))
    assert not reactor._readiness.keep_reader(fd, owner, True)
    assert not reactor._readiness.is_drained(owner)
    (polling,) = [poll for poll in pending(port, fd) if poll not in port.cancelled]
    assert polling.interest == WRITE  # type: ignore[attr-defined]


def test_a_reader_that_leaves_without_an_event_calls_its_poll_off(
    reactor: Scheduler, port: ScriptedPort, fd: int
) -> None:
    owner = Owner()
    reactor._readiness.set_reader(fd, handle(reactor, int))
    (first,) = pending(port, fd)
    reactor._readiness.keep_reader(fd, owner, False)
    assert port.cancelled == [first]
    assert reactor._readiness.resume_reader(fd, owner, handle(reactor, int))
    reactor._completions.polls.rearm()
    assert [poll for poll in pending(port, fd) if poll is not first] != []
