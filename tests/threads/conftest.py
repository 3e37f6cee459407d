"""The kinds of loops that run in threads, and asyncio's as the oracle where it is safe: with a GIL, or from 3.14 on."""

import asyncio
import sys

import pytest

from tests.backends.ports import available_backends
from tests.threads.loops import Factory

KINDS = ("epoll", "kqueue", "proactor", "iocp", "uring")
"""select and poll share all that threads can meet with epoll."""
ORACLE = "asyncio"


def kinds() -> list[str]:
    """Return the backends that run here, and the oracle."""
    found = [name for name in available_backends() if name in KINDS]
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    return [*found, ORACLE] if has_gil or sys.version_info >= (3, 14) else found


@pytest.fixture(params=kinds())
def kind(request: pytest.FixtureRequest) -> str:
    """The backend, or "asyncio"."""
    name: str = request.param
    return name


@pytest.fixture
def factory(kind: str) -> Factory:
    """Makes loops of this kind; in any thread."""
    if kind == ORACLE:
        return asyncio.SelectorEventLoop if sys.platform != "win32" else asyncio.ProactorEventLoop
    from loopcore import new_event_loop

    return lambda: new_event_loop(kind)


@pytest.fixture
def own_factory(kind: str, factory: Factory) -> Factory:
    """The same, for what only loopcore has."""
    if kind == ORACLE:
        pytest.skip("asyncio has no such thing")
    return factory
