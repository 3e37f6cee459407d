"""A completion port of each kind, without a loop, and a ledger that looks at everything it says."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.backends import ports
from tests.backends.completion.ledger import Ledger

POSIX_ONLY = ["test_files.py", "test_signals.py", "test_forking.py"]
collect_ignore = [] if os.name == "posix" else POSIX_ONLY


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "port_kind" in metafunc.fixturenames:
        metafunc.parametrize("port_kind", [*ports.completion_kinds(metafunc.definition.path)])


@pytest.fixture
def make_port(port_kind: str) -> Iterator[Callable[[], Any]]:
    """Makes ports of the kind under test; all are closed after it."""
    made: list[Any] = []
    factory = ports.maker_of(port_kind)

    def make() -> Any:
        made.append(factory())
        return made[-1]

    yield make
    for port in made:
        port.close()


@pytest.fixture
def port(make_port: Callable[[], Any]) -> Any:
    """A port with nothing in flight."""
    return make_port()


@pytest.fixture
def ledger(port: Any) -> Ledger:
    """What goes into `port` and comes out of it."""
    return Ledger(port)
