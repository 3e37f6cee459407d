"""What only Windows' own port has, on Windows: pipes, processes, TransmitFile, and handles that belong to one port."""

import errno
import socket
import subprocess
import sys

import pytest

from loopcore.ports.interest import READ, WRITE
from loopcore.ports.operations import Connect, Poll, Read, Receive, ReceiveFrom, SendFile, SendTo, WaitProcess, Write
from loopcore_backends.iocp import IocpBackend

pytestmark = pytest.mark.skipif(sys.platform != "win32", reason="Windows only")

LONGEST = 30.0
"""Seconds until a completion that does not come is missed."""


@pytest.fixture
def port():
    made = IocpBackend()
    yield made
    made.close()


@pytest.fixture
def pipes():
    from tests.transports.windows_pipes import make_pair

    near, far = make_pair()
    yield near, far
    near.close()
    far.close()


def outcomes(port, count=1):
    """Wait for that many completions, and return them by operation."""
    found = {}
    while len(found) < count:
        completions = port.wait(LONGEST)
        assert completions, f"only {found} came"
        found |= {operation: result for operation, result, more in completions}
    return found


def written(fd, *buffers):
    operation = Write(fd)
    operation.buffers = buffers
    return operation


def test_pipe_is_read_and_written_to_its_end(port, pipes):
    near, far = pipes
    reading, writing = Read(near.fileno(), 100), written(far.fileno(), b"some ", b"bytes")
    port.submit(reading)
    port.submit(writing)
    assert outcomes(port, 2) == {reading: b"some bytes", writing: 10}
    port.submit(reading)
    far.close()
    assert outcomes(port) == {reading: b""}
    port.submit(reading)
    assert outcomes(port) == {reading: b""}


def test_write_to_a_pipe_without_reader_is_an_error(port, pipes):
    near, far = pipes
    near.close()
    writing = written(far.fileno(), b"x")
    port.submit(writing)
    assert isinstance(outcomes(port)[writing], BrokenPipeError)


def test_cancelled_read_takes_nothing(port, pipes):
    near, far = pipes
    reading = Read(near.fileno(), 100)
    port.submit(reading)
    assert list(port.wait(0.0)) == []
    port.cancel(reading)
    assert outcomes(port)[reading].errno == errno.ECANCELED
    writing = written(far.fileno(), b"later")
    port.submit(writing)
    port.submit(reading)
    assert outcomes(port, 2)[reading] == b"later"


def test_end_of_a_process_is_a_completion_with_its_code(port):
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"]) as process:
        waiting = WaitProcess(process.pid)
        port.submit(waiting)
        assert outcomes(port) == {waiting: 7 << 8}
        assert process.wait() == 7


def test_waiting_for_a_process_can_be_cancelled_and_repeated(port):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        waiting = WaitProcess(process.pid)
        port.submit(waiting)
        port.cancel(waiting)
        assert outcomes(port)[waiting].errno == errno.ECANCELED
        port.submit(waiting)
        process.stdin.write(b"\n")
        process.stdin.close()
        assert outcomes(port) == {waiting: 0}


def test_process_that_does_not_exist_is_an_error(port):
    waiting = WaitProcess(0x7FFFFFF0)
    port.submit(waiting)
    assert isinstance(outcomes(port)[waiting], OSError)


def test_file_is_sent_from_its_offset_to_its_end(port, tmp_path):
    one, other = socket.socketpair()
    path = tmp_path / "file"
    path.write_bytes(bytes(range(200)))
    with one, other, path.open("rb") as file:
        sending = SendFile(one.fileno(), file.fileno(), 150, 1000)
        port.submit(sending)
        assert outcomes(port) == {sending: 50}
        assert other.recv(1000) == bytes(range(150, 200))
        sending.offset = 200
        port.submit(sending)
        assert outcomes(port) == {sending: 0}


def test_datagram_socket_is_connected_and_sends_to_its_peer(port):
    with socket.socket(type=socket.SOCK_DGRAM) as one, socket.socket(type=socket.SOCK_DGRAM) as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        connecting, sending = Connect(one.fileno(), other.getsockname()), SendTo(one.fileno(), b"x", None)
        port.submit(connecting)
        assert outcomes(port) == {connecting: None}
        port.submit(sending)
        assert outcomes(port) == {sending: 1}
        assert other.recvfrom(10) == (b"x", one.getsockname())


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_datagram_socket_that_is_not_bound_is_bound_when_it_receives(port, family, host):
    with socket.socket(family, socket.SOCK_DGRAM) as near, socket.socket(family, socket.SOCK_DGRAM) as peer:
        receiving = ReceiveFrom(near.fileno(), 100)
        port.submit(receiving)
        assert list(port.wait(0.0)) == []
        peer.sendto(b"datagram", (host, near.getsockname()[1]))
        received, address = outcomes(port)[receiving]
        assert (received, address[1]) == (b"datagram", peer.getsockname()[1])
        port.cancel(receiving)
        assert outcomes(port)[receiving].errno == errno.ECANCELED


def test_socket_of_another_port_is_refused_with_the_reason_and_can_be_polled(port):
    one, other = socket.socketpair()
    first = IocpBackend()
    receiving = Receive(one.fileno(), 10)
    with one, other:
        first.submit(receiving)
        first.close()
        port.submit(receiving)
        error = outcomes(port)[receiving]
        assert "one completion port" in error.__notes__[0]
        polling = Poll(one.fileno(), READ | WRITE)
        port.submit(polling)
        assert outcomes(port) == {polling: WRITE}


def test_polling_what_is_no_socket_ends_for_good(port, pipes):
    polling = Poll(pipes[0].fileno(), READ)
    port.submit(polling)
    assert outcomes(port)[polling].errno == errno.EBADF
