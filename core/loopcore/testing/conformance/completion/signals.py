"""Signals: a handler that returns does not end a wait, one that raises does, and no completion is lost."""

import pytest

from loopcore.ports.completion import CompletionBackend
from loopcore.ports.operations import Receive, Send
from loopcore.testing.conformance.base import Level
from loopcore.testing.conformance.ledger import Ledger
from loopcore.testing.conformance.surroundings import PATIENCE, OnAlarm, Pair


class Interrupted(Exception):
    pass


def interrupt() -> None:
    raise Interrupted


def wait_for_alarm(port: CompletionBackend, on_alarm: OnAlarm, delay: float = 0.01) -> None:
    """Wait until an alarm interrupts. It may arrive while it is being set."""
    on_alarm(interrupt, delay)
    port.wait(PATIENCE)


class CompletionSignals(Level):
    """Signals: a handler that returns does not end a wait, one that raises does, and no completion is lost."""

    def test_handler_that_returns_does_not_end_the_wait(self, ledger: Ledger, pair: Pair, on_alarm: OnAlarm) -> None:
        receiving = Receive(pair[0].fileno(), 100)
        ledger.submit(receiving)
        on_alarm(lambda: pair[1].send(b"from the handler"))
        assert ledger.wait(PATIENCE) == [(receiving, b"from the handler", receiving in ledger.in_flight)]

    def test_handler_that_raises_ends_the_wait(
        self, ledger: Ledger, port: CompletionBackend, pair: Pair, on_alarm: OnAlarm
    ) -> None:
        ledger.submit(Receive(pair[0].fileno(), 100))
        with pytest.raises(Interrupted):
            wait_for_alarm(port, on_alarm)

    def test_handler_that_wakes_ends_the_wait(self, port: CompletionBackend, on_alarm: OnAlarm) -> None:
        on_alarm(port.wake)
        assert [*port.wait(PATIENCE)] == []

    def test_what_had_completed_comes_with_the_next_wait(
        self, ledger: Ledger, port: CompletionBackend, pair: Pair, on_alarm: OnAlarm
    ) -> None:
        receiving, sending = Receive(pair[0].fileno(), 100), Send(pair[0].fileno())
        sending.buffers = [b"x"]
        sending.quiet = True
        ledger.submit(receiving, sending)
        with pytest.raises(Interrupted):
            wait_for_alarm(port, on_alarm)
        pair[1].send(b"y")
        assert ledger.result_of(receiving) == b"y"
        assert ledger.result_of(sending) == 1

    def test_port_works_on_after_many_interruptions(
        self, ledger: Ledger, port: CompletionBackend, pair: Pair, on_alarm: OnAlarm
    ) -> None:
        receiving = Receive(pair[0].fileno(), 100)
        ledger.submit(receiving)
        for number in range(20):
            with pytest.raises(Interrupted):
                wait_for_alarm(port, on_alarm, 0.001)
            pair[1].send(b"%d" % number)
            assert ledger.result_of(receiving) == b"%d" % number
            if receiving not in ledger.in_flight:
                ledger.submit(receiving)
