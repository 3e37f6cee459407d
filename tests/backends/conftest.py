"""Sockets for backends to watch, from `loopcore.testing`, and the ways to wake one.

What every backend promises is in test_contract.py; the other tests here are of what only one of ours has.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from loopcore.testing.conformance import surroundings
from loopcore.testing.conformance.surroundings import Elapsed, Fill, Pair, PairMaker
from loopcore_backends._waker import FlaggedWaker
from tests.backends import kqueues

collect_ignore = [] if sys.platform == "linux" else ["test_kqueue.py"]  # its fake stands on epoll

WAKERS = ["eventfd", "socketpair"] if hasattr(os, "eventfd") else ["socketpair"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item, reason, run in kqueues.deviations(items) if kqueues.library() else ():
        item.add_marker(pytest.mark.xfail(reason=f"libkqueue: {reason}", run=run, strict=False))  # versions differ


@pytest.fixture(params=WAKERS)
def waker_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What backends are woken through while this test runs."""
    kind: str = request.param
    if kind == "socketpair":
        monkeypatch.delattr(os, "eventfd", raising=False)
    return kind


@pytest.fixture
def make_pair() -> Iterator[PairMaker]:
    """Makes pairs of connected, non-blocking sockets; all are closed after the test."""
    with surroundings.pairs() as make:
        yield make


@pytest.fixture
def pair(make_pair: PairMaker) -> Pair:
    return make_pair()


@pytest.fixture
def fill() -> Fill:
    """Writes until a socket takes no more, and returns how many bytes it took."""
    return surroundings.fill


@pytest.fixture
def elapsed() -> Elapsed:
    """Waits, and returns for how many seconds."""
    return surroundings.elapsed


@pytest.fixture
def closed_number() -> int:
    """A number that no file of this process has."""
    return surroundings.closed_number()


@pytest.fixture
def wait_inside_close() -> Callable[[Any], Sequence[object]]:
    """Closes a backend, waits once the close has seen no wait under way, as a thread may, and returns the events."""

    def close(backend: Any) -> Sequence[object]:
        outcomes: list[Sequence[object] | Exception] = []

        class Raced(FlaggedWaker):
            __slots__ = ()

            def is_in_use(self) -> bool:
                used = super().is_in_use()
                if not outcomes:
                    outcomes.append(())  # once
                    try:
                        outcomes.append(backend.wait(0.0))
                    except Exception as exc:
                        outcomes.append(exc)
                return used

        backend._waker = Raced()
        backend.close()
        outcome = outcomes[-1]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return close
