"""The contract's data and the contract's tests agree, and the manual lists both."""

import pytest

from loopcore.errors import UsageError
from loopcore.testing import guarantees
from loopcore.testing.conformance import BackendContract
from loopcore.testing.conformance.completion import EVERYWHERE, POSIX
from loopcore.testing.conformance.loop import LOOP_LEVELS
from loopcore.testing.conformance.readiness import READINESS_LEVELS
from loopcore.testing.conformance.shape import Shape
from tests.docs import guarantees_page

ONLY_WHERE_UNAVAILABLE = {"test_backend_can_run_here"}
LEVELS = {
    "readiness": (Shape, *READINESS_LEVELS, *LOOP_LEVELS),
    "completion": (Shape, *EVERYWHERE, *POSIX, *LOOP_LEVELS),
}


def checks_of(port: str) -> list[str]:
    return [name for level in LEVELS[port] for name in dir(level) if name.startswith("test_")]


@pytest.mark.parametrize("port", LEVELS)
def test_no_test_of_a_port_hides_another(port: str) -> None:
    assert len(checks_of(port)) == len(set(checks_of(port)))


@pytest.mark.parametrize("port", LEVELS)
def test_every_test_stands_under_a_guarantee_of_its_port(port: str) -> None:
    for test in checks_of(port):
        assert {each.port for each in guarantees.of_test(test)} & {port, "both"}, test


def test_every_test_that_a_guarantee_names_is_there() -> None:
    for guarantee in guarantees.GUARANTEES:
        ports = LEVELS if guarantee.port == "both" else [guarantee.port]
        known = {test for port in ports for test in checks_of(port)} | ONLY_WHERE_UNAVAILABLE
        assert guarantee.tests
        assert set(guarantee.tests) <= known, guarantee.name
        assert any(test in checks_of(port) for port in ports for test in guarantee.tests)


def test_names_are_unique_and_none_is_a_tests() -> None:
    names = [each.name for each in guarantees.GUARANTEES]
    assert len(names) == len(set(names))
    assert not any(name.startswith("test_") for name in names)


def test_the_manual_lists_every_guarantee_with_its_tests() -> None:
    page = guarantees_page.PAGE.read_text(encoding="utf-8")
    assert page == guarantees_page.rewritten(page), "run: python -m tests.docs.guarantees_page"


def test_what_is_no_guarantee_cannot_be_declared() -> None:
    with pytest.raises(UsageError, match=r"\['flying'\].*regular-files"):
        type(BackendContract)("TestMine", (BackendContract,), {"backend": "select", "cannot": {"flying": "no wings"}})


def test_levels_are_inherited_over_any_distance() -> None:
    class Base(BackendContract):
        levels = ("shape",)

    class Between(Base):
        pass

    class Mine(Between):
        backend = "select"

    assert issubclass(Mine, Shape)
    assert not issubclass(Mine, (*READINESS_LEVELS, *LOOP_LEVELS))
