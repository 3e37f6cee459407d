"""Ports: which backends a test is for. A contract is that of one port; everything else holds over both."""

import os
from collections.abc import Iterator
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

TICKS = frozenset({"buffer_ring", "multishot_receive"})
"""The features of uring without which a program has other ticks."""


def available_backends() -> list[str]:
    """The names of the backends that can run here, or of those LOOPCORE_BACKEND narrows them to."""
    from loopcore.selection.discovery import list_backends

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
    from loopcore.ports.completion import is_completion_backend
    from loopcore.selection.discovery import choose_backend

    names = available_backends()
    if not path.is_relative_to(BACKEND_TESTS):
        return names
    completes = path.is_relative_to(BACKEND_TESTS / "completion")
    return [name for name in names if is_completion_backend(choose_backend(name).factory) == completes]


def readiness_backends() -> list[str]:
    """The backends that the contract of the readiness port is for."""
    return backends_for(BACKEND_TESTS)


def completion_kinds() -> Iterator[str]:
    """The completion backends, the proactor once for each multiplexer that it can stand on here."""
    from loopcore.selection.discovery import list_backends

    readiness = {row.name for row in list_backends() if row.available}
    for name in backends_for(BACKEND_TESTS / "completion"):
        if name == "proactor":
            yield from (f"proactor-{over}" for over in OVER if over in readiness)
        elif name == "uring":
            yield from ("uring", *(f"uring-{mask}" for mask in MASKS))
        else:
            yield name


def cannot_of(kind: str) -> dict[str, str]:
    """Return what a backend of this kind cannot, with the reason, as a contract's `cannot` says it."""
    cannot: dict[str, str] = {}
    masked = {name.strip() for name in os.environ.get("LOOPCORE_URING_WITHOUT", "").split(",")}
    if kind.startswith("uring") and masked & TICKS:
        reason = "an operation that is asked for again each time asks for a poll in a tick that would have left it out"
        cannot["test_stream_of_hook_calls_is_that_of_a_built_in_backend"] = reason
    return cannot


def is_first(kind: str) -> bool:
    """Tell whether `kind` is the first of its backend."""
    name = kind.partition("-")[0]
    return next(each for each in completion_kinds() if each.partition("-")[0] == name) == kind


def options_of(kind: str) -> dict[str, Any]:
    """Return what the class of a completion backend is called with for this kind."""
    name, _, over = kind.partition("-")
    if not over:
        return {}
    return {"without": over.split("+")} if name == "uring" else {"over": over}
