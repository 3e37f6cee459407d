"""Port check: whether an object that is declared as a backend has what the port requires.

Thread: any. Errors: BackendError, which says what is missing and which distribution declared the backend.
"""

import inspect
from collections.abc import Callable
from typing import Any, Final, cast

from loopcore.errors import BackendError
from loopcore.ports.completion import Backend, is_completion_backend
from loopcore.ports.direct import DirectPort
from loopcore.ports.readiness import BACKEND_API, BackendFactory, ProbeResult

READINESS_METHODS: Final = ("register", "modify", "unregister", "wait", "wake", "close")
COMPLETION_METHODS: Final = ("submit", "cancel", "wait", "wake", "close")
"""The methods of a backend of each port, apart from `probe`."""


def check_factory(name: str, factory: object, by: str) -> BackendFactory:
    """Return `factory` if it has what the port requires; for a function, the backend it returns is checked later."""
    wanted = getattr(factory, "backend_api", BACKEND_API)
    is_version = isinstance(wanted, tuple) and [*map(type, wanted)] == [int, int]
    if not (is_version and wanted[0] == BACKEND_API[0] and wanted <= BACKEND_API):
        raise BackendError(
            f"backend {name!r} ({by}) is written for version {wanted!r} of the backend port, but this loopcore has "
            f"version {BACKEND_API}; install versions that fit together"
        )
    if not callable(factory):
        raise BackendError(f"backend {name!r} ({by}) is {factory!r}, which cannot be called to create a backend")
    if inspect.isclass(factory):
        _must_have_port(factory, name, by, "probe")
        return cast(BackendFactory, factory)
    return _CheckedFactory(name, factory, by)


def check_backend(backend: Backend, label: str) -> Backend:
    """Return `backend`, which `label` names in messages, if it has the members that are not methods."""
    missing = []
    if not isinstance(getattr(backend, "name", None), str):
        missing.append("`name` that is a string")
    if not isinstance(getattr(backend, "capabilities", None), frozenset | set):
        missing.append("`capabilities` that are a frozenset")
    if missing:
        raise BackendError(f"{label} has no {' and no '.join(missing)}; {_where(backend)} describes them")
    return backend


class _CheckedFactory:
    """A factory that is not a class: each backend it makes is checked then. Without `probe` it counts as available."""

    def __init__(self, name: str, factory: Callable[[], Any], by: str) -> None:
        self._name = name
        self._factory = factory
        self._by = by
        self.probe: Callable[[], ProbeResult] = getattr(factory, "probe", lambda: ProbeResult(True))

    def __call__(self) -> Backend:
        backend: Backend = self._factory()
        _must_have_port(backend, self._name, self._by)
        return backend


def _must_have_port(owner: object, name: str, by: str, *more: str) -> None:
    methods = (*more, *(COMPLETION_METHODS if is_completion_backend(owner) else READINESS_METHODS))
    missing = [method for method in methods if not callable(getattr(owner, method, None))]
    kind, own = (owner, {}) if inspect.isclass(owner) else (type(owner), getattr(owner, "__dict__", {}))
    if "wait" not in own and getattr(kind, "wait", None) is DirectPort.wait:
        missing.append("wait")  # only DirectPort's, which raises NotImplementedError
    if missing:
        raise BackendError(f"backend {name!r} ({by}) has no {', '.join(missing)}(); {_where(owner)} describes them")


def _where(owner: object) -> str:
    """Return the module that describes the port of `owner`."""
    return "loopcore.ports.completion" if is_completion_backend(owner) else "loopcore.ports.readiness"
