"""Completion model: random use of a port, compared with a naive table of operations that must or must not have ended.

The model knows for every descriptor how many bytes can be read, and whether the peer is gone; and for every operation
what it waits for. A wait has to end the operations that the model can complete, and must leave the rest in flight.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from loopcore.ports.completion import CompletionBackend
from loopcore.ports.interest import READ
from loopcore.ports.operations import Operation, Poll, Receive, Send
from loopcore.testing.conformance.ledger import Ledger
from loopcore.testing.conformance.surroundings import PATIENCE

MOST_PAIRS = 3


choices = st.integers(0, 1000)


@dataclass(eq=False)
class End:
    """One of two connected sockets, and the model's knowledge of it."""

    sock: socket.socket
    number: int
    peer: "End | None" = None
    unread: int = 0
    """Negative while bytes of the peer's Send have been received before its completion was reported."""
    receiving: Receive | None = None
    polling: list[Poll] = field(default_factory=list)
    sending: Send | None = None

    def is_readable(self) -> bool:
        return self.unread > 0 or self.peer is None

    def on_the_way(self) -> int:
        """Bytes that a Send of the peer may have delivered before its completion is reported."""
        return len(self.peer.sending.buffers[0]) if self.peer is not None and self.peer.sending is not None else 0


class CompletionModel(RuleBasedStateMachine):
    def __init__(self, make: Callable[[], CompletionBackend]) -> None:
        super().__init__()
        self.port = make()
        self.ledger = Ledger(self.port)
        self.ends: list[End] = []
        self.cancelled: set[Operation] = set()

    def teardown(self) -> None:
        unfinished = [*self.port.close()]
        assert len(unfinished) == len(set(unfinished))
        assert set(unfinished) == self.ledger.in_flight
        for end in self.ends:
            end.sock.close()

    def pick(self, choice: int) -> End:
        return self.ends[choice % len(self.ends)]

    @precondition(lambda self: len(self.ends) < 2 * MOST_PAIRS)
    @rule()
    def open_pair(self) -> None:
        ends = [End(sock, sock.fileno()) for sock in socket.socketpair()]
        for end, peer in (ends, reversed(ends)):
            end.sock.setblocking(False)
            end.peer = peer
        self.ends += ends

    @precondition(lambda self: self.ends)
    @rule(choice=choices, limit=st.sampled_from([1, 3, 1000]))
    def receive(self, choice: int, limit: int) -> None:
        end = self.pick(choice)
        if end.receiving is None:
            end.receiving = Receive(end.number, limit)
            self.ledger.submit(end.receiving)

    @precondition(lambda self: self.ends)
    @rule(choice=choices)
    def poll(self, choice: int) -> None:
        end = self.pick(choice)
        if len(end.polling) < 2:
            end.polling.append(Poll(end.number, READ))
            self.ledger.submit(end.polling[-1])

    @precondition(lambda self: self.ends)
    @rule(choice=choices, size=st.integers(1, 5))
    def send(self, choice: int, size: int) -> None:
        end = self.pick(choice)
        if end.sending is None:
            end.sending = Send(end.number)
            end.sending.buffers = [bytes(size)]
            self.ledger.submit(end.sending)

    @precondition(lambda self: self.ends)
    @rule(choice=choices, size=st.integers(1, 5))
    def peer_sends(self, choice: int, size: int) -> None:
        end = self.pick(choice)
        if end.peer is not None:
            end.peer.unread += end.sock.send(bytes(size))

    @precondition(lambda self: self.ends)
    @rule(choice=choices)
    def somebody_else_reads(self, choice: int) -> None:
        end = self.pick(choice)
        if end.peer is not None and end.unread > 0 and end.receiving is None:
            end.unread -= len(end.sock.recv(1 << 20))

    @rule(choice=choices)
    def cancel(self, choice: int) -> None:
        if not self.ledger.in_flight:
            return  # not a precondition: chance is involved, and hypothesis needs the same rules every time
        operations = sorted(self.ledger.in_flight, key=lambda operation: (operation.fd, operation.code))
        operation = operations[choice % len(operations)]
        self.ledger.cancel(operation)
        self.cancelled.add(operation)

    @precondition(lambda self: self.ends)
    @rule(choice=choices)
    def close(self, choice: int) -> None:
        """Cancel and close, as the contract requires; the terminal completions come later."""
        end = self.pick(choice)
        mine = [operation for operation in (end.receiving, end.sending, *end.polling) if operation is not None]
        self.ledger.cancel(*mine)
        self.cancelled.update(mine)
        self.settle(end)
        end.sock.close()
        self.ends.remove(end)
        if end.peer is not None:
            end.peer.peer = None

    def settle(self, end: End) -> None:
        while end.receiving is not None or end.sending is not None or end.polling:
            self.look(PATIENCE)

    @rule()
    def wait(self) -> None:
        """Operations that can complete do, after as many waits as there are bytes; all others are still in flight."""
        due = self.due()
        for _ in range(100):
            if not due & self.ledger.in_flight:
                break
            self.look(PATIENCE)
            due &= self.due() | self.cancelled
        assert not due & self.ledger.in_flight - self.multishot()

    def due(self) -> set[Operation]:
        """Operations that must have a result."""
        due = set(self.cancelled & self.ledger.in_flight)
        for end in self.ends:
            if end.is_readable():
                due.update(end.polling)
                if end.receiving is not None:
                    due.add(end.receiving)
            if end.sending is not None:
                due.add(end.sending)
        return due & self.ledger.in_flight

    def multishot(self) -> set[Operation]:
        return {end.receiving for end in self.ends if end.receiving is not None}

    def look(self, timeout: float) -> None:
        expected = self.due()
        for operation, result, more in self.ledger.wait(timeout if expected else 0.0):
            end = next(end for end in self.ends if operation in (end.receiving, end.sending, *end.polling))
            if operation is end.receiving:
                self.received(end, result)
            elif operation is end.sending:
                self.sent(end, result)
            elif isinstance(result, OSError):
                assert operation in self.cancelled
            if more:
                continue
            self.cancelled.discard(operation)
            if operation is end.receiving:
                end.receiving = None
            elif operation is end.sending:
                end.sending = None
            else:
                end.polling.remove(cast(Poll, operation))

    def received(self, end: Any, result: Any) -> None:
        if isinstance(result, OSError):
            assert end.receiving in self.cancelled or end.peer is None
        elif result:
            assert len(result) <= min(end.receiving.limit, end.unread + end.on_the_way()), "more came in than was sent"
            end.unread -= len(result)
        else:
            assert end.peer is None, "the stream has not ended"
            assert not end.unread, "what came before the end is lost"

    def sent(self, end: End, result: Any) -> None:
        if isinstance(result, OSError):
            assert end.sending in self.cancelled or end.peer is None
        elif end.peer is not None:
            end.peer.unread += result


def check(make: Callable[[], CompletionBackend], examples: int = 40) -> None:
    """Let hypothesis look for a sequence of calls on which the backends of `make` and the model disagree."""
    run_state_machine_as_test(
        cast(Any, lambda: CompletionModel(make)),
        settings=settings(
            max_examples=examples, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
