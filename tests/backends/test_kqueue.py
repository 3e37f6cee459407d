"""What only the kqueue backend does: what it makes of what a kqueue tells and refuses, on every dialect.

The fake of `fake_kqueue` is put into `select` for each test, so that these run on every Linux. The contract of all
backends runs on it too when LOOPCORE_TEST_KQUEUE says so: see `kqueues.py`.
"""

import errno
import os
import select
import socket
import subprocess
import sys

import pytest

from loopcore.errors import BackendClosedError
from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore_backends import kqueue
from tests.backends.fake_kqueue import channel, descriptors
from tests.backends.fake_kqueue.dialects import DIALECTS
from tests.backends.fake_kqueue.queue import names
from tests.backends.kqueues import ROOT, VARIABLE

ADD, DELETE, FAILED = 0x0001, 0x0002, 0x4000


@pytest.fixture(params=DIALECTS)
def dialect(request):
    """The system whose ways the fake has."""
    return DIALECTS[request.param]


@pytest.fixture
def fake(dialect, monkeypatch):
    """`select.kqueue`, whose `faults` can be set."""
    for name, thing in names(dialect).items():
        monkeypatch.setattr(select, name, thing, raising=False)
    return select.kqueue


@pytest.fixture
def backend(fake):
    made = kqueue.KqueueBackend()
    yield made
    made.close()


