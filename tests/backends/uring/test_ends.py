"""How operations end: with the port, a process, a pipe."""

import errno
import os
import signal
import socket
from time import monotonic

import pytest

from loopcore.ports.interest import WRITE
from loopcore.ports.operations import Accept, Close, Connect, Poll, Read, Receive, WaitProcess
from loopcore.testing.conformance.ledger import PATIENCE, Ledger
from tests.backends.uring.kit import LARGE, in_thread, needs_uring, send_of


@needs_uring
def test_a_connection_that_nobody_was_told_of_is_closed_with_the_port(port, pair):
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        listener.setblocking(False)
        accepting, other = Accept(listener.fileno()), Receive(pair[0].fileno(), LARGE)
        port.submit(accepting)
        port.submit(other)
        port.wait(0.0)
        client.connect(listener.getsockname())
        port.cancel(other)  # takes the connection from the kernel, too
        assert set(port.close()) == {accepting, other}
        client.settimeout(PATIENCE)
        assert client.recv(1) == b""


@needs_uring
def test_connect_that_moves_to_another_thread_ends_as_it_would_have(ledger):
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listener, socket.socket() as client:
        client.setblocking(False)
        connecting = Connect(client.fileno(), listener.getsockname())
        ledger.submit(connecting)
        ledger.port.wake()

        def work() -> None:
            assert ledger.result_of(connecting) is None

        in_thread(work)


@needs_uring
def test_exit_of_a_process_is_told_as_wait_would_and_the_child_is_left_to_be_reaped(ledger):
    for how, code in (("exit 7", 7), ("kill -KILL $$", -signal.SIGKILL)):
        # Not os.fork: from Python 3.12 on it warns in a process with threads, which pytest-xdist makes of this one.
        waiting = WaitProcess(os.posix_spawn("/bin/sh", ["sh", "-c", how], os.environ))
        ledger.submit(waiting)
        status = ledger.result_of(waiting)
        assert os.waitstatus_to_exitcode(status) == code
        assert os.waitpid(waiting.pid, os.WNOHANG) == (waiting.pid, status)


@needs_uring
@pytest.mark.parametrize("mask", [(), ("buffer_ring",)])
def test_read_of_a_pipe_waits_for_data_and_can_be_cancelled(make_port, mask):
    ledger = Ledger(make_port(*mask))
    reader, writer = os.pipe()
    try:
        for end in (reader, writer):
            os.set_blocking(end, False)
        reading = Read(reader, LARGE)
        ledger.submit(reading)
        assert ledger.wait(0.01) == []
        os.write(writer, b"came")
        assert ledger.result_of(reading) == b"came"
        ledger.submit(reading)
        ledger.wait(0.0)
        ledger.cancel(reading)
        assert ledger.result_of(reading).errno == errno.ECANCELED
    finally:
        os.close(reader)
        os.close(writer)


@needs_uring
@pytest.mark.parametrize("mask", [(), ("multishot_poll",), ("defer_taskrun",)])
def test_each_wake_ends_a_wait(make_port, mask):
    port = make_port(*mask)
    for _ in range(5):
        port.wake()
        start = monotonic()
        assert port.wait(PATIENCE) == []
        assert monotonic() - start < PATIENCE


@needs_uring
def test_operation_is_in_flight_until_its_end_is_told(port, pair):
    receiving = Receive(pair[0].fileno(), LARGE)
    port.submit(receiving)
    port.wait(0.0)
    port.cancel(receiving)
    with pytest.raises(ValueError, match="in flight"):
        port.submit(receiving)
    assert [more for _, _, more in port.wait(0.0)] == [False]
    port.submit(receiving)


@needs_uring
def test_receive_of_nothing_brings_nothing(ledger, pair):
    pair[1].send(b"x")
    receiving = Receive(pair[0].fileno(), 0)
    ledger.submit(receiving)
    assert ledger.result_of(receiving) == b""
    assert pair[0].recv(2) == b"x"


@needs_uring
def test_number_that_no_file_can_have_is_refused(ledger, pair):
    polling = Poll(pair[0].fileno() + 2**32, WRITE)
    ledger.submit(polling)
    assert ledger.result_of(polling).errno == errno.EBADF


@needs_uring
def test_what_is_wrong_with_an_operation_that_had_to_queue_is_told_as_an_error(ledger, pair):
    ledger.submit(*[Poll(pair[0].fileno(), WRITE) for _ in range(600)])
    wrong = send_of(pair[0], "text")
    ledger.submit(wrong)
    assert ledger.result_of(wrong).errno == errno.EINVAL


@needs_uring
def test_descriptor_that_was_closed_while_the_port_closes_is_not_closed_by_its_owner_again(port, pair):
    number = os.dup(pair[1].fileno())
    closing, other = Close(number), Receive(pair[0].fileno(), LARGE)
    port.submit(other)
    port.wait(0.0)
    port.submit(closing)
    port.cancel(other)  # enters the kernel, which closes
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
    assert set(port.close()) == {closing, other}
    assert closing.fd == -1  # whoever closes what had not ended finds nothing to close
