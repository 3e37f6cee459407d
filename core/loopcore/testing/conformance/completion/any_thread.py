"""Calls from anywhere: `cancel` and `close` by finalizers, signal handlers and other threads, inside a wait."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from loopcore.errors import BackendClosedError
from loopcore.interest import READ
from loopcore.operations import Operation, Poll, Receive
from loopcore.testing.conformance.base import Level
from loopcore.testing.conformance.completion.cancelling import was_cancelled
from loopcore.testing.conformance.ledger import Ledger
from loopcore.testing.conformance.surroundings import OnAlarm, Pair, PairMaker, beside, collected_inside

ALARMS = pytest.mark.skipif(os.name != "posix", reason="needs setitimer(2)")


class CompletionFromAnywhere(Level):
    """Calls from anywhere: `cancel` and `close` by finalizers, signal handlers and other threads, inside a wait."""

    def test_finalizer_may_cancel_inside_a_wait(self, ledger: Ledger, port: Any, make_pair: PairMaker) -> None:
        pairs = [make_pair() for _ in range(20)]
        victim_pair = make_pair()
        for allocations in range(1, 80, 3):
            receives = [Receive(one.fileno(), 100) for one, _ in pairs]
            victim = Poll(victim_pair[0].fileno(), READ)
            ledger.submit(*receives, victim)
            ledger.wait(0.0)
            for number, (_, other) in enumerate(pairs):
                other.send(b"%d" % number)
            with collected_inside(partial(port.cancel, victim), allocations):
                ledger.wait(0.0)
            for number, receiving in enumerate(receives):
                assert ledger.result_of(receiving) == b"%d" % number
            ledger.cancel(*receives)
            ledger.settle()
            assert [was_cancelled(result) for result in ledger.results[victim]] == [True]
            assert all(was_cancelled(last) for each in receives for last in ledger.results[each])

    @ALARMS
    def test_signal_handler_may_cancel_inside_a_wait(
        self, ledger: Ledger, port: Any, make_pair: PairMaker, on_alarm: OnAlarm
    ) -> None:
        (one, _), (other, peer) = make_pair(), make_pair()
        goes, stays = Receive(one.fileno(), 100), Receive(other.fileno(), 100)
        ledger.submit(goes, stays)
        ledger.wait(0.0)
        on_alarm(lambda: port.cancel(goes))
        while goes in ledger.in_flight:
            ledger.wait(None)
        assert [was_cancelled(result) for result in ledger.results[goes]] == [True]
        peer.send(b"x")
        assert ledger.result_of(stays) == b"x"

    def test_another_thread_may_cancel_during_a_wait(self, ledger: Ledger, port: Any, make_pair: PairMaker) -> None:
        (one, _), (other, peer) = make_pair(), make_pair()
        stays = Receive(other.fileno(), 100)
        ledger.submit(stays)
        for number in range(30):
            goes: Any = Receive(one.fileno(), 100) if number % 2 else Poll(one.fileno(), READ)
            ledger.submit(goes)
            ledger.wait(0.0)
            with beside(partial(port.cancel, goes)):
                while goes in ledger.in_flight:
                    ledger.wait(None)
            assert [was_cancelled(result) for result in ledger.results[goes]] == [True]
        peer.send(b"x")
        assert ledger.result_of(stays) == b"x"

    def test_storm_of_cancellations_in_another_thread_loses_nothing(
        self, ledger: Ledger, port: Any, pair: Pair
    ) -> None:
        """Bytes received by then are a result of the cancelled operation, or still in the socket."""
        came = b""
        for number in range(200):
            receiving = Receive(pair[0].fileno(), 100)
            ledger.submit(receiving)

            def send_and_cancel(number: int = number, receiving: Operation = receiving) -> None:
                pair[1].send(b"%d," % number)
                port.cancel(receiving)

            with beside(send_and_cancel):
                while receiving in ledger.in_flight:
                    ledger.wait(None)
            results = ledger.results.pop(receiving)
            came += b"".join(result for result in results if not isinstance(result, OSError))
        try:
            came += pair[0].recv(65536)
        except BlockingIOError:
            pass
        assert came == b"".join(b"%d," % number for number in range(200))

    @ALARMS
    def test_signal_handler_may_close_inside_a_wait_for_completions(
        self, ledger: Ledger, port: Any, pair: Pair, on_alarm: OnAlarm
    ) -> None:
        ledger.submit(Receive(pair[0].fileno(), 100), Poll(pair[0].fileno(), READ))
        ledger.wait(0.0)
        returned: list[Operation] = []
        on_alarm(lambda: returned.extend(port.close()))
        _wait_until_closed(ledger)
        _account(ledger, [*returned, *port.close()])

    def test_another_thread_may_close_during_a_wait_for_completions(
        self, make_port: Callable[[], Any], pair: Pair
    ) -> None:
        for number in range(20):
            port = make_port()
            ledger = Ledger(port)
            ledger.submit(Receive(pair[0].fileno(), 100), Poll(pair[0].fileno(), READ))
            if number % 2:
                ledger.wait(0.0)
            with beside(port.close) as returned:
                _wait_until_closed(ledger)
            _account(ledger, [*returned[0], *port.close()])
            pair[1].send(b"x")
            assert pair[0].recv(1) == b"x"


def _wait_until_closed(ledger: Ledger) -> None:
    """Wait in a port that is being closed elsewhere."""
    try:
        while True:
            assert ledger.wait(None) == []
    except BackendClosedError:
        pass
    with pytest.raises(BackendClosedError):
        ledger.wait(0.0)


def _account(ledger: Ledger, returned: Sequence[Operation]) -> None:
    """Check that each operation was either returned by a wait or by one of the calls of `close`, once."""
    assert len(returned) == len(set(returned))
    assert set(returned) == ledger.in_flight
