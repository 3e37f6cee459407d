"""The books of the iocp backend, over a stand-in for Windows whose packets the test posts itself.

What Windows does is tested where Windows is (tests/windows). What is kept of it is the same anywhere: which operation a
packet is for, that each ends once, what is begun again, and what a wait that is left by an exception must not lose.
"""

import errno
import socket
import threading

import pytest

from loopcore.errors import BackendClosedError, UsageError
from loopcore.ports.interest import READ
from loopcore.ports.operations import Accept, Close, Poll, Receive, ReceiveFrom, Send
from loopcore_backends.iocp import WAKE, IocpBackend
from loopcore_backends.iocp.errors import translated


class Call:
    """A call in flight: the test says what comes of it."""

    def __init__(self, key, operation, before):
        self.key, self.operation, self.before = key, operation, before
        self.outcome = None
        self.cancelled = self.dropped = 0

    def result(self):
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome

    def cancel(self):
        self.cancelled += 1

    def drop(self):
        self.dropped += 1


class System:
    """Begins every call, posts what it is told to, and never sleeps."""

    def __init__(self):
        self.calls = []
        self.packets = []
        self.at_once = {}
        self.interrupt = None
        self.waits = []
        self.wakes = 0
        self.closed = False
        self.cancels_complete = True
        self.inside = self.beginning = None

    def knows(self, operation):
        return not isinstance(operation, Close)

    def begin(self, operation, before):
        if operation in self.at_once:
            result = self.at_once[operation]
            if isinstance(result, OSError):
                raise result
            return None, result
        self.calls.append(Call(100 + len(self.calls), operation, before))
        beginning, self.beginning = self.beginning, None
        if beginning is not None:
            beginning()
        return self.calls[-1], None

    def take(self, timeout_ms):
        self.waits.append(timeout_ms)
        if self.interrupt is not None:
            interrupt, self.interrupt = self.interrupt, None
            raise interrupt
        inside, self.inside = self.inside, None
        if inside is not None:
            inside()
        if self.cancels_complete:
            for call in self.calls:
                if call.cancelled and call.outcome is None:
                    call.outcome = aborted()
                    self.packets.append(call.key)
        return self.packets

    def wake(self):
        self.wakes += 1
        self.packets.append(WAKE)

    def close(self):
        self.closed = True

    def post(self, number, outcome):
        self.calls[number].outcome = outcome
        self.packets.append(self.calls[number].key)


def aborted():
    return windows_error(995)


def windows_error(code):
    error = OSError(0, "as Windows says it")
    error.winerror = code
    return error


@pytest.fixture
def system():
    return System()


@pytest.fixture
def backend(system):
    backend = IocpBackend(lambda: system)
    yield backend
    backend.close()


def test_a_packet_ends_its_own_operation_and_no_other(backend, system):
    first, second = Send(1), Send(1)
    backend.submit(first)
    backend.submit(second)
    system.post(1, 5)
    assert list(backend.wait(0.0)) == [(second, 5, False)]
    assert second.slot is None
    assert first.slot is not None


def test_what_is_done_at_once_is_told_by_the_next_wait_which_does_not_sleep(backend, system):
    done, refused = Send(1), Send(2)
    system.at_once = {done: 3, refused: OSError(errno.EBADF, "no")}
    backend.submit(done)
    backend.submit(refused)
    (one, two) = backend.wait(None)
    assert one == (done, 3, False)
    assert (two[0], two[1].errno, two[2]) == (refused, errno.EBADF, False)
    assert system.waits == [0]


def test_a_multishot_operation_is_begun_again_by_the_next_wait_only(backend, system):
    receive = Receive(1, 100)
    backend.submit(receive)
    system.post(0, b"data")
    assert list(backend.wait(0.0)) == [(receive, b"data", True)]
    assert len(system.calls) == 1
    backend.wait(0.0)
    assert len(system.calls) == 2
    assert system.calls[1].before is system.calls[0]


def test_datagrams_and_connections_are_taken_several_in_a_wait(backend, system):
    begin = system.begin

    def begin_and_post(operation, before):
        begun = begin(operation, before)
        if len(system.calls) <= 5:
            system.post(len(system.calls) - 1, len(system.calls))
        return begun

    system.begin = begin_and_post
    datagrams = ReceiveFrom(1, 9)
    backend.submit(datagrams)
    assert list(backend.wait(0.0)) == [(datagrams, number, True) for number in range(1, 6)]
    assert len(system.calls) == 6


def test_cancelling_between_two_calls_ends_it_without_one(backend, system):
    operation = Receive(1, 9)
    backend.submit(operation)
    system.post(0, b"x")
    backend.wait(0.0)
    backend.cancel(operation)
    ((ended, result, more),) = backend.wait(0.0)
    assert (ended, result.errno, more) == (operation, errno.ECANCELED, False)
    assert len(system.calls) == 1


def test_a_cancelled_call_ends_with_its_packet_and_once(backend, system):
    send = Send(1)
    backend.submit(send)
    backend.cancel(send)
    backend.cancel(send)
    ((ended, result, more),) = backend.wait(None)
    assert (ended, result.errno, more) == (send, errno.ECANCELED, False)
    assert system.calls[0].cancelled == 1
    assert list(backend.wait(0.0)) == []


def test_a_cancellation_that_comes_too_late_leaves_the_result(backend, system):
    receive = Receive(1, 100)
    backend.submit(receive)
    system.post(0, b"in time")
    backend.cancel(receive)
    assert list(backend.wait(0.0)) == [(receive, b"in time", False)]


