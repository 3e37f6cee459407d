"""Cancelling: still one terminal completion, nothing lost, and the number is free."""

import errno
import socket

import pytest

from loopcore.ports.interest import READ, WRITE
from loopcore.ports.operations import Accept, Connect, Operation, Poll, Receive, ReceiveFrom, Send
from loopcore.testing.conformance.base import Level
from loopcore.testing.conformance.ledger import Ledger
from loopcore.testing.conformance.surroundings import PATIENCE, Fill, Pair, PairMaker


def was_cancelled(result: object) -> bool:
    return isinstance(result, OSError) and result.errno == errno.ECANCELED


class Cancelling(Level):
    """Cancelling: still one terminal completion, nothing lost, and the number is free."""

    @pytest.fixture
    def waiting(self, ledger: Ledger, pair: Pair, fill: Fill) -> list[Operation]:
        """An operation of each kind that can wait on a stream."""
        fill(pair[0])
        sending = Send(pair[0].fileno())
        sending.buffers = [b"x"]
        operations: list[Operation] = [Receive(pair[0].fileno(), 100), Poll(pair[0].fileno(), READ), sending]
        ledger.submit(*operations)
        return operations

    def test_cancelled_operations_end_once(self, ledger: Ledger, waiting: list[Operation]) -> None:
        ledger.cancel(*waiting)
        ledger.settle()
        assert [[was_cancelled(result) for result in ledger.results[operation]] for operation in waiting] == [
            [True]
        ] * 3
        assert ledger.has_nothing_new()

    def test_cancelled_operations_end_once_after_a_wait(self, ledger: Ledger, waiting: list[Operation]) -> None:
        ledger.wait(0.0)
        ledger.cancel(*waiting)
        ledger.settle()
        assert ledger.has_nothing_new()

    def test_cancel_of_what_has_ended_is_left_alone(self, ledger: Ledger, waiting: list[Operation]) -> None:
        ledger.cancel(*waiting)
        ledger.settle()
        ledger.cancel(*waiting)
        assert ledger.has_nothing_new()

    def test_cancel_of_what_was_never_submitted_is_left_alone(self, ledger: Ledger, pair: Pair) -> None:
        ledger.cancel(Receive(pair[0].fileno(), 100))
        assert ledger.has_nothing_new()

    def test_cancelled_twice_ends_once(self, ledger: Ledger, waiting: list[Operation]) -> None:
        ledger.cancel(*waiting, *waiting)
        ledger.settle()
        assert [len(ledger.results[operation]) for operation in waiting] == [1, 1, 1]
        assert ledger.has_nothing_new()

    def test_cancelled_operation_may_be_submitted_again(self, ledger: Ledger, pair: Pair) -> None:
        receiving = Receive(pair[0].fileno(), 100)
        for _ in range(3):
            ledger.submit(receiving)
            ledger.cancel(receiving)
            ledger.settle()
            assert was_cancelled(ledger.results[receiving].pop())
        pair[1].send(b"x")
        assert ledger.outcome_of(receiving) == b"x"

    def test_what_comes_in_after_a_cancelled_receive_is_left_to_the_next_one(self, ledger: Ledger, pair: Pair) -> None:
        receiving, successor = Receive(pair[0].fileno(), 100), Receive(pair[0].fileno(), 100)
        ledger.submit(receiving)
        ledger.wait(0.0)
        ledger.cancel(receiving)
        ledger.settle()
        pair[1].send(b"for the next one")
        assert ledger.outcome_of(successor) == b"for the next one"

    def test_no_byte_is_lost_to_a_cancel(self, ledger: Ledger, pair: Pair) -> None:
        """Bytes received by then are a result of the cancelled operation, or still in the socket."""
        came = b""
        for number in range(50):
            receiving = Receive(pair[0].fileno(), 100)
            ledger.submit(receiving)
            if number % 3:
                ledger.wait(0.0)
            pair[1].send(b"%d," % number)
            if number % 2:
                ledger.wait(0.0)
            ledger.cancel(receiving)
            ledger.settle()
            came += b"".join(result for result in ledger.results.pop(receiving) if not isinstance(result, OSError))
        try:
            came += pair[0].recv(65536)
        except BlockingIOError:
            pass
        assert came == b"".join(b"%d," % number for number in range(50))

    def test_completion_that_was_not_told_yet_survives_a_cancel(self, ledger: Ledger, pair: Pair) -> None:
        """Either the result or ECANCELED: and in that case, nothing was sent."""
        sending = Send(pair[0].fileno())
        sending.buffers = [b"x"]
        ledger.submit(sending)
        ledger.cancel(sending)
        result = ledger.result_of(sending)
        if was_cancelled(result):
            with pytest.raises(BlockingIOError):
                pair[1].recv(1)
        else:
            assert result == 1
            assert pair[1].recv(10) == b"x"

    def test_cancelled_send_says_how_much_was_taken(self, ledger: Ledger, pair: Pair) -> None:
        sending = Send(pair[0].fileno())
        offered = bytes(8 << 20)
        sending.buffers = [offered]
        ledger.submit(sending)
        ledger.wait(0.0)
        ledger.cancel(sending)
        result = ledger.result_of(sending)
        pair[0].close()
        came = 0
        while part := pair[1].recv(1 << 20):
            came += len(part)
        assert (0 if was_cancelled(result) else result) == came

    def test_cancel_of_one_leaves_the_others(self, ledger: Ledger, pair: Pair) -> None:
        one, other = Poll(pair[0].fileno(), READ), Receive(pair[0].fileno(), 100)
        writing = Poll(pair[0].fileno(), WRITE)
        ledger.submit(one, other)
        ledger.wait(0.0)
        ledger.cancel(one)
        assert was_cancelled(ledger.result_of(one))
        pair[1].send(b"x")
        assert ledger.result_of(other) == b"x"
        assert ledger.outcome_of(writing) & WRITE

    def test_cancelled_operation_keeps_no_file_open(self, ledger: Ledger, waiting: list[Operation], pair: Pair) -> None:
        ledger.wait(0.0)
        ledger.cancel(*waiting)
        pair[0].close()
        pair[1].setblocking(True)
        pair[1].settimeout(PATIENCE)
        while pair[1].recv(1 << 20):
            pass  # the end of the stream: the other end is closed everywhere
        ledger.settle()

    def test_cancelled_accept_and_connect_end(self, ledger: Ledger) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket(type=socket.SOCK_DGRAM) as bound:
            listening.setblocking(False)
            bound.setblocking(False)
            bound.bind(("127.0.0.1", 0))
            operations = [Accept(listening.fileno()), ReceiveFrom(bound.fileno(), 100)]
            ledger.submit(*operations)
            ledger.wait(0.0)
            ledger.cancel(*operations)
            ledger.settle()
            assert all(was_cancelled(ledger.results[operation].pop()) for operation in operations)
            # Nothing accepts now: a connection waits in the kernel for the next Accept.
            with socket.create_connection(listening.getsockname()):
                assert ledger.has_nothing_new()
                accepted = ledger.outcome_of(operations[0])
                socket.close(accepted)

    def test_cancelled_connect_ends(self, ledger: Ledger) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as connecting:
            connecting.setblocking(False)
            connect = Connect(connecting.fileno(), listening.getsockname())
            ledger.submit(connect)
            ledger.cancel(connect)
            result = ledger.result_of(connect)
            assert result is None or was_cancelled(result)

    def test_reused_number_gets_no_completion_of_the_old_file(self, ledger: Ledger, make_pair: PairMaker) -> None:
        """After cancel and close the number belongs to the next file at once, before the port reports the end."""
        for _ in range(20):
            one, other = make_pair()
            number = one.fileno()
            old = [Receive(number, 100), Poll(number, READ | WRITE)]
            ledger.submit(*old)
            other.send(b"stale")
            ledger.cancel(*old)
            one.close()
            new_one, new_other = make_pair()
            assert number in (new_one.fileno(), new_other.fileno())
            fresh, peer = (new_one, new_other) if new_one.fileno() == number else (new_other, new_one)
            receiving = Receive(number, 100)
            ledger.submit(receiving)
            peer.send(b"fresh")
            assert ledger.result_of(receiving) == b"fresh"
            ledger.cancel(receiving)
            ledger.settle()
            for end in (other, fresh, peer):
                end.close()

    def test_number_reused_after_a_natural_end_is_watched_afresh(self, ledger: Ledger, make_pair: PairMaker) -> None:
        for _ in range(20):
            one, other = make_pair()
            number = one.fileno()
            polling = Poll(number, READ)
            ledger.submit(polling)
            other.send(b"x")
            assert ledger.result_of(polling) & READ
            one.close()
            other.close()
            new_one, new_other = make_pair()
            fresh, peer = (new_one, new_other) if new_one.fileno() == number else (new_other, new_one)
            assert fresh.fileno() == number
            ledger.submit(polling)  # the same object, for another file
            assert ledger.has_nothing_new()
            peer.send(b"y")
            assert ledger.result_of(polling) & READ
            fresh.close()
            peer.close()
