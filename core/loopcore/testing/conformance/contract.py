"""The contract of a backend: a test class that proves it, in three lines.

    from loopcore.testing.conformance import BackendContract

    class TestMine(BackendContract):
        backend = "mine"

Run by pytest, this checks every promise of docs/reference/backend-port.md, for the port that the backend has. What
the backend cannot do is declared as data, with the reason, and skipped with it:

        cannot = {"regular-files": "the device has no readiness for files"}

or, for every user of the contract, as the attribute `cannot` of the backend's class.

Levels, from below: the shape; the port (readiness or completion), with fork and signals; a loop over it:
transports and asyncio's surface, the stream of hook calls, and a soak test that looks for leaks. `levels` may leave
some out. Where the backend cannot run, everything is skipped with the reason from its probe.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from loopcore.errors import BackendUnavailableError, UsageError
from loopcore.ports.completion import is_completion_backend
from loopcore.testing import guarantees
from loopcore.testing.conformance.base import Level
from loopcore.testing.conformance.completion import COMPLETION_LEVELS
from loopcore.testing.conformance.loop import LOOP_LEVELS
from loopcore.testing.conformance.readiness import READINESS_LEVELS
from loopcore.testing.conformance.shape import Shape
from loopcore.testing.conformance.surroundings import watchdog
from loopcore.testing.making import Named, factory_of

LEVELS = ("shape", "port", "loop")


class _Levelled(type):
    """Gives a class that names a backend the levels of that backend's port."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **more: Any) -> Any:
        if "backend" in namespace:
            inherited = filter(None, (getattr(base, "levels", None) for base in bases))
            levels = namespace.get("levels") or next(inherited, LEVELS)
            bases = (*bases, *_levels_of(namespace["backend"], levels))
        return super().__new__(mcs, name, bases, namespace, **more)


def _levels_of(backend: Named, levels: tuple[str, ...]) -> tuple[type, ...]:
    try:
        completes = is_completion_backend(factory_of(backend))
    except BackendUnavailableError as exc:
        return (_unavailable(str(exc)),)
    found = {
        "shape": (Shape,),
        "port": COMPLETION_LEVELS if completes else READINESS_LEVELS,
        "loop": LOOP_LEVELS,
    }
    return tuple(each for level in levels for each in found[level])


def _unavailable(reason: str) -> type:
    class Unavailable(Level):
        def test_backend_can_run_here(self) -> None:
            pytest.skip(reason)

    return Unavailable


class BackendContract(metaclass=_Levelled):
    """Subclass this, and set `backend`: a name, `module:class`, or the class. `Level` has the other settings."""

    levels: ClassVar[tuple[str, ...]] = LEVELS

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        unknown = set(getattr(cls, "cannot", ())) - guarantees.NAMES
        if unknown:
            raise UsageError(
                f"{cls.__name__}.cannot has {sorted(unknown)}, which the contract does not promise; it knows the "
                f"guarantees {', '.join(each.name for each in guarantees.GUARANTEES)}, and the names of their tests"
            )

    @pytest.fixture(autouse=True)
    def _declared(self, request: pytest.FixtureRequest) -> Iterator[None]:
        """Skips tests that the backend has declared in `cannot`, and ends hanging ones."""
        cannot = {**self._declared_by_the_backend(), **getattr(self, "cannot", {})}
        test = request.function.__name__
        for name in (test, *(guarantee.name for guarantee in guarantees.of_test(test))):
            if name in cannot:
                pytest.skip(f"cannot ({name}): {cannot[name]}")
        if getattr(request.function, "unhurried", False):
            yield
            return
        with watchdog():
            yield

    def _declared_by_the_backend(self) -> dict[str, str]:
        try:
            return {**getattr(factory_of(getattr(self, "backend", None)), "cannot", {})}
        except BackendUnavailableError:
            return {}