def test_the_end_of_the_stream_is_terminal_and_an_empty_datagram_is_not(backend, system):
    receive, datagrams = Receive(1, 100), ReceiveFrom(2, 100)
    backend.submit(receive)
    backend.submit(datagrams)
    system.post(0, b"")
    system.post(1, (b"", ("127.0.0.1", 9)))
    assert set(backend.wait(0.0)) == {(receive, b"", False), (datagrams, (b"", ("127.0.0.1", 9)), True)}


def test_a_connection_that_is_gone_before_it_is_accepted_does_not_end_accepting(backend, system):
    accept = Accept(1)
    backend.submit(accept)
    system.post(0, windows_error(64))
    assert list(backend.wait(0.0)) == []
    backend.wait(0.0)
    assert len(system.calls) == 2
    assert accept.slot is not None


def test_a_wait_that_a_signal_ends_loses_no_packet(backend, system):
    send = Send(1)
    backend.submit(send)
    system.post(0, 7)
    system.interrupt = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        backend.wait(None)
    assert list(backend.wait(None)) == [(send, 7, False)]


def test_wakes_are_one_packet_until_it_is_taken(backend, system):
    backend.wake()
    backend.wake()
    assert system.wakes == 1
    assert list(backend.wait(None)) == []
    backend.wake()
    assert system.wakes == 2


def test_a_wait_is_rounded_up_to_milliseconds(backend, system):
    backend.wait(0.0)
    backend.wake()
    backend.wait(0.0101)
    assert system.waits[0] == 0
    assert system.waits[1] == 11


def test_submitting_twice_is_refused_and_so_is_what_it_cannot_do(backend, system):
    send = Send(1)
    backend.submit(send)
    with pytest.raises(ValueError, match="in flight already"):
        backend.submit(send)
    with pytest.raises(UsageError, match="CLOSE"):
        backend.submit(Close(1))


def test_close_returns_what_had_not_ended_once_and_drops_it(system):
    backend = IocpBackend(lambda: system)
    send, between, poll = Send(1), Receive(2, 9), Poll(3, READ)
    for operation in (send, between, poll):
        backend.submit(operation)
    system.post(1, b"x")
    backend.wait(0.0)
    assert set(backend.close()) == {send, between, poll}
    assert list(backend.close()) == []
    assert [operation.slot for operation in (send, between, poll)] == [None] * 3
    assert [call.dropped for call in system.calls] == [1, 0, 1]
    assert system.closed
    backend.wake()
    with pytest.raises(BackendClosedError):
        backend.wait(0.0)


def test_close_closes_a_connection_that_nobody_will_get(system):
    backend = IocpBackend(lambda: system)
    one, other = socket.socketpair()
    accept = Accept(1)
    system.at_once = {accept: one.detach()}
    backend.submit(accept)
    assert list(backend.close()) == [accept]
    with other:
        assert other.recv(1) == b""


def test_errors_are_said_in_winsocks_words():
    assert translated(windows_error(2)).winerror == 2
    assert translated(windows_error(6)).errno == translated(windows_error(10038)).errno == errno.EBADF
    plain = OSError(errno.EBADF, "no")
    assert translated(plain) is plain


# Finalizers, signal handlers and other threads (issue 32)


def test_cancel_inside_a_wait_is_carried_out_there_and_ends_it(backend, system):
    operation = Receive(3, 100)
    backend.submit(operation)
    system.inside = lambda: backend.cancel(operation)
    assert backend.wait(None) == []
    [(ended, result, more)] = backend.wait(0.0)
    assert (ended, result.errno, more) == (operation, errno.ECANCELED, False)


def test_cancel_in_another_thread_is_a_request(backend, system):
    operation = Receive(3, 100)
    backend.submit(operation)
    backend.wait(0.0)
    thread = threading.Thread(target=backend.cancel, args=(operation,))
    thread.start()
    thread.join()
    assert system.wakes == 1
    assert not system.calls[0].cancelled
    backend.wait(None)
    assert system.calls[0].cancelled == 1


def test_cancel_while_the_next_call_begins_ends_the_operation_once(backend, system):
    operation = Accept(3)
    backend.submit(operation)
    system.post(0, socket.socket().detach())
    system.beginning = lambda: backend.cancel(operation)
    [(_, accepted, _)] = backend.wait(0.0)
    socket.close(accepted)
    assert system.beginning is None
    ended = [*backend.wait(0.0), *backend.wait(0.0), *backend.wait(0.0)]
    assert [(each, more) for each, _, more in ended] == [(operation, False)]


def test_close_inside_a_submit_leaves_the_operation_to_the_next_close(backend, system):
    """The operation is accepted, so it must not be lost (issue 32)."""
    operation, returned, begin = Receive(3, 100), [], system.begin

    def close_and_begin(*arguments):
        returned.extend(backend.close())
        return begin(*arguments)

    system.begin = close_and_begin
    backend.submit(operation)
    assert returned == []
    assert [*backend.close()] == [operation]
    assert [*backend.close()] == []
    assert system.closed


def test_close_inside_a_wait_ends_the_wait_and_leaves_the_operations_to_the_next_close(backend, system):
    operation = Receive(3, 100)
    returned = []
    backend.submit(operation)
    system.inside = lambda: returned.extend(backend.close())
    assert [*backend.wait(None)] == []
    assert returned == []
    assert [*backend.close()] == [operation]
    assert system.closed
    assert system.calls[0].dropped == 1
