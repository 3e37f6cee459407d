"""Multiplexers: which readiness backend the port uses."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from loopcore.errors import BackendUnavailableError, UsageError
from loopcore.ports.readiness import ReadinessBackend

MULTIPLEXERS: Final = {
    "kqueue": "loopcore_backends.kqueue:KqueueBackend",
    "epoll": "loopcore_backends.epoll:EpollBackend",
    "poll": "loopcore_backends.poll_:PollBackend",
    "select": "loopcore_backends.select_:SelectBackend",
}
"""In order of preference; each is imported when it is needed."""


def choose(name: str | None) -> Callable[[], ReadinessBackend]:
    """Return the class that `name` names, or the best of this platform for None.

    Raises UsageError for an unknown name, BackendUnavailableError for a multiplexer that cannot run here.
    """
    if name is None:
        return _best()
    if name not in MULTIPLEXERS:
        raise UsageError(f"over={name!r}: the proactor can run on {', '.join(MULTIPLEXERS)}, not on {name!r}")
    factory = _load(name)
    available, reason = factory.probe()
    if not available:
        raise BackendUnavailableError(f"over={name!r}: {reason}")
    made: Callable[[], ReadinessBackend] = factory
    return made


def _best() -> Callable[[], ReadinessBackend]:
    for name in MULTIPLEXERS:
        factory: Any = _load(name)
        if factory.probe().available:
            made: Callable[[], ReadinessBackend] = factory
            return made
    raise BackendUnavailableError("this platform has none of " + ", ".join(MULTIPLEXERS))


def _load(name: str) -> Any:
    module, _, attribute = MULTIPLEXERS[name].partition(":")
    return getattr(import_module(module), attribute)
