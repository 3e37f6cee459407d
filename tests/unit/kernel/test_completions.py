"""The kernel over a completion port: what is told, to whom, and what becomes of it when a tick is cut short."""

import errno
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from loopcore.errors import BackendError
from loopcore.kernel.handle import Handle
from loopcore.kernel.limits import POLL_SKIP_TICKS
from loopcore.kernel.scheduler import Scheduler
from loopcore.ports.interest import ERROR, READ, WRITE
from loopcore.ports.operations import Accept, Close, Open, Receive
from loopcore.testing import ScriptedPort, VirtualClock


@pytest.fixture
def port() -> ScriptedPort:
    return ScriptedPort()


@pytest.fixture
def reactor(port: ScriptedPort) -> Scheduler:
    return Scheduler(port, clock=VirtualClock())


@pytest.fixture
def fd() -> Iterator[int]:
    reader, writer = os.pipe()
    yield reader
    os.close(reader)
    os.close(writer)


def handle(reactor: Scheduler, callback: Callable[..., Any], *args: Any) -> Handle:
    return Handle(callback, args, reactor)  # type: ignore[arg-type]


def receive(reactor: Scheduler, log: list[Any], each: Callable[[Any], Any] = lambda result: None) -> Receive:
    """A Receive whose target notes each result, and then calls `each` with it."""
    operation = Receive(7, 100)

    def told() -> None:
        result = operation.result
        log.append(result)
        each(result)

    operation.target = handle(reactor, told)
    return operation


def test_target_runs_once_for_each_completion(reactor: Scheduler, port: ScriptedPort) -> None:
    log: list[Any] = []
    operation = receive(reactor, log)
    reactor._completions.submit(operation)
    port.script.append([(operation, b"one", True), (operation, b"two", True)])
    reactor.tick()
    assert log == [b"one", b"two"]
    assert operation.pending
    port.script.append([(operation, b"", False)])
    reactor._completions.submitted = True
    reactor.tick()
    assert log == [b"one", b"two", b""]
    assert not operation.pending


def test_operation_that_the_port_refuses_is_not_pending(reactor: Scheduler, port: ScriptedPort) -> None:
    operation = receive(reactor, [])
    port.refuse = ValueError("in flight")
    with pytest.raises(ValueError, match="in flight"):
        reactor._completions.submit(operation)
    assert not operation.pending


