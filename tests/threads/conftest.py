"""The kinds of loops that run in threads, and asyncio's as the oracle where it is safe: with a GIL, or from 3.14 on."""

import asyncio
import ctypes
import os
import sys
import weakref

import pytest

from tests.backends.ports import available_backends
from tests.threads.loops import HAS_GIL, Factory

KINDS = ("epoll", "kqueue", "proactor", "iocp", "uring")
"""select and poll share all that threads can meet with epoll."""
ORACLE = "asyncio"


def kinds() -> list[str]:
    """Return the backends that run here, and the oracle."""
    found = [name for name in available_backends() if name in KINDS]
    return [*found, ORACLE] if HAS_GIL or sys.version_info >= (3, 14) else found


@pytest.fixture(scope="session", autouse=True)
def _symbolizer() -> None:
    """Start ThreadSanitizer's symbolizer: it starts at the first report, also a suppressed one, and keeps two pipes."""
    if "TSAN_OPTIONS" in os.environ:
        ctypes.CDLL(None).__sanitizer_print_stack_trace()


@pytest.fixture(autouse=True)
def _sound_weak_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Correct a fault of CPython 3.13: without a GIL, `len` of asyncio's set of tasks may briefly be negative."""
    if not HAS_GIL and sys.version_info < (3, 14):
        length = weakref.WeakSet.__len__

        def not_below_zero(tasks: "weakref.WeakSet[object]") -> int:
            return max(0, length(tasks))

        monkeypatch.setattr(weakref.WeakSet, "__len__", not_below_zero)


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
