"""Poll: readiness once, of any descriptor; or, edge-triggered, of each arrival."""

import os
import tempfile

import pytest

from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore.ports.operations import Poll, Receive
from loopcore.testing.conformance.base import Level
from loopcore.testing.conformance.ledger import Ledger
from loopcore.testing.conformance.surroundings import Pair


class Polls(Level):
    """Poll: readiness once, of any descriptor."""

    def test_what_is_ready_completes_at_once(self, ledger: Ledger, pair: Pair) -> None:
        assert ledger.outcome_of(Poll(pair[0].fileno(), WRITE)) & WRITE

    def test_what_becomes_ready_completes_then(self, ledger: Ledger, pair: Pair) -> None:
        polling = Poll(pair[0].fileno(), READ)
        ledger.submit(polling)
        assert ledger.has_nothing_new()
        pair[1].send(b"x")
        assert ledger.result_of(polling) & READ
        assert pair[0].recv(10) == b"x"

    def test_poll_reports_only_its_interest(self, ledger: Ledger, pair: Pair) -> None:
        polling = Poll(pair[0].fileno(), READ)
        ledger.submit(polling)
        pair[1].send(b"x")
        assert not ledger.result_of(polling) & WRITE

    def test_poll_ends_with_its_first_event_and_may_be_submitted_again(self, ledger: Ledger, pair: Pair) -> None:
        pair[1].send(b"x")
        polling = Poll(pair[0].fileno(), READ)
        for _ in range(3):
            assert ledger.outcome_of(polling) & READ
            assert polling not in ledger.in_flight
        pair[0].recv(10)
        ledger.submit(polling)
        assert ledger.has_nothing_new()

    def test_poll_is_spent_although_the_descriptor_stays_ready(self, ledger: Ledger, pair: Pair) -> None:
        assert ledger.outcome_of(Poll(pair[0].fileno(), WRITE))
        assert ledger.has_nothing_new()

    def test_both_directions_are_told_at_once(self, ledger: Ledger, pair: Pair) -> None:
        pair[1].send(b"x")
        assert ledger.outcome_of(Poll(pair[0].fileno(), READ | WRITE)) & (READ | WRITE)

    def test_several_polls_of_one_descriptor_are_independent(self, ledger: Ledger, pair: Pair) -> None:
        reading, also_reading, writing = (Poll(pair[0].fileno(), interest) for interest in (READ, READ, WRITE))
        ledger.submit(reading, also_reading, writing)
        assert ledger.result_of(writing) & WRITE
        assert not ledger.results[reading]
        pair[1].send(b"x")
        assert ledger.result_of(reading) & READ
        assert ledger.result_of(also_reading) & READ

    def test_poll_of_a_peer_that_is_gone_says_so(self, ledger: Ledger, pair: Pair) -> None:
        polling = Poll(pair[0].fileno(), READ)
        ledger.submit(polling)
        pair[1].close()
        assert ledger.result_of(polling) & (READ | ERROR | HANGUP)

    def test_poll_takes_nothing_away_from_a_receive(self, ledger: Ledger, pair: Pair) -> None:
        polling, receiving = Poll(pair[0].fileno(), READ), Receive(pair[0].fileno(), 100)
        ledger.submit(polling)
        pair[1].send(b"x")
        assert ledger.result_of(polling) & READ
        assert ledger.outcome_of(receiving) == b"x"

    def test_poll_for_edges_tells_of_each_arrival(self, ledger: Ledger, pair: Pair) -> None:
        polling = Poll(pair[0].fileno(), READ, edges=True)
        for _ in range(3):
            if polling not in ledger.in_flight:
                ledger.submit(polling)
            pair[1].send(b"x")
            assert ledger.result_of(polling) & READ
            assert pair[0].recv(10) == b"x"

    def test_poll_for_edges_can_be_cancelled_between_two(self, ledger: Ledger, pair: Pair) -> None:
        polling = Poll(pair[0].fileno(), READ, edges=True)
        pair[1].send(b"x")
        assert ledger.outcome_of(polling) & READ
        ledger.cancel(polling)
        ledger.settle()
        assert polling not in ledger.in_flight

    @pytest.mark.skipif(os.name != "posix", reason="only sockets can be polled there")
    def test_pipe_can_be_polled(self, ledger: Ledger) -> None:
        reader, writer = os.pipe()
        try:
            polling = Poll(reader, READ)
            ledger.submit(polling)
            assert ledger.has_nothing_new()
            os.write(writer, b"x")
            assert ledger.result_of(polling) & READ
        finally:
            os.close(reader)
            os.close(writer)

    @pytest.mark.skipif(os.name != "posix", reason="only sockets can be polled there")
    def test_regular_file_is_always_ready(self, ledger: Ledger) -> None:
        with tempfile.TemporaryFile() as file:
            polling = Poll(file.fileno(), READ | WRITE)
            for _ in range(2):
                assert ledger.outcome_of(polling) & (READ | WRITE)

    def test_poll_of_a_closed_number_is_an_error_in_the_completion(self, ledger: Ledger, closed_number: int) -> None:
        result = ledger.outcome_of(Poll(closed_number, READ))
        assert isinstance(result, OSError) or result & ERROR