@pytest.fixture
def broken_pipe():
    """The writing end of a pipe that has lost its reader."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def test_probe_agrees_where_there_is_one(fake):
    assert kqueue.KqueueBackend.probe() == (True, "")


def test_refused_connection_is_an_error_and_stays_with_its_socket(backend):
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    listener.close()
    with socket.socket() as sock:
        sock.setblocking(False)
        sock.connect_ex(address)
        backend.register(sock.fileno(), WRITE)
        assert list(backend.wait(None)) == [(sock.fileno(), WRITE | HANGUP | ERROR)]
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
        backend.unregister(sock.fileno())


def test_half_closed_peer_does_not_hang_up_on_the_writer(backend, make_pair, fill):
    one, other = make_pair()
    fill(one)
    backend.register(one.fileno(), READ | WRITE)
    other.shutdown(socket.SHUT_WR)
    assert list(backend.wait(None)) == [(one.fileno(), READ)]


def test_short_lists_report_everybody_in_turn(backend, fake, make_pair):
    numbers = {end.fileno() for _ in range(4) for end in make_pair()}
    for number in numbers:
        backend.register(number, READ | WRITE)
    fake.faults.most_events = 3
    assert {number for _ in range(3) for number, _ in backend.wait(0.0)} == numbers


def test_short_list_does_not_keep_a_wake_for_long(backend, fake, make_pair):
    pairs = [make_pair() for _ in range(4)]
    for one, other in pairs:
        other.send(b"x")
        backend.register(one.fileno(), READ)
    fake.faults.most_events = 1
    backend.wake()
    reported = [event for _ in range(10) for event in backend.wait(0.0)]
    assert {number for number, _ in reported} >= {one.fileno() for one, _ in pairs}


def test_pipe_without_a_reader_is_reported_though_it_is_refused(backend, broken_pipe):
    backend.register(broken_pipe, WRITE)
    for _ in range(2):
        assert list(backend.wait(None)) == [(broken_pipe, WRITE | HANGUP)]
    backend.unregister(broken_pipe)
    assert list(backend.wait(0.0)) == []


def test_interest_in_a_pipe_without_a_reader_can_change(backend, broken_pipe):
    backend.register(broken_pipe, READ | WRITE)
    ((_, ready),) = backend.wait(None)
    assert ready & WRITE
    backend.modify(broken_pipe, READ)
    assert list(backend.wait(None)) == [(broken_pipe, READ)]
    backend.modify(broken_pipe, WRITE)
    assert list(backend.wait(None)) == [(broken_pipe, WRITE | HANGUP)]
    backend.unregister(broken_pipe)


def test_pipe_that_loses_its_reader_between_two_interests_is_reported(backend):
    reader, writer = os.pipe()
    backend.register(writer, READ)
    os.close(reader)
    backend.modify(writer, READ | WRITE)
    ((number, ready),) = backend.wait(None)
    backend.unregister(writer)
    os.close(writer)
    assert (number, ready & WRITE) == (writer, WRITE)


def test_regular_file_is_ready_at_its_end_too(backend, tmp_path, elapsed):
    with (tmp_path / "file").open("w+b") as file:
        backend.register(file.fileno(), READ | WRITE)
        assert list(backend.wait(None)) == [(file.fileno(), READ | WRITE)]
        backend.modify(file.fileno(), READ)
        assert list(backend.wait(None)) == [(file.fileno(), READ)]
        backend.unregister(file.fileno())
    assert elapsed(backend, 0.02) >= 0.02


def test_device_without_knotes_is_always_ready(backend):
    with open(os.devnull, "r+b", buffering=0) as device:
        backend.register(device.fileno(), READ | WRITE)
        assert list(backend.wait(None)) == [(device.fileno(), READ | WRITE)]
        backend.unregister(device.fileno())


def test_terminal_that_is_refused_is_an_error(backend, fake):
    ends = os.openpty()
    try:
        fake.faults.refusals[select.KQ_FILTER_READ, ADD] = errno.EINVAL
        with pytest.raises(OSError, match="Invalid argument"):
            backend.register(ends[1], READ)
        with pytest.raises(FileNotFoundError):
            backend.unregister(ends[1])
        assert list(backend.wait(0.0)) == []
    finally:
        for end in ends:
            os.close(end)


def test_refusal_of_one_direction_takes_back_the_other(backend, fake, pair):
    pair[1].send(b"x")
    fake.faults.refusals[select.KQ_FILTER_WRITE, ADD] = errno.ENOMEM
    with pytest.raises(OSError, match="Cannot allocate"):
        backend.register(pair[0].fileno(), READ | WRITE)
    assert list(backend.wait(0.0)) == []
    backend.register(pair[0].fileno(), READ | WRITE)
    assert list(backend.wait(0.0)) == [(pair[0].fileno(), READ | WRITE)]


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EBADF])
def test_deletion_of_what_is_gone_is_fine(backend, fake, pair, number):
    backend.register(pair[0].fileno(), READ)
    fake.faults.refusals[select.KQ_FILTER_READ, DELETE] = number
    backend.unregister(pair[0].fileno())
    with pytest.raises(FileNotFoundError):
        backend.unregister(pair[0].fileno())


def test_failed_adjustment_is_made_one_by_one(backend, fake, pair):
    backend.register(pair[0].fileno(), READ)
    fake.faults.refusals[select.KQ_FILTER_READ, DELETE] = errno.ENOENT
    backend.modify(pair[0].fileno(), WRITE)
    pair[1].send(b"x")
    assert list(backend.wait(0.0)) == [(pair[0].fileno(), WRITE)]


def test_modify_of_a_closed_descriptor_raises_and_it_can_be_unregistered(backend, make_pair):
    one, _ = make_pair()
    number = one.fileno()
    backend.register(number, READ)
    one.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        backend.modify(number, READ | WRITE)
    backend.unregister(number)


def test_both_directions_come_back_for_a_reused_number(backend, make_pair):
    one, _ = make_pair()
    number = one.fileno()
    backend.register(number, READ)
    one.close()
    new = dict.fromkeys(end.fileno() for end in make_pair())
    assert number in new
    backend.modify(number, READ | WRITE)
    assert list(backend.wait(0.0)) == [(number, WRITE)]
    os.write(max(set(new) - {number}), b"x")
    assert list(backend.wait(0.0)) == [(number, READ | WRITE)]


def test_copy_of_a_closed_descriptor_leaves_no_ghost(backend, pair, elapsed):
    copy = pair[0].dup()
    backend.register(pair[0].fileno(), READ)
    pair[0].close()
    pair[1].send(b"x")
    with copy:
        assert elapsed(backend, 0.02) >= 0.02


def test_failed_knote_is_an_error_of_its_descriptor(backend, fake, pair):
    number = pair[0].fileno()
    backend.register(number, READ)
    fake.faults.events.append(select.kevent(number, select.KQ_FILTER_READ, FAILED, data=errno.EIO))
    assert list(backend.wait(0.0)) == [(number, ERROR)]


def test_wait_that_begins_in_the_middle_of_a_close_is_refused(backend, wait_inside_close):
    """Issue 32: nothing would end it."""
    with pytest.raises(BackendClosedError):
        wait_inside_close(backend)


def test_wait_that_no_system_can_be_asked_for_is_shortened(backend):
    backend.wake()
    assert list(backend.wait(1e9)) == []


@pytest.fixture
def in_the_middle(monkeypatch):
    """Makes the next call of a kqueue call a function once in its middle, as a finalizer does."""

    def call(what):
        calls = [what]

        def identify(fd):
            found = descriptors.identify(fd)
            while calls:
                calls.pop()()
            return found

        monkeypatch.setattr(channel, "identify", identify)

    return call


def test_change_in_the_middle_of_a_call_is_made_after_it(fake, pair, in_the_middle):
    queue = fake()
    number = pair[0].fileno()
    queue.control([select.kevent(number, select.KQ_FILTER_WRITE, ADD)], 0, 0)
    in_the_middle(lambda: queue.control([select.kevent(number, select.KQ_FILTER_WRITE, DELETE)], 0, 0))
    assert [event.ident for event in queue.control(None, 4, 0)] == [number]
    assert queue.control(None, 4, 0) == []
    queue.close()


def test_file_that_is_closed_in_the_middle_of_a_call_has_no_event(fake, pair, in_the_middle):
    queue = fake()
    queue.control([select.kevent(pair[0], select.KQ_FILTER_WRITE, ADD)], 0, 0)
    in_the_middle(pair[0].close)
    assert queue.control(None, 4, 0) == []
    queue.close()


FORKING = """
import os, select
from loopcore_backends.kqueue import KqueueBackend

backend = KqueueBackend()
number = backend._kqueue.fileno()
child = os.fork()
if child == 0:
    taken = os.open(os.devnull, os.O_RDONLY)
    while taken < number:  # numbers that the fake had besides
        taken = os.dup(taken)
    assert taken == number, (taken, number)
    backend.close()
    del backend
    os.fstat(taken)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
backend.close()
"""


def test_child_does_not_close_the_file_that_got_the_number_of_the_kqueue(dialect):
    # A process of its own, where the number is the lowest of the fake's.
    environment = {**os.environ, VARIABLE: f"fake-{dialect.name}", "PYTHONPATH": str(ROOT)}
    code = "from tests.backends.kqueues import install; install()\n" + FORKING
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=environment)
