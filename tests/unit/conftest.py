"""Sockets that several files of unit tests need, and a way to run coroutines that adds nothing to the loop."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from loopcore.testing.conformance import surroundings
from loopcore.testing.conformance.surroundings import Pair
from tests.coroutines import Run


@pytest.fixture
def run(loop: asyncio.AbstractEventLoop) -> Run:
    """Runs a coroutine to its end. A limit of time would be a timer of the loop."""
    return loop.run_until_complete


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Two connected sockets, neither of which blocks."""
    with surroundings.pairs() as make:
        yield make()


@pytest.fixture
def full_address() -> Iterator[tuple[str, int]]:
    """Where a connection neither succeeds nor fails: of a listening socket whose backlog is full."""
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for each in (first, second):
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        yield full.getsockname()
