"""Streams: Receive, Send, Accept, Connect and Shutdown, as a connection uses them."""

import errno
import socket
from collections.abc import Iterator
from pathlib import Path
from socket import SHUT_WR
from typing import TYPE_CHECKING, Any

import pytest

from loopcore.ports.completion import CompletionBackend
from loopcore.ports.operations import Accept, Connect, Receive, Send, Shutdown
from loopcore.testing.conformance.base import Level
from loopcore.testing.conformance.ledger import Ledger
from loopcore.testing.conformance.surroundings import PATIENCE, Fill, Pair

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

LARGE = 3 * 1024 * 1024


def send_of(end: socket.socket, *buffers: "ReadableBuffer", head: int = 0) -> Send:
    operation = Send(end.fileno())
    operation.buffers, operation.head = buffers, head
    return operation


def take(fd: int) -> socket.socket:
    """A socket object for an accepted descriptor."""
    return socket.socket(fileno=fd)


class Streams(Level):
    """Streams: Receive, Send, Accept, Connect and Shutdown, as a connection uses them."""

    @pytest.fixture
    def listener(self) -> Iterator[socket.socket]:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            yield listening

    @pytest.fixture
    def client(self) -> Iterator[socket.socket]:
        with socket.socket() as connecting:
            connecting.setblocking(False)
            yield connecting

    def test_receive_brings_what_comes_in(self, ledger: Ledger, pair: Pair) -> None:
        receiving = Receive(pair[0].fileno(), 65536)
        ledger.submit(receiving)
        pair[1].send(b"hello")
        assert ledger.result_of(receiving) == b"hello"

    def test_receive_brings_what_was_there_already(self, ledger: Ledger, pair: Pair) -> None:
        receiving = Receive(pair[0].fileno(), 65536)
        pair[1].send(b"hello")
        assert ledger.outcome_of(receiving) == b"hello"

    def test_receive_goes_on_after_a_result(self, ledger: Ledger, pair: Pair) -> None:
        receiving = Receive(pair[0].fileno(), 65536)
        ledger.submit(receiving)
        for message in (b"one", b"two", b"three"):
            pair[1].send(message)
            assert ledger.result_of(receiving) == message
            if receiving not in ledger.in_flight:
                ledger.submit(receiving)  # a port may require submitting it again

    def test_no_result_is_longer_than_the_limit(self, ledger: Ledger, pair: Pair) -> None:
        receiving = Receive(pair[0].fileno(), 4)
        pair[1].send(b"abcdefghij")
        came = b""
        while len(came) < 10:
            if receiving not in ledger.in_flight:
                ledger.submit(receiving)
            part = ledger.result_of(receiving)
            assert 0 < len(part) <= 4
            came += part
        assert came == b"abcdefghij"

    def test_end_of_the_stream_is_empty_and_ends_the_operation(self, ledger: Ledger, pair: Pair) -> None:
        receiving = Receive(pair[0].fileno(), 65536)
        ledger.submit(receiving)
        pair[1].close()
        assert ledger.result_of(receiving) == b""
        assert receiving not in ledger.in_flight

    def test_what_came_before_the_end_comes_before_the_end(self, ledger: Ledger, pair: Pair) -> None:
        receiving = Receive(pair[0].fileno(), 65536)
        ledger.submit(receiving)
        pair[1].send(b"last words")
        pair[1].close()
        came = [ledger.result_of(receiving)]
        while came[-1]:
            if receiving not in ledger.in_flight:
                ledger.submit(receiving)
            came.append(ledger.result_of(receiving))
        assert b"".join(came) == b"last words"

    def test_reset_connection_is_an_error_in_the_completion(
        self, ledger: Ledger, listener: socket.socket, client: socket.socket
    ) -> None:
        accepting = Accept(listener.fileno())
        ledger.submit(accepting)
        assert ledger.outcome_of(Connect(client.fileno(), listener.getsockname())) is None
        accepted = take(ledger.result_of(accepting))
        receiving = Receive(client.fileno(), 65536)
        ledger.submit(receiving)
        ledger.wait(0.0)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        accepted.close()
        error = ledger.result_of(receiving)
        assert isinstance(error, ConnectionResetError)
        assert receiving not in ledger.in_flight

    def test_send_takes_every_buffer_but_the_head(self, ledger: Ledger, pair: Pair) -> None:
        sending = send_of(pair[0], b"abc", bytearray(b"def"), memoryview(b"ghi"), b"", head=2)
        assert ledger.outcome_of(sending) == 7
        assert pair[1].recv(100) == b"cdefghi"

    def test_send_without_buffers_takes_nothing(self, ledger: Ledger, pair: Pair) -> None:
        assert ledger.outcome_of(send_of(pair[0])) == 0

    def test_large_send_takes_as_much_as_it_says(self, ledger: Ledger, pair: Pair) -> None:
        offered = bytes(range(256)) * (LARGE // 256)
        receiving = Receive(pair[1].fileno(), 65536)
        sending = send_of(pair[0], offered)
        ledger.submit(receiving, sending)
        came = bytearray()
        taken = 0
        while taken < LARGE or len(came) < LARGE:
            for operation, result, _ in ledger.wait(PATIENCE):
                assert not isinstance(result, OSError), result
                if operation is receiving:
                    came += result
                else:
                    taken += result
                    if taken < LARGE:
                        sending.head = taken
                        ledger.submit(sending)
            if receiving not in ledger.in_flight:
                ledger.submit(receiving)
        assert came == offered

    def test_send_of_more_buffers_than_one_call_takes(self, ledger: Ledger, pair: Pair) -> None:
        offered = [b"%d," % number for number in range(3000)]
        whole = b"".join(offered)
        taken = 0
        came = b""
        sending = send_of(pair[0], *offered)
        while taken < len(whole):
            sending.buffers, sending.head = [whole[taken:]] if taken else offered, 0
            taken += ledger.outcome_of(sending)
            while len(came) < taken:
                came += pair[1].recv(65536)
        assert came == whole

    def test_send_to_a_peer_that_is_gone_is_an_error_in_the_completion(self, ledger: Ledger, pair: Pair) -> None:
        pair[1].close()
        error = ledger.outcome_of(send_of(pair[0], b"x"))
        assert isinstance(error, ConnectionError)

    def test_operation_on_a_closed_number_is_an_error_in_the_completion(
        self, ledger: Ledger, closed_number: int
    ) -> None:
        for operation in (Receive(closed_number, 10), Send(closed_number), Accept(closed_number)):
            if isinstance(operation, Send):
                operation.buffers = [b"x"]
            assert ledger.outcome_of(operation).errno == errno.EBADF

    def test_operation_may_be_submitted_again_after_it_has_ended(self, ledger: Ledger, pair: Pair) -> None:
        sending = send_of(pair[0], b"ab")
        for _ in range(3):
            assert ledger.outcome_of(sending) == 2
        assert pair[1].recv(100) == b"ababab"

    def test_operation_in_flight_is_refused(self, ledger: Ledger, port: CompletionBackend, pair: Pair) -> None:
        receiving = Receive(pair[0].fileno(), 10)
        ledger.submit(receiving)
        with pytest.raises(ValueError, match="in flight"):
            port.submit(receiving)
        ledger.wait(0.0)
        with pytest.raises(ValueError, match="in flight"):
            port.submit(receiving)
        pair[1].send(b"x")
        assert ledger.result_of(receiving) == b"x"

    def test_nothing_is_told_before_the_wait(self, port: Any, pair: Pair) -> None:
        sending = send_of(pair[0], b"x")
        assert port.submit(sending) is None
        with pytest.raises(ValueError, match="in flight"):
            port.submit(sending)
        assert [tuple(completion) for completion in port.wait(PATIENCE)] == [(sending, 1, False)]

    def test_nothing_is_called_back(self, port: CompletionBackend, pair: Pair) -> None:
        told: list[object] = []
        sending, receiving = send_of(pair[0], b"x"), Receive(pair[0].fileno(), 100)
        sending.target = receiving.target = told.append
        port.submit(sending)
        port.submit(receiving)
        port.cancel(receiving)
        port.wait(0.0)
        port.close()
        assert not told

    def test_both_directions_of_a_descriptor_are_independent(self, ledger: Ledger, pair: Pair, fill: Fill) -> None:
        fill(pair[0])
        receiving, sending = Receive(pair[0].fileno(), 65536), send_of(pair[0], b"later")
        ledger.submit(receiving, sending)
        assert ledger.has_nothing_new()
        pair[1].send(b"x")
        assert ledger.result_of(receiving) == b"x"
        assert not ledger.results[sending]
        while sending in ledger.in_flight:
            assert pair[1].recv(1 << 20)
            ledger.wait(0.0)
        assert ledger.results[sending] == [5]

    def test_connections_are_accepted_one_after_the_other(self, ledger: Ledger, listener: socket.socket) -> None:
        accepting = Accept(listener.fileno())
        ledger.submit(accepting)
        for _ in range(3):
            with socket.create_connection(listener.getsockname()) as connected:
                with take(ledger.result_of(accepting)) as accepted:
                    assert accepted.getpeername() == connected.getsockname()
            if accepting not in ledger.in_flight:
                ledger.submit(accepting)

    def test_many_connections_that_wait_are_all_accepted(self, ledger: Ledger, listener: socket.socket) -> None:
        connected = [socket.create_connection(listener.getsockname()) for _ in range(40)]
        accepting = Accept(listener.fileno())
        accepted: list[socket.socket] = []
        while len(accepted) < 40:
            if accepting not in ledger.in_flight:
                ledger.submit(accepting)
            accepted.append(take(ledger.result_of(accepting)))
        assert {end.getpeername() for end in accepted} == {end.getsockname() for end in connected}
        for end in (*accepted, *connected):
            end.close()

    def test_accepted_connection_neither_blocks_nor_is_inherited(self, ledger: Ledger, listener: socket.socket) -> None:
        accepting = Accept(listener.fileno())
        ledger.submit(accepting)
        with socket.create_connection(listener.getsockname()), take(ledger.result_of(accepting)) as accepted:
            assert not accepted.get_inheritable()
            with pytest.raises(BlockingIOError):
                accepted.recv(1)

    def test_accept_on_what_does_not_listen_ends_with_the_error(self, ledger: Ledger, client: socket.socket) -> None:
        accepting = Accept(client.fileno())
        assert isinstance(ledger.outcome_of(accepting), OSError)
        assert accepting not in ledger.in_flight

    def test_connect_to_a_port_where_nobody_listens_is_refused(
        self, ledger: Ledger, listener: socket.socket, client: socket.socket
    ) -> None:
        address = listener.getsockname()
        listener.close()
        assert isinstance(ledger.outcome_of(Connect(client.fileno(), address)), ConnectionRefusedError)

    @pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="Unix sockets")
    def test_connect_to_a_unix_socket(self, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)  # the address of a socket is short
        with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as connecting:
            for end in (listening, connecting):
                end.setblocking(False)
            missing = ledger.outcome_of(Connect(connecting.fileno(), "nobody"))
            assert isinstance(missing, FileNotFoundError)
            listening.bind("socket")
            listening.listen()
            assert ledger.outcome_of(Connect(connecting.fileno(), "socket")) is None
            assert isinstance(ledger.outcome_of(Connect(connecting.fileno(), "socket")), OSError)

    def test_shutdown_tells_the_peer(self, ledger: Ledger, pair: Pair) -> None:
        receiving = Receive(pair[1].fileno(), 10)
        ledger.submit(receiving)
        assert ledger.outcome_of(Shutdown(pair[0].fileno(), SHUT_WR)) is None
        assert ledger.result_of(receiving) == b""

    def test_shutdown_of_what_is_not_connected_is_an_error_in_the_completion(
        self, ledger: Ledger, client: socket.socket
    ) -> None:
        assert isinstance(ledger.outcome_of(Shutdown(client.fileno(), SHUT_WR)), OSError)

    def test_several_receives_of_one_descriptor_all_end(self, ledger: Ledger, pair: Pair) -> None:
        operations = [Receive(pair[0].fileno(), 100) for _ in range(3)]
        ledger.submit(*operations)
        pair[1].close()
        ledger.settle()
        assert [ledger.results[operation] for operation in operations] == [[b""]] * 3
