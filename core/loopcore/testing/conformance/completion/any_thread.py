"""Calls from anywhere: `cancel`, `submit` and `close` by finalizers, signal handlers and other threads."""

import os
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from loopcore.errors import BackendClosedError
from loopcore.ports.completion import CompletionBackend
from loopcore.ports.interest import READ
from loopcore.ports.operations import Operation, Poll, Receive
from loopcore.testing.conformance.base import Level
from loopcore.testing.conformance.completion.cancelling import was_cancelled
from loopcore.testing.conformance.ledger import Ledger
from loopcore.testing.conformance.surroundings import (
    OnAlarm,
    Pair,
    PairMaker,
    beside,
    collected_inside,
    switching_often,
)

ALARMS = pytest.mark.skipif(os.name != "posix", reason="needs setitimer(2)")


class CompletionFromAnywhere(Level):
    """Calls from anywhere: `cancel`, `submit` and `close` by finalizers, signal handlers and other threads."""

    def test_finalizer_may_cancel_inside_a_wait(
        self, ledger: Ledger, port: CompletionBackend, make_pair: PairMaker
    ) -> None:
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
        self, ledger: Ledger, port: CompletionBackend, make_pair: PairMaker, on_alarm: OnAlarm
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

    def test_another_thread_may_cancel_during_a_wait(
        self, ledger: Ledger, port: CompletionBackend, make_pair: PairMaker
    ) -> None:
        (one, _), (other, peer) = make_pair(), make_pair()
        stays = Receive(other.fileno(), 100)
        ledger.submit(stays)
        for number in range(30):
            goes: Operation = Receive(one.fileno(), 100) if number % 2 else Poll(one.fileno(), READ)
            ledger.submit(goes)
            ledger.wait(0.0)
            with beside(partial(port.cancel, goes)):
                while goes in ledger.in_flight:
                    ledger.wait(None)
            assert [was_cancelled(result) for result in ledger.results[goes]] == [True]
        peer.send(b"x")
        assert ledger.result_of(stays) == b"x"

    def test_storm_of_cancellations_in_another_thread_loses_nothing(
        self, ledger: Ledger, port: CompletionBackend, pair: Pair
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

    @pytest.mark.parametrize("begun", [True, False])
    def test_finalizer_may_submit_inside_a_wait(self, ledger: Ledger, make_pair: PairMaker, begun: bool) -> None:
        """Also in the wait that begins the operations submitted before."""
        pairs = [make_pair() for _ in range(5)]
        one, other = make_pair()
        for allocations in range(1, 60, 3):
            receives = [Receive(each.fileno(), 100) for each, _ in pairs]
            late = Receive(one.fileno(), 100)
            ledger.submit(*receives)
            if begun:
                ledger.wait(0.0)
            for _, peer in [*pairs, (one, other)]:
                peer.send(b"x")
            with collected_inside(partial(ledger.submit, late), allocations):
                ledger.wait(0.0)
            for receiving in [late, *receives]:
                assert ledger.result_of(receiving) == b"x"
            ledger.cancel(late, *receives)
            ledger.settle()

    @ALARMS
    def test_signal_handler_may_submit_inside_a_wait(
        self, ledger: Ledger, make_pair: PairMaker, on_alarm: OnAlarm
    ) -> None:
        (idle, _), (one, other) = make_pair(), make_pair()
        ledger.submit(Receive(idle.fileno(), 100))
        other.send(b"x")
        late = Receive(one.fileno(), 100)
        on_alarm(partial(ledger.submit, late))
        while not ledger.results.get(late):
            ledger.wait(None)
        assert ledger.results[late] == [b"x"]

    def test_finalizer_may_close_inside_a_wait_for_completions(
        self, make_port: Callable[[], CompletionBackend], make_pair: PairMaker
    ) -> None:
        for allocations in range(1, 40, 3):
            port, pairs = make_port(), [make_pair() for _ in range(5)]
            ledger = Ledger(port)
            _ask_for_all(ledger, pairs)
            ledger.wait(0.0)
            for _, other in pairs:
                other.send(b"x")
            returned: list[Operation] = []
            with collected_inside(lambda port=port, to=returned: to.extend(port.close()), allocations):  # type: ignore[misc]
                _wait_unless_closed(ledger)
            _account(ledger, [*returned, *port.close()])
            with pytest.raises(BackendClosedError):
                ledger.wait(0.0)

    def test_close_in_another_thread_accounts_for_what_has_completed(
        self, make_port: Callable[[], CompletionBackend], make_pair: PairMaker
    ) -> None:
        """The wait may report operations that end while it is closed; no other does."""
        for _ in range(20):
            port, pairs = make_port(), [make_pair() for _ in range(5)]
            ledger = Ledger(port)
            _ask_for_all(ledger, pairs)

            def send_and_close(port: CompletionBackend = port, pairs: list[Pair] = pairs) -> Sequence[Operation]:
                for _, other in pairs:
                    other.send(b"x")
                return port.close()

            with beside(send_and_close) as returned:
                while _wait_unless_closed(ledger):
                    pass
            _account(ledger, [*returned[0], *port.close()])

    def test_another_thread_may_close_during_a_submit(
        self, make_port: Callable[[], CompletionBackend], pair: Pair
    ) -> None:
        """Each operation is either refused, or accepted and then returned."""
        with switching_often():
            for _ in range(40):
                port = make_port()
                ledger = Ledger(port)
                with beside(port.close) as returned:
                    _submit_unless_closed(ledger, [Receive(pair[0].fileno(), 100) for _ in range(300)])
                _account(ledger, [*returned[0], *port.close()])

    @ALARMS
    def test_signal_handler_may_close_inside_a_wait_for_completions(
        self, ledger: Ledger, port: CompletionBackend, pair: Pair, on_alarm: OnAlarm
    ) -> None:
        ledger.submit(Receive(pair[0].fileno(), 100), Poll(pair[0].fileno(), READ))
        ledger.wait(0.0)
        returned: list[Operation] = []
        on_alarm(lambda: returned.extend(port.close()))
        _wait_until_closed(ledger)
        _account(ledger, [*returned, *port.close()])

    def test_another_thread_may_close_during_a_wait_for_completions(
        self, make_port: Callable[[], CompletionBackend], pair: Pair
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


def _ask_for_all(ledger: Ledger, pairs: Sequence[Pair]) -> None:
    """Submit two operations for each pair: one that ends with its first result, and one that need not."""
    for one, _ in pairs:
        ledger.submit(Receive(one.fileno(), 100), Poll(one.fileno(), READ))


def _submit_unless_closed(ledger: Ledger, operations: Sequence[Operation]) -> None:
    """Submit operations to a port that is being closed elsewhere."""
    try:
        ledger.submit(*operations)
    except BackendClosedError:
        pass


def _wait_unless_closed(ledger: Ledger) -> bool:
    """Wait once in a port that is being closed elsewhere; return whether it is still open."""
    try:
        ledger.wait(None)
    except BackendClosedError:
        return False
    return True


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
