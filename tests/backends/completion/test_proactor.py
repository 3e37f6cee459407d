"""What is the proactor's own: what it stands on, when it changes registrations, and numbers nobody cancelled for."""

import errno
import os
import socket

import pytest

from loopcore.errors import BackendClosedError, BackendUnavailableError, UsageError
from loopcore.ports.interest import READ, WRITE
from loopcore.ports.operations import Accept, Connect, Poll, Read, Receive, Send, SendTo
from loopcore.testing.conformance.ledger import Ledger
from loopcore_backends.poll_ import PollBackend
from loopcore_backends.proactor import ProactorBackend, _associations
from loopcore_backends.proactor._port import CompletionPort
from loopcore_backends.proactor._registrations import GRACE
from loopcore_backends.select_ import SelectBackend

pytestmark = pytest.mark.skipif(not PollBackend.probe().available, reason="counts on poll(2)")


class Counting(PollBackend):
    """Notes what it is asked, beside waiting."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def register(self, fd, interest):
        self.calls.append("register")
        super().register(fd, interest)

    def modify(self, fd, interest):
        self.calls.append("modify")
        super().modify(fd, interest)

    def unregister(self, fd):
        self.calls.append("unregister")
        super().unregister(fd)

    def taken(self):
        calls, self.calls = self.calls, []
        return calls


@pytest.fixture
def counting():
    return Counting()


@pytest.fixture
def port(counting):
    made = ProactorBackend(over=counting)
    yield made
    made.close()


def test_operation_submitted_while_another_is_registered_is_watched_as_well(port, counting, make_pair, monkeypatch):
    """A finalizer or a signal handler may submit at any moment of a wait (issue 32)."""
    (one, _), (two, peer) = make_pair(), make_pair()
    late = Receive(two.fileno(), 100)
    register = counting.register

    def register_and_submit(fd, interest):
        register(fd, interest)
        if fd == one.fileno():
            port.submit(late)

    monkeypatch.setattr(counting, "register", register_and_submit)
    port.submit(Receive(one.fileno(), 100))
    port.wait(0.0)
    peer.send(b"x")
    assert [(operation, result) for operation, result, _ in port.wait(5.0)] == [(late, b"x")]


def test_it_stands_on_what_it_is_told():
    for over in ("poll", "select", SelectBackend()):
        port = ProactorBackend(over=over)
        assert port.over == (over if isinstance(over, str) else "select")
        port.close()


@pytest.mark.parametrize("name", ["pol", ""])
def test_name_that_is_none_is_an_error(name):
    with pytest.raises(UsageError, match=f"over='{name}': the proactor can run on .*not on '{name}'"):
        ProactorBackend(name)


def test_multiplexer_that_cannot_run_here_is_an_error(monkeypatch):
    monkeypatch.setattr(PollBackend, "probe", classmethod(lambda cls: (False, "no poll here")))
    with pytest.raises(BackendUnavailableError, match="no poll here"):
        ProactorBackend("poll")


def test_receive_is_registered_once(ledger, counting, pair):
    receiving = Receive(pair[0].fileno(), 100)
    ledger.submit(receiving)
    for _ in range(10):
        pair[1].send(b"x")
        ledger.result_of(receiving)
    assert counting.taken() == ["register"]
    ledger.cancel(receiving)
    assert counting.taken() == ["unregister"]


def test_send_that_does_not_wait_is_not_registered(ledger, counting, pair):
    sending = Send(pair[0].fileno())
    sending.buffers = [b"x"]
    for _ in range(10):
        ledger.outcome_of(sending)
    assert counting.taken() == []


def test_poll_that_is_submitted_again_stays_registered(ledger, counting, pair):
    polling = Poll(pair[0].fileno(), READ)
    pair[1].send(b"x")
    for _ in range(10):
        ledger.outcome_of(polling)
    assert counting.taken() == ["register"] + ["modify"] * 9


def test_descriptor_that_is_read_again_soon_stays_registered(ledger, counting, pair):
    reading = Read(pair[0].fileno(), 100)
    for _ in range(5):
        pair[1].send(b"x")
        ledger.outcome_of(reading)
        ledger.wait(0.0)
        ledger.wait(0.0)
    assert counting.taken() == ["register"] + ["modify"] * 4


def test_idle_descriptor_is_dropped_after_some_waits(ledger, counting, pair):
    reading = Read(pair[0].fileno(), 100)
    pair[1].send(b"x")
    ledger.outcome_of(reading)
    for _ in range(GRACE + 2):
        ledger.wait(0.0)
    assert counting.taken() == ["register", "unregister"]


def test_idle_descriptor_that_fires_is_dropped(ledger, counting, pair):
    reading = Read(pair[0].fileno(), 100)
    pair[1].send(b"x")
    ledger.outcome_of(reading)
    ledger.wait(0.0)
    pair[1].send(b"y")
    ledger.wait(0.0)
    assert counting.taken() == ["register", "unregister"]
    assert ledger.outcome_of(reading) == b"y"


def test_descriptor_that_would_fire_all_the_time_is_not_kept(ledger, counting, pair):
    ledger.outcome_of(Poll(pair[0].fileno(), WRITE))
    ledger.wait(0.0)
    assert counting.taken() == ["register", "unregister"]


def test_what_comes_and_goes_between_two_waits_is_not_registered(ledger, counting, pair):
    receiving = Receive(pair[0].fileno(), 100)
    ledger.submit(receiving)
    ledger.cancel(receiving)
    ledger.settle()
    assert counting.taken() == []


@pytest.mark.skipif(os.name != "posix", reason="a SOCKET cannot be told from another")
@pytest.mark.parametrize("over", ["epoll", "poll", "select"])
def test_number_closed_without_a_cancel_does_not_serve_the_old_operation(over):
    """The owner's mistake; still the bytes of the new file are not his."""
    try:
        port = ProactorBackend(over)
    except BackendUnavailableError as exc:
        pytest.skip(str(exc))
    ledger = Ledger(port)
    one, other = socket.socketpair()
    one.setblocking(False)
    number = one.fileno()
    old, new = Receive(number, 100), Receive(number, 100)
    ledger.submit(old)
    ledger.wait(0.0)
    one.close()
    fresh, peer = socket.socketpair()
    assert fresh.fileno() == number
    fresh.setblocking(False)
    ledger.submit(new)
    peer.send(b"for the new one")
    assert ledger.result_of(new) == b"for the new one"
    assert ledger.result_of(old).errno == errno.EBADF
    port.close()
    for end in (other, fresh, peer):
        end.close()


