"""A ledger: every operation submitted to a port, and every completion returned, checked as it arrives."""

from typing import Any

from loopcore.ports.completion import Completion, CompletionBackend
from loopcore.ports.operations import ACCEPT, RECEIVE, RECEIVE_FROM, Operation, Poll
from loopcore.testing.conformance.surroundings import PATIENCE

MULTISHOT = frozenset({ACCEPT, RECEIVE, RECEIVE_FROM})


class Ledger:
    """Submits to `port`, waits in it, and fails as soon as it breaks the contract."""

    def __init__(self, port: CompletionBackend) -> None:
        self.port = port
        self.in_flight: set[Operation] = set()
        self.results: dict[Operation, list[Any]] = {}

    def submit(self, *operations: Operation) -> None:
        for operation in operations:
            self.port.submit(operation)
            assert operation not in self.in_flight, "an operation in flight was accepted"
            self.in_flight.add(operation)
            self.results.setdefault(operation, [])

    def cancel(self, *operations: Operation) -> None:
        for operation in operations:
            self.port.cancel(operation)

    def wait(self, timeout: float | None = 0.0) -> list[Completion]:
        """Wait once."""
        completions = [*self.port.wait(timeout)]
        for operation, result, more in completions:
            assert operation in self.in_flight, f"{operation} has ended, or was never submitted: {result!r}"
            assert not (more and isinstance(result, OSError)), "an error ends an operation"
            if more:
                assert operation.code in MULTISHOT or (isinstance(operation, Poll) and operation.edges), (
                    f"{operation} has one result only"
                )
            else:
                self.in_flight.remove(operation)
            self.results[operation].append(result)
        return completions

    def result_of(self, operation: Operation) -> Any:
        """Wait for the next result of `operation`, and remove it."""
        while not self.results[operation]:
            assert self.wait(PATIENCE), f"{operation} has no result"
        return self.results[operation].pop(0)

    def outcome_of(self, operation: Operation) -> Any:
        """Submit `operation`, which has one result, and wait for it."""
        self.submit(operation)
        return self.result_of(operation)

    def settle(self, *operations: Operation) -> None:
        """Wait until these operations have ended, or all if none is given."""
        while self.in_flight.intersection(operations or self.in_flight):
            assert self.wait(PATIENCE), f"{self.in_flight} did not end"

    def has_nothing_new(self) -> bool:
        """Return whether two waits of 0 seconds bring nothing: the first may only have started an operation."""
        return not self.wait(0.0) and not self.wait(0.0)
