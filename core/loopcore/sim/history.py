"""The history of a run: which client asked what, when, and what it was answered.

    history = History(clock)
    with history.operation("ann", "write", "colour", "red") as operation:
        await client.put("colour", "red")
    with history.operation("bob", "read", "colour") as operation:
        operation.returns(await client.get("colour"))

An operation ends in one of three ways, as in Jepsen's histories:

- it returned: `returns` was called, or the block ended, which is a return of None;
- it failed: `fails` was called, so it certainly had no effect and is not part of the history;
- its outcome is unknown: an exception or a cancellation left the block, or its host crashed and the block never ended.
  It may have taken effect at any time after its beginning, or never.

Simulated time stands still while code runs, so many operations begin and end at the same instant. Their order is
therefore the order of the calls to the history, and the times are for people. Thread: one.
"""

from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import Final, Literal, NamedTuple

from loopcore.errors import UsageError
from loopcore.text import printable


class Unknown(Enum):
    """The type of `UNKNOWN`, the result of an operation whose outcome is unknown."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN


class Operation(NamedTuple):
    """A recorded operation."""

    client: str
    action: str
    arguments: tuple[object, ...]
    result: object
    """What it returned, or `UNKNOWN`."""
    began: int
    """Its position among all beginnings and ends of the history."""
    ended: int | None
    """The position of its end; None if its outcome is unknown."""
    began_at: float
    """Seconds of simulated time."""
    ended_at: float | None

    def may_return(self, value: object) -> bool:
        """Return whether the result is `value` or unknown."""
        return self.result is UNKNOWN or self.result == value

    def __str__(self) -> str:
        """Return for example `ann: read('colour') -> 'red' [0.100 s to 0.250 s]`."""
        call = f"{self.client}: {self.action}({', '.join(map(repr, self.arguments))})"
        if self.ended_at is None:
            return printable(f"{call} -> unknown [since {self.began_at:.3f} s]")
        return printable(f"{call} -> {self.result!r} [{self.began_at:.3f} s to {self.ended_at:.3f} s]")


class Recording:
    """An operation that is under way: a context manager, made by `History.operation`."""

    __slots__ = ("_clock", "_operation", "_position", "_state")

    def __init__(self, operation: Operation, clock: Callable[[], float], position: Callable[[], int]) -> None:
        self._operation = operation
        self._clock = clock
        self._position = position
        self._state: Literal["open", "returned", "failed"] = "open"

    def returns(self, value: object) -> None:
        """Record that the operation returned `value` now. Raises UsageError if its outcome is recorded already."""
        self._settle("returned")
        self._operation = self._operation._replace(result=value, ended=self._position(), ended_at=self._clock())

    def fails(self) -> None:
        """Record that the operation had no effect and never will. Raises UsageError as `returns` does."""
        self._settle("failed")

    def _settle(self, state: Literal["returned", "failed"]) -> None:
        if self._state != "open":
            raise UsageError(f"this operation has {self._state} already: record one outcome for each operation")
        self._state = state

    def __enter__(self) -> "Recording":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None and self._state == "open":
            self.returns(None)


class History:
    """A record of concurrent operations. `clock` returns the simulated time in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._events = 0
        self._recordings: list[Recording] = []

    def operation(self, client: str, action: str, *arguments: object) -> Recording:
        """Record that `client` begins an operation now. The result is the context manager of its block."""
        operation = Operation(client, action, arguments, UNKNOWN, self._position(), None, self._clock(), None)
        recording = Recording(operation, self._clock, self._position)
        self._recordings.append(recording)
        return recording

    def operations(self) -> list[Operation]:
        """Return the operations in the order of their beginnings, without those that failed."""
        return [each._operation for each in self._recordings if each._state != "failed"]

    def _position(self) -> int:
        self._events += 1
        return self._events
