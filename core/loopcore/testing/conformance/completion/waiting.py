"""How long a wait lasts, and what ends it: completions, wakes, time."""

import socket
import threading
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from loopcore.ports.completion import Completion, CompletionBackend
from loopcore.ports.interest import READ
from loopcore.ports.operations import Poll, Receive, Send
from loopcore.testing.conformance.base import Level
from loopcore.testing.conformance.ledger import Ledger
from loopcore.testing.conformance.surroundings import PATIENCE, Pair, PairMaker, is_soon, latency

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def send_of(end: socket.socket, *buffers: "ReadableBuffer") -> Send:
    operation = Send(end.fileno())
    operation.buffers = buffers
    return operation


def lasts(port: CompletionBackend, timeout: float) -> float:
    start = monotonic()
    assert [*port.wait(timeout)] == []
    return round(monotonic() - start, 9)  # the difference of two readings in units of 100 ns ends in noise


class CompletionWaits(Level):
    """How long a wait lasts, and what ends it: completions, wakes, time."""

    def test_wait_ends_soon_after_its_timeout(self, port: CompletionBackend, ledger: Ledger, pair: Pair) -> None:
        ledger.submit(Receive(pair[0].fileno(), 100))
        assert is_soon(lambda: lasts(port, 0.01))

    def test_completion_ends_a_wait_soon(self, ledger: Ledger, pair: Pair) -> None:
        receiving = Receive(pair[0].fileno(), 100)

        def latency_of_a_completion() -> float:
            if receiving not in ledger.in_flight:
                ledger.submit(receiving)
            return latency(ledger.wait, lambda: pair[1].send(b"x"))

        assert is_soon(latency_of_a_completion)

    def test_wake_ends_a_wait_soon(self, port: CompletionBackend) -> None:
        assert is_soon(lambda: latency(port.wait, port.wake))

    @pytest.mark.parametrize("timeout", [1e-9, 0.0001, 0.00099, 0.001, 0.0105])
    def test_wait_never_ends_before_its_timeout(self, port: CompletionBackend, timeout: float) -> None:
        for _ in range(5):
            assert lasts(port, timeout) >= timeout

    def test_wait_never_ends_before_its_timeout_with_operations_in_flight(
        self, port: CompletionBackend, ledger: Ledger, pair: Pair
    ) -> None:
        ledger.submit(Receive(pair[0].fileno(), 100), Poll(pair[0].fileno(), READ))
        assert lasts(port, 0.02) >= 0.02

    @pytest.mark.parametrize("timeout", [1e7, 1e12, 1e300, float("inf")])
    def test_timeout_longer_than_the_system_call_can_say_is_accepted(
        self, port: CompletionBackend, timeout: float
    ) -> None:
        port.wake()
        assert [*port.wait(timeout)] == []

    def test_none_waits_until_something_completes(self, ledger: Ledger, pair: Pair) -> None:
        receiving = Receive(pair[0].fileno(), 100)
        ledger.submit(receiving)
        sender = threading.Thread(target=pair[1].send, args=(b"x",), daemon=True)
        sender.start()
        assert ledger.result_of(receiving) == b"x"
        sender.join()

    def test_readiness_that_brings_nothing_does_not_end_a_wait(
        self, port: CompletionBackend, ledger: Ledger, pair: Pair
    ) -> None:
        """The bytes that woke a receive were read elsewhere; nothing is reported, and the timeout still runs."""
        receiving = Receive(pair[0].fileno(), 100)
        ledger.submit(receiving)
        ledger.wait(0.0)
        pair[1].send(b"x")
        try:
            pair[0].recv(10)
        except BlockingIOError:
            assert ledger.result_of(receiving) == b"x"  # the kernel itself received, right after the wake-up
            return
        completions: list[Completion] = []
        start = monotonic()
        while monotonic() - start < 0.02 and not completions:
            completions = ledger.wait(0.02)
        assert [result for _, result, _ in completions] in ([], [b"x"])

    def test_wake_before_wait_is_not_lost(self, port: CompletionBackend) -> None:
        port.wake()
        assert lasts(port, PATIENCE) < PATIENCE

    def test_wake_from_another_thread_ends_the_wait(self, port: CompletionBackend) -> None:
        waker = threading.Thread(target=port.wake, daemon=True)
        waker.start()
        assert lasts(port, PATIENCE) < PATIENCE
        waker.join()

    def test_wake_does_not_hide_completions(self, port: CompletionBackend, ledger: Ledger, pair: Pair) -> None:
        sending = send_of(pair[0], b"x")
        ledger.submit(sending)
        port.wake()
        assert ledger.result_of(sending) == 1

    def test_wakes_coalesce(self, port: CompletionBackend) -> None:
        for _ in range(3):
            port.wake()
        for _ in range(4):
            port.wait(0.0)
        assert lasts(port, 0.02) >= 0.02

    def test_many_completions_come_in_one_wait(self, ledger: Ledger, make_pair: PairMaker) -> None:
        pairs = [make_pair() for _ in range(50)]
        receives = [Receive(one.fileno(), 100) for one, _ in pairs]
        ledger.submit(*receives)
        ledger.wait(0.0)
        for _, other in pairs:
            other.send(b"x")
        waits = 0
        while not all(ledger.results[receiving] for receiving in receives):
            assert ledger.wait(PATIENCE)
            waits += 1
        assert waits < 50

    def test_success_of_a_quiet_operation_comes_with_the_next_that_ends_a_wait(
        self, port: CompletionBackend, ledger: Ledger, pair: Pair
    ) -> None:
        receiving, sending = Receive(pair[0].fileno(), 100), send_of(pair[0], b"x")
        sending.quiet = True
        ledger.submit(receiving, sending)
        pair[1].send(b"y")
        assert ledger.result_of(receiving) == b"y"
        assert ledger.results[sending] == [1]

    def test_success_of_a_quiet_operation_is_told_when_the_wait_has_timed_out(self, ledger: Ledger, pair: Pair) -> None:
        sending = send_of(pair[0], b"x")
        sending.quiet = True
        ledger.submit(sending)
        ledger.wait(0.02)
        assert ledger.results[sending] == [1]

    def test_failure_of_a_quiet_operation_ends_the_wait(self, ledger: Ledger, pair: Pair) -> None:
        pair[1].close()
        sending = send_of(pair[0], b"x")
        sending.quiet = True
        ledger.submit(sending)
        assert isinstance(ledger.result_of(sending), OSError)

    def test_operation_that_is_quiet_no_longer_ends_the_wait(self, ledger: Ledger, pair: Pair) -> None:
        sending = send_of(pair[0], b"x")
        sending.quiet = True
        ledger.submit(sending)
        sending.quiet = False
        assert ledger.wait(PATIENCE) == [(sending, 1, False)]

    def test_one_descriptor_does_not_starve_the_others(self, ledger: Ledger, make_pair: PairMaker) -> None:
        """However much has arrived on one, every wait checks all."""
        (busy, source), (other, quiet) = make_pair(), make_pair()
        receiving, waiting = Receive(busy.fileno(), 10), Receive(other.fileno(), 10)
        ledger.submit(receiving, waiting)
        source.send(bytes(100_000))
        quiet.send(b"x")
        while not ledger.results[waiting]:
            assert ledger.wait(PATIENCE)
            if receiving not in ledger.in_flight:
                ledger.submit(receiving)
        assert sum(map(len, ledger.results[receiving])) < 100_000