def test_wake_during_the_last_lines_of_a_wait_ends_the_next():
    timeouts = []

    class Multiplexer(SelectBackend):
        def wait(self, timeout):
            timeouts.append(timeout)
            if len(timeouts) == 1:
                port.wake()  # too late for this wait
            return []

        def wake(self):
            pass

    port = CompletionPort(Multiplexer(), "proactor")
    port.dequeue(None)
    port.dequeue(None)
    assert timeouts == [None, 0.0]
    port.close()


def test_negative_timeout_only_looks(port):
    assert list(port.wait(-1.0)) == []


def test_mistake_that_shows_when_its_turn_has_come_ends_the_operation_and_no_wait(port, pair):
    near, far = pair
    blocked, mistaken = Send(near.fileno()), SendTo(near.fileno(), b"data", object())
    blocked.buffers = [bytes(4 << 20)]
    port.submit(blocked)
    port.submit(mistaken)
    told = {}
    while len(told) < 2:
        try:
            far.recv(1 << 20)
        except BlockingIOError:
            pass
        told.update({operation: result for operation, result, _ in port.wait(0.01)})
    assert told[blocked] == 4 << 20
    assert told[mistaken].errno == errno.EINVAL


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_unbound_socket_is_connected_where_it_has_no_name_yet(monkeypatch, family, host):
    """On Windows getsockname(2) fails before a socket is bound, and a socket object takes its family from there."""
    monkeypatch.setattr(_associations, "UNBOUND_HAS_NO_NAME", True)

    class Nameless(_associations.Borrowed):
        def __init__(self, family=-1, type=-1, proto=-1, fileno=None):  # noqa: A002 - socket's
            if family == -1:
                raise OSError(errno.EINVAL, "not bound")
            super().__init__(family, type, proto, fileno)

    monkeypatch.setattr(_associations, "Borrowed", Nameless)
    port = ProactorBackend(over="select")
    try:
        ledger = Ledger(port)
        with socket.socket(family) as listener, socket.socket(family) as client:
            listener.bind((host, 0))
            listener.listen()
            client.setblocking(False)
            assert ledger.outcome_of(Connect(client.fileno(), listener.getsockname()[:2])) is None
            assert client.getpeername() == listener.getsockname()
    finally:
        port.close()


def test_connection_that_was_aborted_ends_its_accept_and_keeps_no_wait(monkeypatch):
    tries = []

    class Aborting(_associations.Borrowed):
        def _accept(self):
            tries.append(self)
            assert len(tries) < 100
            raise ConnectionAbortedError(errno.ECONNABORTED, os.strerror(errno.ECONNABORTED))

    monkeypatch.setattr(_associations, "Borrowed", Aborting)
    port = ProactorBackend(over="select")
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()):
            listener.setblocking(False)
            assert Ledger(port).outcome_of(Accept(listener.fileno())).errno == errno.ECONNABORTED
            assert len(tries) == 1
    finally:
        port.close()


def test_connection_that_was_not_handed_out_is_closed_with_the_port(monkeypatch):
    accepted = []

    class Interrupted(_associations.Borrowed):
        def _accept(self):
            if accepted:
                raise KeyboardInterrupt
            accepted.append(super()._accept())
            return accepted[0]

    monkeypatch.setattr(_associations, "Borrowed", Interrupted)
    port = ProactorBackend(over="select")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        with (
            socket.create_connection(listener.getsockname(), timeout=5.0) as client,
            socket.create_connection(listener.getsockname(), timeout=5.0),
        ):
            port.submit(Accept(listener.fileno()))
            with pytest.raises(KeyboardInterrupt):
                port.wait(5.0)
            port.close()
            assert client.recv(1) == b""


def test_close_inside_a_cancel_leaves_the_operation_to_the_next_close(pair):
    """A finalizer may close at any moment (issue 32)."""
    returned = []

    class Closing(SelectBackend):
        def unregister(self, fd):
            returned.extend(port.close())
            super().unregister(fd)

    port = ProactorBackend(Closing())
    receiving = Receive(pair[0].fileno(), 100)
    port.submit(receiving)
    port.wait(0.0)
    port.cancel(receiving)
    assert [*returned, *port.close()] == [receiving]
    with pytest.raises(BackendClosedError):
        port.wait(0.0)