def test_what_was_submitted_is_not_kept_waiting_by_ready_callbacks(reactor: Scheduler, port: ScriptedPort) -> None:
    def again() -> None:
        reactor.call_soon(again)

    again()
    for _ in range(POLL_SKIP_TICKS // 2):
        reactor.tick()
    before = len(port.timeouts)
    reactor._completions.submit(receive(reactor, []))
    reactor.tick()
    assert before == 0, "nothing was submitted yet, so there was nothing to poll for"
    assert port.timeouts == [0.0]
    reactor.tick()
    assert port.timeouts == [0.0, 0.0], "what is in flight may have completed"


def test_one_tick_after_an_idle_wait_is_without_a_poll(reactor: Scheduler, port: ScriptedPort) -> None:
    operation = receive(reactor, [])
    reactor._completions.submit(operation)
    operation.target = Handle(reactor.call_soon, (int,), reactor)
    port.script.append([(operation, b"one", True)])
    reactor.tick()
    assert port.timeouts == [None]
    reactor.tick()
    assert port.timeouts == [None]
    reactor.call_soon(int)
    reactor.tick()
    assert port.timeouts == [None, 0.0]


def test_cancel_is_not_kept_waiting_by_ready_callbacks(reactor: Scheduler, port: ScriptedPort) -> None:
    log: list[Any] = []
    operation = receive(reactor, log)
    reactor._completions.submit(operation)
    reactor.call_soon(int)
    reactor.tick()
    reactor.call_soon(int)
    reactor._completions.cancel(operation)
    reactor.tick()
    assert [result.errno for result in log] == [errno.ECANCELED]


def test_cancel_of_what_is_not_pending_does_not_reach_the_port(reactor: Scheduler, port: ScriptedPort) -> None:
    operation = receive(reactor, [])
    reactor._completions.cancel(operation)
    assert port.calls == []


def test_operation_cancelled_between_wait_and_dispatch_is_told_what_it_had(
    reactor: Scheduler, port: ScriptedPort
) -> None:
    """Its completion is collected already: it comes, and the port has nothing left to end."""
    log: list[Any] = []
    second = receive(reactor, log)
    first = receive(reactor, log, lambda result: reactor._completions.cancel(second))
    for operation in (first, second):
        reactor._completions.submit(operation)
    port.script.append([(first, b"", False), (second, b"", False)])
    reactor.tick()
    assert log == [b"", b""]
    assert not port.in_flight
    assert not second.pending


def test_operation_may_be_submitted_again_by_its_own_target(reactor: Scheduler, port: ScriptedPort) -> None:
    log: list[Any] = []
    operation = receive(reactor, log, lambda result: reactor._completions.submit(operation) if result else None)
    reactor._completions.submit(operation)
    for result in (b"one", b"two", b""):
        port.script.append([(operation, result, False)])
        reactor.tick()
    assert log == [b"one", b"two", b""]
    assert not operation.pending


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_completions_behind_an_interruption_come_with_the_next_tick(
    reactor: Scheduler, port: ScriptedPort, interruption: type[BaseException]
) -> None:
    log: list[Any] = []

    def leave(result: Any) -> None:
        raise interruption

    operations = [receive(reactor, log), receive(reactor, log, leave), receive(reactor, log), receive(reactor, log)]
    for operation in operations:
        reactor._completions.submit(operation)
    port.script.append([(operation, b"%d" % number, False) for number, operation in enumerate(operations)])
    with pytest.raises(interruption):
        reactor.tick()
    assert log == [b"0", b"1"]
    assert [operation.pending for operation in operations] == [False, False, True, True]
    newcomer = receive(reactor, log)
    reactor._completions.submit(newcomer)
    port.script.append([(newcomer, b"new", False)])
    reactor.tick()
    assert log == [b"0", b"1", b"2", b"3", b"new"]
    assert port.timeouts[-1] == 0.0, "with completions left over, the port is only looked at"


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_completions_of_a_tick_that_ends_before_its_io_phase_come_with_the_next(
    reactor: Scheduler, port: ScriptedPort, interruption: type[BaseException]
) -> None:
    def interrupt() -> None:
        raise interruption

    log: list[Any] = []
    operation = receive(reactor, log)
    reactor._completions.submit(operation)
    port.script += [[(operation, b"first", True)], [(operation, b"second", True)]]
    reactor.call_soon(interrupt)
    with pytest.raises(interruption):
        reactor.tick()
    assert log == []
    reactor.tick()
    assert log == [b"first", b"second"]


def test_completions_of_a_tick_in_whose_middle_another_begins_are_told_once(
    reactor: Scheduler, port: ScriptedPort
) -> None:
    log: list[Any] = []
    operation = receive(reactor, log)
    reactor._completions.submit(operation)
    port.script += [[(operation, b"outer", True)], [(operation, b"inner", True)]]

    def nested() -> None:
        reactor.poll_skip_ticks = 0
        reactor.call_soon(int)
        reactor.tick()

    reactor.call_soon(nested)
    reactor.tick()
    reactor.call_soon(int)
    reactor.tick()
    assert log == [b"outer", b"inner"]


class Careless(ScriptedPort):
    """Returns `given`, whatever it is."""

    given: Any = ()

    def wait(self, timeout: float | None) -> Any:
        given, self.given = self.given, ()
        return given


@pytest.mark.parametrize(
    "broken",
    [
        lambda operation: None,
        lambda operation: (),
        lambda operation: (None, b"", False),
        lambda operation: (operation, b""),
        lambda operation: (operation, b"", False, 1),
    ],
)
def test_what_is_no_completion_ends_the_run_once(broken: Callable[[Any], Any]) -> None:
    port = Careless()
    reactor = Scheduler(port, clock=VirtualClock())
    log: list[Any] = []
    bad, good = receive(reactor, log), receive(reactor, log)
    reactor._completions.submit(bad)
    reactor._completions.submit(good)
    port.given = [broken(bad), (good, b"good", False)]
    with pytest.raises(BackendError, match=r"^backend 'scripted' returned a malformed completion"):
        reactor.tick()
    assert log == []
    reactor._completions.submitted = True
    reactor.tick()
    assert log == [b"good"]


def test_descriptor_whose_close_was_done_is_not_closed_again_with_the_loop(
    reactor: Scheduler, port: ScriptedPort
) -> None:
    one, other = socket.socketpair()
    operation = Close(one.fileno(), handle(reactor, int))
    reactor._completions.submit(operation)
    port.script.append([(operation, None, False)])
    reactor._completions.begin()
    reactor._close_scheduler()
    one.getsockname()  # stands for a file that has got the number since
    one.close()
    other.close()


def test_wait_that_is_interrupted_keeps_what_was_left_over(reactor: Scheduler, port: ScriptedPort) -> None:
    log: list[Any] = []
    operation = receive(reactor, log)
    reactor._completions.submit(operation)
    port.in_flight.remove(operation)
    reactor._completions.late.append((operation, b"late", False))
    port.interrupt = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        reactor.tick()
    assert log == []
    reactor._completions.submitted = True
    reactor.tick()
    assert log == [b"late"]


def test_wait_that_is_interrupted_is_made_again_in_the_next_tick(reactor: Scheduler, port: ScriptedPort) -> None:
    """What was submitted before it may have begun or not: the port begins it with a wait at the latest."""
    reactor._completions.submit(receive(reactor, []))
    port.interrupt = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        reactor._completions.wait(0.0)
    assert reactor._completions.submitted
    reactor._completions.wait(0.0)
    assert not reactor._completions.submitted


@pytest.mark.reports_errors
def test_port_that_fails_after_a_run_that_failed_is_told_of(
    reactor: Scheduler, port: ScriptedPort, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupt() -> None:
        reactor._completions.submit(receive(reactor, []))
        port.interrupt = OSError("the port")
        raise KeyboardInterrupt

    reactor.call_soon(interrupt)
    with pytest.raises(KeyboardInterrupt):
        reactor._run_ticks()
    assert "OSError: the port" in caplog.text


def test_close_makes_what_was_in_flight_no_longer_pending(reactor: Scheduler, port: ScriptedPort) -> None:
    log: list[Any] = []
    operation, late = receive(reactor, log), receive(reactor, log)
    for each in (operation, late):
        reactor._completions.submit(each)
    port.in_flight.remove(late)
    reactor._completions.late.append((late, b"late", False))
    reactor._close_scheduler()
    assert not operation.pending
    assert not late.pending
    assert log == []


def test_close_closes_a_connection_that_nobody_was_told_of(reactor: Scheduler, port: ScriptedPort) -> None:
    accepting = Accept(7)
    reactor._completions.submit(accepting)
    one, other = socket.socketpair()
    with other:
        other.settimeout(30.0)
        reactor._completions.late.append((accepting, one.detach(), True))
        reactor._close_scheduler()
        assert other.recv(1) == b""


def test_close_closes_a_file_that_nobody_was_told_of(reactor: Scheduler, port: ScriptedPort) -> None:
    opening = Open(b"a file", os.O_RDONLY, 0)
    reactor._completions.submit(opening)
    port.in_flight.remove(opening)
    reader, writer = os.pipe()
    os.close(writer)
    reactor._completions.late.append((opening, reader, False))
    reactor._close_scheduler()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(reader)


def test_port_is_closed_although_a_waiting_completion_is_none(reactor: Scheduler, port: ScriptedPort) -> None:
    operation = receive(reactor, [])
    reactor._completions.submit(operation)
    reactor._completions.late.append((None, b"", False))  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        reactor._close_scheduler()
    assert port.in_flight == []
    assert not operation.pending


def test_cancel_after_close_does_nothing(reactor: Scheduler, port: ScriptedPort) -> None:
    operation = receive(reactor, [])
    reactor._completions.submit(operation)
    reactor._close_scheduler()
    operation.pending = True
    before = len(port.calls)
    reactor._completions.cancel(operation)
    assert len(port.calls) == before


# Readiness over completions


def watch(reactor: Scheduler, fd: int, log: list[Any], each: Callable[[], Any] = int) -> None:
    def ready() -> None:
        log.append(fd)
        each()

    reactor._readiness.set_reader(fd, handle(reactor, ready))


def fire(reactor: Scheduler, port: ScriptedPort, fd: int, result: Any = READ) -> None:
    """Let the Poll of `fd` end with `result`, and run a tick."""
    (polling,) = port.polls(fd)
    port.script.append([(polling, result, False)])
    reactor._completions.submitted = True
    reactor.tick()


def test_descriptor_that_stays_ready_is_reported_by_every_wait(reactor: Scheduler, port: ScriptedPort, fd: int) -> None:
    log: list[Any] = []
    watch(reactor, fd, log)
    for _ in range(3):
        fire(reactor, port, fd)
        reactor._completions.polls.rearm()
    assert log == [fd] * 3
    assert len(port.polls(fd)) == 1


def test_descriptor_is_asked_for_again_only_after_its_callback(reactor: Scheduler, port: ScriptedPort, fd: int) -> None:
    in_flight: list[Any] = []
    watch(reactor, fd, [], lambda: in_flight.append(port.polls(fd)))
    fire(reactor, port, fd)
    assert in_flight == [[]]


def test_descriptor_that_is_no_longer_watched_is_not_asked_for(reactor: Scheduler, port: ScriptedPort, fd: int) -> None:
    watch(reactor, fd, [], lambda: reactor._readiness.clear_reader(fd))
    fire(reactor, port, fd)
    reactor._completions.polls.rearm()
    assert port.polls(fd) == []


def test_event_of_a_registration_that_is_gone_is_dropped(reactor: Scheduler, port: ScriptedPort, fd: int) -> None:
    """A callback of the same tick removes the reader, and another one comes in its place: that one was not ready."""
    log: list[Any] = []
    watch(reactor, fd, log)
    (stale,) = port.polls(fd)
    reactor._readiness.clear_reader(fd)
    watch(reactor, fd, log)
    port.cancelled.clear()
    port.script.append([(stale, READ, False)])
    reactor._completions.submitted = True
    reactor.tick()
    assert log == []
    fire(reactor, port, fd)
    assert log == [fd]


def test_poll_that_ends_with_an_error_lets_the_callback_find_out(
    reactor: Scheduler, port: ScriptedPort, fd: int
) -> None:
    log: list[Any] = []
    watch(reactor, fd, log)
    fire(reactor, port, fd, OSError(errno.EIO, "broken"))
    assert log == [fd]
    reactor._completions.polls.rearm()
    assert len(port.polls(fd)) == 1, "a descriptor is given up only where it is closed"


def test_error_is_for_both_directions(reactor: Scheduler, port: ScriptedPort, fd: int) -> None:
    log: list[Any] = []
    watch(reactor, fd, log)
    reactor._readiness.set_writer(fd, handle(reactor, log.append, "writer"))
    port.cancelled.clear()
    port.in_flight = port.in_flight[-1:]
    fire(reactor, port, fd, ERROR)
    assert log == [fd, "writer"]


def test_change_of_interest_replaces_the_poll(reactor: Scheduler, port: ScriptedPort, fd: int) -> None:
    watch(reactor, fd, [])
    reactor._readiness.set_writer(fd, handle(reactor, int))
    old, new = port.polls(fd)
    assert port.cancelled == [old]
    assert (old.interest, new.interest) == (READ, READ | WRITE)


def test_number_that_is_no_descriptor_cannot_be_watched(reactor: Scheduler, port: ScriptedPort) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)
    with pytest.raises(OSError, match="Bad file descriptor"):
        watch(reactor, writer, [])
    assert port.calls == []


def test_number_that_was_closed_and_is_in_use_again_is_watched_again(
    reactor: Scheduler, port: ScriptedPort, fd: int
) -> None:
    log: list[Any] = []
    watch(reactor, fd, log)
    fire(reactor, port, fd, OSError(errno.EBADF, "closed without a word"))
    assert not [poll for poll in port.polls(fd) if poll.pending]
    reactor._readiness.set_writer(fd, handle(reactor, log.append, "writer"))  # the number is somebody else's by now
    (poll,) = [poll for poll in port.polls(fd) if poll.pending]
    assert poll.interest == READ | WRITE


def test_number_that_was_closed_and_unregistered_is_watched_like_any_other(
    reactor: Scheduler, port: ScriptedPort, fd: int
) -> None:
    watch(reactor, fd, [])
    fire(reactor, port, fd, OSError(errno.EBADF, "closed without a word"))
    reactor._readiness.clear_reader(fd)
    watch(reactor, fd, [])
    (first,) = port.polls(fd)
    reactor._readiness.set_writer(fd, handle(reactor, int))
    assert port.cancelled == [first], "its Poll is replaced, not left beside the new one"


def test_none_is_no_operation(reactor: Scheduler, port: ScriptedPort) -> None:
    for call in (reactor._completions.submit, reactor._completions.cancel, reactor._flush_this_tick):
        with pytest.raises(TypeError, match="not None"):
            call(None)  # type: ignore[arg-type]
    assert port.calls == []
