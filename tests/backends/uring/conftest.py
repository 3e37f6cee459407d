"""A port on io_uring, with or without some features, and sockets for it."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from loopcore.testing.conformance.ledger import Ledger
from loopcore_backends.uring import UringBackend, features


@pytest.fixture(autouse=True)
def _only_the_masks_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the variable masks for the whole suite, these tests mask themselves, in turn."""
    monkeypatch.delenv(features.VARIABLE, raising=False)


@pytest.fixture
def make_port() -> Iterator[Callable[..., Any]]:
    made: list[Any] = []

    def make(*without: str) -> Any:
        made.append(UringBackend(without))
        return made[-1]

    yield make
    for port in made:
        port.close()


@pytest.fixture
def port(make_port: Callable[..., Any]) -> Any:
    return make_port()


@pytest.fixture
def ledger(port: Any) -> Ledger:
    return Ledger(port)


@pytest.fixture
def make_pair() -> Iterator[Callable[[], tuple[socket.socket, socket.socket]]]:
    made: list[socket.socket] = []

    def make() -> tuple[socket.socket, socket.socket]:
        one, other = socket.socketpair()
        for end in (one, other):
            end.setblocking(False)
            made.append(end)
        return one, other

    yield make
    for end in made:
        end.close()


@pytest.fixture
def pair(make_pair: Callable[[], tuple[socket.socket, socket.socket]]) -> tuple[socket.socket, socket.socket]:
    return make_pair()
