"""A backend of each kind, without a loop, and sockets for it to watch.

`backend` runs a test on every available backend, twice: as it is, and with the fall-back waker, so that what other
platforms rely on is tested on this one.
"""

import os
import socket
import sys
from collections.abc import Callable, Iterator
from time import monotonic

import pytest

from loopcore.backend import ReadinessBackend
from loopcore.discovery import choose_backend
from tests.backends import kqueues

BackendMaker = Callable[[], ReadinessBackend]
Pair = tuple[socket.socket, socket.socket]
PairMaker = Callable[[], Pair]

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
def make_backend(backend_name: str, waker_kind: str) -> Iterator[BackendMaker]:
    """Makes backends of the kind under test; all are closed after it."""
    made: list[ReadinessBackend] = []
    factory = choose_backend(backend_name).factory

    def make() -> ReadinessBackend:
        made.append(factory())
        return made[-1]

    yield make
    for backend in made:
        backend.close()


@pytest.fixture
def backend(make_backend: BackendMaker) -> ReadinessBackend:
    """A backend with nothing registered."""
    return make_backend()


@pytest.fixture
def make_pair() -> Iterator[PairMaker]:
    """Makes pairs of connected, non-blocking sockets; all are closed after the test."""
    made: list[Pair] = []

    def make() -> Pair:
        pair = socket.socketpair()
        for end in pair:
            end.setblocking(False)
        made.append(pair)
        return pair

    yield make
    for pair in made:
        for end in pair:
            end.close()


@pytest.fixture
def pair(make_pair: PairMaker) -> Pair:
    return make_pair()


@pytest.fixture
def fill() -> Callable[[socket.socket], int]:
    """Writes until a socket takes no more, and returns how many bytes it took."""

    def write(end: socket.socket) -> int:
        total = 0
        try:
            while True:
                total += end.send(bytes(65536))
        except BlockingIOError:
            return total

    return write


@pytest.fixture
def elapsed() -> Callable[[ReadinessBackend, float | None], float]:
    """Waits, and returns for how many seconds: a wait that nothing ends early lasts at least its timeout."""

    def wait(backend: ReadinessBackend, timeout: float | None) -> float:
        start = monotonic()
        backend.wait(timeout)
        return round(monotonic() - start, 9)  # of two readings in milliseconds, the difference ends in noise

    return wait


@pytest.fixture
def closed_number() -> int:
    """A number that no file of this process has."""
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)
    return writer


@pytest.fixture
def many_copies() -> Iterator[Callable[[int], set[int]]]:
    """Returns that many descriptors of one writable socket; needs a limit of open files that can be raised to it."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    made: list[int] = []

    def make(count: int) -> set[int]:
        wanted = count + 256
        if soft < wanted:
            if hard != resource.RLIM_INFINITY and hard < wanted:
                pytest.skip(f"this process may have {hard} open files, {wanted} are needed")
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        one, other = socket.socketpair()
        made.extend(os.dup(one.fileno()) for _ in range(count))
        made.append(other.detach())
        one.close()
        return set(made[:count])

    yield make
    for number in made:
        os.close(number)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
