"""The contract of a backend, for every one that can run here, in every way that it can run.

What is checked is in `loopcore.testing.conformance`, as a stranger gets it; here is only what it is done to. A class
for each backend, all levels; and the port alone once more for each other way: over the waker that other platforms
have, the proactor over each multiplexer, uring without some of its features.
"""

import os
from typing import Any

import pytest

from loopcore.testing.conformance import BackendContract
from tests.backends import ports

NO_EVENTFD = "import os\nvars(os).pop('eventfd', None)\n"


class FallbackWaker:
    """Without eventfd(2), backends are woken through a pair of sockets."""

    levels = ("port",)
    prelude = NO_EVENTFD

    @pytest.fixture(autouse=True)
    def _no_eventfd(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delattr(os, "eventfd", raising=False)


def contract(kind: str, base: type, **attributes: Any) -> None:
    """Define the contract's class for a backend of this kind."""
    name = "Test" + "".join(part.title() for part in kind.replace("+", "-").split("-"))
    globals()[name] = type(BackendContract)(name, (base,), {"__module__": __name__, **attributes})


class WithFallbackWaker(FallbackWaker, BackendContract):
    pass


for _name in ports.readiness_backends():
    _cannot = ports.cannot_of(_name)
    contract(_name, BackendContract, backend=_name, cannot=_cannot)
    if hasattr(os, "eventfd"):
        contract(f"{_name}-socketpair", WithFallbackWaker, backend=_name, levels=("port",), cannot=_cannot)

for _kind in ports.completion_kinds():
    _backend, _, _ = _kind.partition("-")
    _levels = ("shape", "port", "loop") if ports.is_first(_kind) else ("port",)
    _cannot = ports.cannot_of(_kind)
    contract(_kind, BackendContract, backend=_backend, options=ports.options_of(_kind), levels=_levels, cannot=_cannot)
