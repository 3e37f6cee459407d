"""After closing: a port leaves nothing behind, and every operation is accounted for."""

import gc
import os
import socket
import weakref
from collections.abc import Callable

import pytest

from loopcore.errors import BackendClosedError, UsageError
from loopcore.ports.completion import CompletionBackend
from loopcore.ports.interest import READ
from loopcore.ports.operations import CLOSE, OPEN, Accept, Operation, Poll, Receive, Send, WaitProcess
from loopcore.ports.readiness import ProbeResult
from loopcore.testing.conformance.base import Level
from loopcore.testing.conformance.ledger import Ledger
from loopcore.testing.conformance.surroundings import PATIENCE, Fill, Pair, open_files


class CompletionEnds(Level):
    """After closing: a port leaves nothing behind, and every operation is accounted for."""

    @pytest.mark.parametrize("method", ["submit", "cancel"])
    def test_operations_after_close_are_refused(self, port: CompletionBackend, method: str) -> None:
        port.close()
        with pytest.raises(BackendClosedError, match=port.name):
            getattr(port, method)(Poll(0, READ))

    @pytest.mark.parametrize("timeout", [0.0, None])
    def test_wait_after_close_is_refused(self, port: CompletionBackend, timeout: float) -> None:
        port.close()
        with pytest.raises(BackendClosedError, match=port.name):
            port.wait(timeout)

    def test_wake_after_close_does_nothing(self, port: CompletionBackend) -> None:
        port.close()
        port.wake()

    def test_close_returns_what_had_not_ended_and_is_idempotent(
        self, port: CompletionBackend, ledger: Ledger, pair: Pair, fill: Fill
    ) -> None:
        fill(pair[0])
        stuck = Send(pair[0].fileno())
        stuck.buffers = [b"x"]
        operations = [Receive(pair[0].fileno(), 100), Poll(pair[0].fileno(), READ), stuck]
        ledger.submit(*operations)
        ledger.wait(0.0)
        assert set(port.close()) == ledger.in_flight
        assert [*port.close()] == []

    def test_close_returns_what_was_not_told(self, port: CompletionBackend, ledger: Ledger, pair: Pair) -> None:
        sending = Send(pair[0].fileno())
        sending.buffers = [b"x"]
        cancelled = Receive(pair[0].fileno(), 100)
        ledger.submit(sending, cancelled)
        port.cancel(cancelled)
        assert set(port.close()) == {sending, cancelled}

    def test_close_does_not_return_what_has_ended(self, port: CompletionBackend, ledger: Ledger, pair: Pair) -> None:
        receiving = Receive(pair[0].fileno(), 100)
        ledger.submit(receiving)
        pair[1].close()
        ledger.settle()
        assert [*port.close()] == []

    def test_operation_of_a_closed_port_may_go_to_another(
        self, make_port: Callable[[], CompletionBackend], pair: Pair
    ) -> None:
        receiving = Receive(pair[0].fileno(), 100)
        first, second = make_port(), make_port()
        first.submit(receiving)
        first.wait(0.0)
        first.close()
        second.submit(receiving)
        pair[1].send(b"x")
        assert next(iter(second.wait(PATIENCE)))[:2] == (receiving, b"x")

    def test_close_leaves_the_descriptors_of_others_open(
        self, port: CompletionBackend, ledger: Ledger, pair: Pair
    ) -> None:
        ledger.submit(Receive(pair[0].fileno(), 100))
        ledger.wait(0.0)
        port.close()
        pair[1].send(b"x")
        assert pair[0].recv(1) == b"x"

    def test_close_gives_every_descriptor_back(self, make_port: Callable[[], CompletionBackend], pair: Pair) -> None:
        before = open_files()
        for _ in range(5):
            port = make_port()
            port.submit(Receive(pair[0].fileno(), 100))
            port.wake()
            port.wait(0.0)
            port.close()
        assert open_files() == before

    def test_accepted_connection_that_was_not_reported_is_closed(
        self, make_port: Callable[[], CompletionBackend]
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            before = open_files()
            port = make_port()
            accepting = Accept(listening.fileno())
            port.submit(accepting)
            with socket.create_connection(listening.getsockname()):
                port.cancel(accepting)
                port.close()
            assert open_files() == before

    def test_descriptors_are_not_inherited_by_programs(self, make_port: Callable[[], CompletionBackend]) -> None:
        before = open_files()
        make_port()
        for number in open_files() - before:
            try:
                assert not os.get_inheritable(int(number))
            except OSError:  # the descriptor of the listing
                continue

    def test_closed_port_keeps_no_operation_alive(self, make_port: Callable[[], CompletionBackend], pair: Pair) -> None:
        class Watched(Receive):
            __slots__ = ("__weakref__",)

        port = make_port()
        receiving = Watched(pair[0].fileno(), 100)
        looked_at = weakref.ref(receiving)
        port.submit(receiving)
        port.wait(0.0)
        port.close()
        del receiving
        gc.collect()
        assert looked_at() is None

    def test_ports_are_independent(self, make_port: Callable[[], CompletionBackend], pair: Pair) -> None:
        one, other = make_port(), make_port()
        mine, yours = Receive(pair[0].fileno(), 100), Receive(pair[1].fileno(), 100)
        one.submit(mine)
        other.submit(yours)
        one.close()
        pair[0].send(b"x")
        assert next(iter(other.wait(PATIENCE)))[:2] == (yours, b"x")

    def test_unknown_operation_is_refused(self, port: CompletionBackend) -> None:
        known = {capability.value for capability in port.capabilities}
        unknown: list[Operation] = [] if "processes" in known else [WaitProcess(os.getpid())]
        if "files" not in known:
            unknown += [Operation(OPEN, -1), Operation(CLOSE, -1)]
        for operation in unknown:
            with pytest.raises(UsageError, match=port.name):
                port.submit(operation)

    def test_probe_has_no_side_effects(self, port: CompletionBackend) -> None:
        before = port.capabilities
        assert type(port).probe() == ProbeResult(True)
        assert port.capabilities == before
