"""What the replacements of Python's functions need of the world."""

import random
from collections.abc import Callable
from typing import Protocol


class HostView(Protocol):
    """A host, as its clock and its identity are seen by a program."""

    @property
    def name(self) -> str: ...

    @property
    def clock_offset(self) -> float:
        """Error of the host's wall clock, in seconds."""

    @property
    def clock_rate(self) -> float:
        """Seconds that the host's clocks advance in one second of true time; more than 0."""


class TapeView(Protocol):
    """The tape, as a source of random numbers."""

    def stream(self, name: str, /) -> random.Random: ...


class WorldView(Protocol):
    """One simulation."""

    @property
    def now(self) -> float:
        """True simulated time in seconds, from 0.0."""

    @property
    def host(self) -> HostView:
        """The host whose code runs."""

    @property
    def tape(self) -> TapeView: ...

    def block(self, condition: Callable[[], bool], deadline: float | None, /) -> bool:
        """Let the world progress until `condition` holds (True) or true time reaches `deadline` (False)."""
