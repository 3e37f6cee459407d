"""Ports: which backends a test is for. A contract is that of one port; everything else holds over both."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

BACKEND_TESTS = Path(__file__).parent

OVER = ("kqueue", "epoll", "poll", "select")
"""What the proactor stands on, which is tried in turn."""

MASKS = (
    "defer_taskrun",
    "buffer_ring",
    "incremental",
    "incremental+bundles",
    "multishot_receive+multishot_accept+multishot_poll",
    "inline_sends+waitid+files",
)
"""What uring does without, in turn."""


def available_backends() -> list[str]:
    """The names of the backends that can run here, or of those LOOPCORE_BACKEND narrows them to."""
    from loopcore.discovery import list_backends

    names = [row.name for row in list_backends() if row.available]
    wanted = [name.strip() for name in os.environ.get("LOOPCORE_BACKEND", "").split(",") if name.strip()]
    if wanted and "auto" not in wanted:
        missing = set(wanted) - set(names)
        if missing:
            raise pytest.UsageError(f"LOOPCORE_BACKEND names {sorted(missing)}; available here: {names}")
        names = [name for name in names if name in wanted]
    return names


def backends_for(path: Path) -> list[str]:
    """The backends that a test in `path` is for."""
    from loopcore.completion import is_completion_backend
    from loopcore.discovery import choose_backend

    names = available_backends()
    if not path.is_relative_to(BACKEND_TESTS):
        return names
    completes = path.is_relative_to(BACKEND_TESTS / "completion")
    return [name for name in names if is_completion_backend(choose_backend(name).factory) == completes]


def completion_kinds(path: Path) -> Iterator[str]:
    """The completion backends, the proactor once for each multiplexer that it can stand on here."""
    from loopcore.discovery import list_backends

    readiness = {row.name for row in list_backends() if row.available}
    for name in backends_for(path):
        if name == "proactor":
            yield from (f"proactor-{over}" for over in OVER if over in readiness)
        elif name == "uring":
            yield from ("uring", *(f"uring-{mask}" for mask in MASKS))
        else:
            yield name


def maker_of(kind: str) -> Callable[[], Any]:
    """Return what makes a completion backend of this kind."""
    from loopcore.discovery import choose_backend

    name, _, over = kind.partition("-")
    factory: Any = choose_backend(name).factory
    if name == "uring":
        return lambda: factory(without=over.split("+") if over else ())
    return (lambda: factory(over=over)) if over else factory
