"""Datagrams: ReceiveFrom and SendTo."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from loopcore.ports.operations import Operation, ReceiveFrom, SendTo
from loopcore.testing.conformance.base import Level
from loopcore.testing.conformance.ledger import Ledger
from loopcore.testing.conformance.surroundings import Pair


def next_of(ledger: Ledger, receiving: Operation) -> Any:
    if receiving not in ledger.in_flight and not ledger.results.get(receiving):
        ledger.submit(receiving)
    return ledger.result_of(receiving)


class Datagrams(Level):
    """Datagrams: ReceiveFrom and SendTo."""

    @pytest.fixture
    def ends(self) -> Iterator[Pair]:
        """Two UDP sockets; the second one is connected to the first."""
        with socket.socket(type=socket.SOCK_DGRAM) as bound, socket.socket(type=socket.SOCK_DGRAM) as connected:
            bound.bind(("127.0.0.1", 0))
            connected.connect(bound.getsockname())
            for end in (bound, connected):
                end.setblocking(False)
            yield bound, connected

    def test_datagram_comes_with_the_address_of_its_sender(self, ledger: Ledger, ends: Pair) -> None:
        receiving = ReceiveFrom(ends[0].fileno(), 1000)
        ledger.submit(receiving)
        ends[1].send(b"hello")
        assert ledger.result_of(receiving) == (b"hello", ends[1].getsockname())

    def test_datagrams_stay_apart_and_in_order(self, ledger: Ledger, ends: Pair) -> None:
        receiving = ReceiveFrom(ends[0].fileno(), 1000)
        for message in (b"one", b"", b"three"):
            ends[1].send(message)
        assert [next_of(ledger, receiving)[0] for _ in range(3)] == [b"one", b"", b"three"]

    def test_datagram_that_is_too_long_is_cut_off(self, ledger: Ledger, ends: Pair) -> None:
        receiving = ReceiveFrom(ends[0].fileno(), 4)
        ends[1].send(b"abcdefgh")
        ends[1].send(b"ij")
        assert [next_of(ledger, receiving)[0] for _ in range(2)] == [b"abcd", b"ij"]

    def test_datagram_goes_to_its_address(self, ledger: Ledger, ends: Pair) -> None:
        bound, connected = ends
        assert ledger.outcome_of(SendTo(bound.fileno(), b"hi", connected.getsockname())) == 2
        assert connected.recv(100) == b"hi"

    def test_datagram_without_an_address_goes_to_whom_the_socket_is_connected_to(
        self, ledger: Ledger, ends: Pair
    ) -> None:
        assert ledger.outcome_of(SendTo(ends[1].fileno(), bytearray(b"hi"), None)) == 2
        assert ends[0].recv(100) == b"hi"

    def test_datagram_that_no_system_takes_is_an_error_in_the_completion(self, ledger: Ledger, ends: Pair) -> None:
        assert isinstance(ledger.outcome_of(SendTo(ends[1].fileno(), bytes(100_000), None)), OSError)

    @pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="Unix sockets")
    def test_datagram_waits_for_room(self, ledger: Ledger) -> None:
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with one, other:
            one.setblocking(False)
            sent = 0
            try:
                while True:
                    one.send(b"filler")
                    sent += 1
            except BlockingIOError:
                pass
            sending = SendTo(one.fileno(), b"late", None)
            ledger.submit(sending)
            assert ledger.has_nothing_new()
            for _ in range(sent):
                other.recv(100)
            assert ledger.result_of(sending) == 4
            assert other.recv(100) == b"late"
