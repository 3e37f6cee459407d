"""Readiness table model: random use of a backend, compared with a table of the events that must be reported.

The naive model knows for every socket how many bytes it can read, whether it can write, and whether its peer is gone,
and for every registered number its interest. Sockets are also closed before they are unregistered, and
numbers are reused, because programs do that; the model does not define the reports of such a stale registration.
"""

import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE, describe
from loopcore.ports.readiness import ReadinessBackend
from loopcore.testing.conformance.surroundings import PATIENCE

MOST_PAIRS = 5


choices = st.integers(0, 2 * MOST_PAIRS * 3)


interests = st.sampled_from([READ, WRITE, READ | WRITE])


@dataclass(eq=False)
class End:
    """One of two connected sockets, and the model's knowledge of it."""

    sock: socket.socket
    number: int
    peer: "End | None" = None
    unread: int = 0
    full: bool = False

    def ready(self) -> int:
        return (READ if self.unread else 0) | (0 if self.full else WRITE)


@dataclass
class Entry:
    """A registration; stale once its descriptor was closed."""

    interest: int
    stale: bool = False


@dataclass
class Model:
    open: dict[int, End] = field(default_factory=dict)
    table: dict[int, Entry] = field(default_factory=dict)
    woken: bool = False

    def must_report(self) -> dict[int, int]:
        """Return the numbers that must be reported, each with its minimum readiness."""
        due = {}
        for number, entry in self.table.items():
            if not entry.stale:
                end = self.open[number]
                ready = entry.interest if end.peer is None else entry.interest & end.ready()
                if ready:
                    due[number] = ready
        return due


class ReadinessTable(RuleBasedStateMachine):
    def __init__(self, make: Callable[[], ReadinessBackend]) -> None:
        super().__init__()
        self.backend = make()
        self.model = Model()

    def teardown(self) -> None:
        self.backend.close()
        for end in self.model.open.values():
            end.sock.close()

    def pick(self, choice: int, candidates: Iterable[int]) -> int | None:
        candidates = sorted(candidates)
        return candidates[choice % len(candidates)] if candidates else None

    @precondition(lambda self: len(self.model.open) < 2 * MOST_PAIRS)
    @rule()
    def open_pair(self) -> None:
        ends = [End(sock, sock.fileno()) for sock in socket.socketpair()]
        for end, peer in (ends, reversed(ends)):
            end.sock.setblocking(False)
            end.peer = peer
            self.model.open[end.number] = end

    @rule(choice=choices, interest=interests)
    def register(self, choice: int, interest: int) -> None:
        number = self.pick(choice, self.model.open)
        if number is None:
            return
        if number in self.model.table:
            with pytest.raises(FileExistsError):
                self.backend.register(number, interest)
        else:
            self.backend.register(number, interest)
            self.model.table[number] = Entry(interest)

    @rule(choice=choices, interest=interests)
    def modify(self, choice: int, interest: int) -> None:
        number = self.pick(choice, self.model.open)
        if number is None:
            return
        if number in self.model.table:
            self.backend.modify(number, interest)
            self.model.table[number] = Entry(interest)
        else:
            with pytest.raises(FileNotFoundError):
                self.backend.modify(number, interest)

    @rule(choice=choices)
    def unregister(self, choice: int) -> None:
        number = self.pick(choice, {*self.model.open, *self.model.table})
        if number is None:
            return
        if self.model.table.pop(number, None) is not None:
            self.backend.unregister(number)
        else:
            with pytest.raises(FileNotFoundError):
                self.backend.unregister(number)

    @rule(choice=choices)
    def send(self, choice: int) -> None:
        end = self._end(choice)
        if end is not None and end.peer is not None and not end.full:
            end.peer.unread += end.sock.send(b"x")

    @rule(choice=choices)
    def fill(self, choice: int) -> None:
        end = self._end(choice)
        if end is None or end.peer is None:
            return
        try:
            while True:
                end.peer.unread += end.sock.send(bytes(65536))
        except BlockingIOError:
            end.full = True

    @rule(choice=choices)
    def drain(self, choice: int) -> None:
        end = self._end(choice)
        if end is None or end.peer is None:
            return
        while end.unread:
            end.unread -= len(end.sock.recv(1 << 20))
        end.peer.full = False

    @rule(choice=choices, orderly=st.booleans())
    def close(self, choice: int, orderly: bool) -> None:
        end = self._end(choice)
        if end is None:
            return
        if end.number in self.model.table:
            if orderly:
                self.backend.unregister(end.number)
                del self.model.table[end.number]
            else:
                self.model.table[end.number].stale = True
        end.sock.close()
        del self.model.open[end.number]
        if end.peer is not None:
            end.peer.peer = None

    @rule()
    def wake(self) -> None:
        self.backend.wake()
        self.model.woken = True

    @rule()
    def wait(self) -> None:
        due = self.model.must_report()
        start = monotonic()
        events = self.backend.wait(PATIENCE if self.model.woken and not due else 0.0)
        assert monotonic() - start < PATIENCE
        self.model.woken = False
        reported = dict(events)
        assert len(reported) == len(events), "a descriptor was reported twice"
        for number, ready in reported.items():
            assert number in self.model.table, f"{number} is not registered"
            assert ready, f"{number} is reported as ready for nothing"
            entry = self.model.table[number]
            if not entry.stale:
                hints = ERROR | HANGUP if self.model.open[number].peer is None else 0
                assert not ready & ~(due.get(number, 0) | hints), f"{number} is not {describe(ready)}"
        for number, ready in due.items():
            hinted = reported.get(number, 0) & (ERROR | HANGUP)
            assert hinted or reported.get(number, 0) & ready == ready, f"{number} is {describe(ready)}"

    def _end(self, choice: int) -> End | None:
        number = self.pick(choice, self.model.open)
        return None if number is None else self.model.open[number]


def check(make: Callable[[], ReadinessBackend], examples: int = 60) -> None:
    """Let hypothesis look for a sequence of calls on which the backends of `make` and the model disagree."""
    run_state_machine_as_test(
        cast(Any, lambda: ReadinessTable(make)),
        settings=settings(
            max_examples=examples, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
