"""The base of every level of the contract: the backend under test, and the fixtures that tests use.

Fixtures are methods, so that they come with the class and affect only its subclasses.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import pytest

from loopcore.ports.completion import Backend, CompletionBackend
from loopcore.testing.conformance import surroundings
from loopcore.testing.conformance.ledger import Ledger
from loopcore.testing.conformance.surroundings import Elapsed, Fill, ManyCopies, OnAlarm, Pair, PairMaker
from loopcore.testing.making import Named, factory_of, run_beside

F = TypeVar("F", bound=Callable[..., None])


def unhurried(test: F) -> F:
    """Mark a slow test: the watchdog ignores it, and short runs leave it out."""
    test.unhurried = True  # type: ignore[attr-defined]
    return test


class Level:
    """A part of the contract: methods `test_...` over the fixtures here. Subclass `BackendContract`, not this."""

    backend: ClassVar[Named]
    """The installed name, `module:class`, or the class."""
    options: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Keyword arguments for the class, if it takes any beyond the port's; must be JSON."""
    cannot: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Guarantees, or tests of the contract, that this backend cannot keep or pass, each with the reason."""
    prelude: ClassVar[str] = ""
    """Statements that run first in processes that a test starts."""

    @classmethod
    def factory(cls) -> Any:
        """Return the factory of the backend under test."""
        return factory_of(cls.backend)

    @classmethod
    def make(cls) -> Any:
        """Return a new backend, which the caller closes."""
        return cls.factory()(**cls.options)

    def run_beside(self, program: str) -> None:
        """Run `program` in a separate process, where `port` is a new backend."""
        run_beside(self.backend, self.options, program, self.prelude)

    @pytest.fixture
    def make_port(self) -> Iterator[Callable[[], Backend]]:
        """Makes backends of the kind under test; all are closed after the test."""
        made: list[Backend] = []

        def make() -> Backend:
            made.append(self.make())
            return made[-1]

        yield make
        for port in made:
            port.close()

    @pytest.fixture
    def port(self, make_port: Callable[[], Backend]) -> Backend:
        """A backend with nothing registered and nothing in flight."""
        return make_port()

    @pytest.fixture
    def ledger(self, port: CompletionBackend) -> Ledger:
        """Tracks what goes into `port` and comes out of it; for completion ports."""
        return Ledger(port)

    @pytest.fixture
    def make_pair(self) -> Iterator[PairMaker]:
        """Makes pairs of connected, non-blocking sockets; all are closed after the test."""
        with surroundings.pairs() as make:
            yield make

    @pytest.fixture
    def pair(self, make_pair: PairMaker) -> Pair:
        """Two connected, non-blocking sockets."""
        return make_pair()

    @pytest.fixture
    def fill(self) -> Fill:
        """Writes until a socket takes no more, and returns how many bytes it took."""
        return surroundings.fill

    @pytest.fixture
    def elapsed(self) -> Elapsed:
        """Waits, and returns for how many seconds."""
        return surroundings.elapsed

    @pytest.fixture
    def closed_number(self) -> int:
        """A descriptor number that is not open in this process."""
        return surroundings.closed_number()

    @pytest.fixture
    def many_copies(self) -> Iterator[ManyCopies]:
        """Returns that many descriptors of one writable socket."""
        with surroundings.copies() as make:
            yield make

    @pytest.fixture
    def on_alarm(self) -> Iterator[OnAlarm]:
        """Sets a handler for SIGALRM and sends the signal that many seconds from now."""
        with surroundings.alarms() as arm:
            yield arm
