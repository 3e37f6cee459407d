"""The port of a simulated host: which mistakes `submit` raises, and which are errors in a completion."""

import errno
import os
import socket
from collections.abc import Callable, Iterator

import pytest

from loopcore.ports.operations import Accept, Connect, Operation, Read, SendTo, Write
from loopcore.sim.running import simulation
from loopcore.sim.tape import Fifo, Tape
from loopcore.testing.conformance.ledger import Ledger
from loopcore_backends.sim import SimBackend


@pytest.fixture
def port() -> Iterator[SimBackend]:
    with simulation(Tape(Fifo())):
        made = SimBackend()
        yield made
        made.close()


@pytest.mark.parametrize("make", [lambda fd: Read(fd, 10), Write, Accept])
def test_closed_descriptor_is_an_error_in_the_completion(port: SimBackend, make: Callable[[int], Operation]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)
    assert Ledger(port).outcome_of(make(reader)).errno == errno.EBADF


@pytest.mark.parametrize("make", [Accept, lambda fd: Connect(fd, ("main", 1)), lambda fd: SendTo(fd, b"x", None)])
def test_pipe_where_a_socket_is_needed_is_an_error_in_the_completion(
    port: SimBackend, make: Callable[[int], Operation]
) -> None:
    reader, writer = os.pipe()
    assert Ledger(port).outcome_of(make(reader)).errno == errno.ENOTSOCK
    os.close(reader)
    os.close(writer)


def test_connect_without_an_address_is_refused_by_submit(port: SimBackend) -> None:
    with socket.socket() as sock:
        with pytest.raises(TypeError):
            port.submit(Connect(sock.fileno(), None))
        assert port.wait(0.0) == []


@pytest.mark.parametrize("make", [Connect, lambda fd, address: SendTo(fd, b"x", address)])
def test_invalid_address_is_refused_by_submit(port: SimBackend, make: Callable[[int, object], Operation]) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        operation = make(sock.fileno(), ("127.0.0.1", 99_999))
        with pytest.raises(OverflowError, match="port must be 0-65535"):
            port.submit(operation)
        assert operation.slot is None
        assert port.wait(0.0) == []
