"""Buffers: an operation keeps them until it has ended; lent memory stays unchanged until it is given back."""

import gc
import socket
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from loopcore.ports.completion import CompletionBackend
from loopcore.ports.operations import Operation, Receive, Send
from loopcore.testing.conformance.base import Level
from loopcore.testing.conformance.ledger import Ledger
from loopcore.testing.conformance.surroundings import PATIENCE, Fill, Pair

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Buffer(bytearray):
    """Bytes that support weak references."""

    __slots__ = ("__weakref__",)


def send_of(end: socket.socket, *buffers: "ReadableBuffer") -> Send:
    operation = Send(end.fileno())
    operation.buffers = buffers
    return operation


def lending(end: socket.socket, limit: int = 1000) -> Receive:
    operation = Receive(end.fileno(), limit)
    operation.lend = True
    return operation


def next_of(ledger: Ledger, receiving: Operation) -> Any:
    if receiving not in ledger.in_flight and not ledger.results.get(receiving):
        ledger.submit(receiving)
    return ledger.result_of(receiving)


class Buffers(Level):
    """Buffers: an operation keeps them until it has ended; lent memory stays unchanged until it is given back."""

    @pytest.fixture
    def stuck(self, pair: Pair, fill: Fill) -> socket.socket:
        """A socket that currently takes nothing."""
        fill(pair[0])
        return pair[0]

    def test_buffer_of_a_send_in_flight_cannot_be_taken_away(
        self, ledger: Ledger, stuck: socket.socket, pair: Pair
    ) -> None:
        """A port that reads it without a copy keeps it from being resized; one that has copied it need not."""
        buffer = bytearray(b"to be sent")
        sending = send_of(stuck, buffer)
        ledger.submit(sending)
        ledger.wait(0.0)
        try:
            buffer.clear()
        except BufferError:
            pass
        came = b""
        while sending in ledger.in_flight or not came.endswith(b"to be sent"):
            try:
                came = (came + pair[1].recv(1 << 20))[-10:]
            except BlockingIOError:
                assert ledger.wait(PATIENCE)
            ledger.wait(0.0)
        assert ledger.results[sending] == [10]

    def test_buffer_can_be_resized_when_the_send_has_ended(
        self, ledger: Ledger, stuck: socket.socket, pair: Pair
    ) -> None:
        buffer = bytearray(b"to be sent")
        sending = send_of(stuck, buffer)
        ledger.submit(sending)
        while sending in ledger.in_flight:
            pair[1].recv(1 << 20)
            ledger.wait(0.0)
        assert ledger.result_of(sending) == 10
        buffer.clear()

    def test_buffers_live_until_the_send_has_ended_and_no_longer(
        self, ledger: Ledger, stuck: socket.socket, pair: Pair
    ) -> None:
        buffer = Buffer(b"to be sent")
        looked_at = weakref.ref(buffer)
        sending = send_of(stuck, buffer)
        ledger.submit(sending)
        del buffer
        gc.collect()
        assert looked_at() is not None
        ledger.cancel(sending)
        ledger.settle()
        sending.buffers = ()
        gc.collect()
        assert looked_at() is None

    def test_port_forgets_an_operation_that_has_ended(self, ledger: Ledger, pair: Pair) -> None:
        class Watched(Receive):
            __slots__ = ("__weakref__",)

        receiving = Watched(pair[0].fileno(), 100)
        looked_at = weakref.ref(receiving)
        ledger.submit(receiving)
        pair[1].close()
        ledger.settle()
        ledger.results.clear()
        ledger.wait(0.0)
        del receiving
        gc.collect()
        assert looked_at() is None

    def test_lent_memory_holds_what_came_in(self, ledger: Ledger, pair: Pair) -> None:
        receiving = lending(pair[0])
        ledger.submit(receiving)
        pair[1].send(b"hello")
        lent = ledger.result_of(receiving)
        assert bytes(lent.view) == b"hello"
        lent.give_back()

    def test_lent_memory_is_not_written_to_before_it_is_given_back(self, ledger: Ledger, pair: Pair) -> None:
        receiving = lending(pair[0])
        pieces = []
        for number in range(20):
            pair[1].send(b"message %d" % number)
            pieces.append(next_of(ledger, receiving))
        assert [bytes(piece.view) for piece in pieces] == [b"message %d" % number for number in range(20)]
        for piece in pieces:
            piece.give_back()

    def test_memory_given_back_is_lent_again(self, ledger: Ledger, pair: Pair) -> None:
        receiving = lending(pair[0])
        for number in range(200):
            pair[1].send(b"message %d" % number)
            piece = next_of(ledger, receiving)
            assert bytes(piece.view) == b"message %d" % number
            piece.give_back()

    def test_end_of_the_stream_is_not_lent(self, ledger: Ledger, pair: Pair) -> None:
        receiving = lending(pair[0])
        ledger.submit(receiving)
        pair[1].close()
        assert ledger.result_of(receiving) == b""

    def test_lent_memory_outlives_the_operation(self, ledger: Ledger, pair: Pair) -> None:
        receiving = lending(pair[0])
        pair[1].send(b"hello")
        piece = next_of(ledger, receiving)
        ledger.cancel(receiving)
        ledger.settle()
        assert bytes(piece.view) == b"hello"
        piece.give_back()

    def test_lent_memory_may_be_given_back_after_close(
        self, ledger: Ledger, port: CompletionBackend, pair: Pair
    ) -> None:
        receiving = lending(pair[0])
        pair[1].send(b"hello")
        piece = next_of(ledger, receiving)
        port.close()
        piece.give_back()
