"""Which test proves which entry of the surface: the marks `covers` and `differs`, and what they say.

    @pytest.mark.covers("EventLoop.create_server(backlog, reuse_port)", "Server.close")
    @pytest.mark.differs("EventLoop.sock_connect", why="a full backlog is an error")

`covers` names methods that the test calls, on asyncio's loop too, and of their parameters those that it passes beside
the required ones. `differs` names what is not as in asyncio, and why; the test shows it on loopcore.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.compatibility.recording import recording

ROOT = Path(__file__).parents[2]
FOLDERS = ("tests/unit", "tests/transports", "tests/compatibility")
REPORT = "LOOPCORE_COMPATIBILITY_REPORT"
"""The environment's name for the file in which `collected` wants the marks."""

NAMED = re.compile(r"(\w+\.\w+)(?:\((.+)\))?")


class Evidence(NamedTuple):
    """What one mark of one test says."""

    test: str
    entries: tuple[tuple[str, str], ...]
    why: str
    """Why loopcore differs; empty if it does not."""
    on_asyncio: bool
    """Whether the test runs on asyncio's own loop too."""


def entries_named(text: str) -> Iterator[tuple[str, str]]:
    """The entries that an argument of a mark stands for: the method, and each parameter in parentheses."""
    match = NAMED.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not of the form 'Owner.method' or 'Owner.method(parameter, parameter)'")
    yield match[1], ""
    yield from ((match[1], parameter) for parameter in (match[2] or "").split(", ") if parameter)


def evidence_of(item: pytest.Item) -> Iterator[Evidence]:
    """What the marks of a test say."""
    name = item.nodeid.split("[")[0]
    parameters = getattr(item, "callspec", None)
    on_asyncio = parameters is not None and parameters.params.get("backend_name") == "asyncio"
    for mark in item.iter_markers():
        if mark.name in ("covers", "differs"):
            entries = tuple(entry for text in mark.args for entry in entries_named(text))
            yield Evidence(name, entries, mark.kwargs.get("why", ""), on_asyncio)


@contextlib.contextmanager
def kept_promises(item: pytest.Item) -> Iterator[None]:
    """While the test runs, record what it calls; fail it if it has not called what its marks name."""
    wanted = [entry for evidence in evidence_of(item) for entry in evidence.entries]
    if not wanted:
        yield
        return
    with recording({method for method, _ in wanted}) as missing:
        yield
    never_called = missing(wanted)
    if never_called:
        pytest.fail(f"the test's marks name what it does not call: {', '.join(never_called)}", pytrace=False)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Write down the marks, if `collected` has asked for them; it makes this module a plugin of pytest."""
    found: dict[tuple[Any, ...], bool] = {}
    for item in session.items:
        for evidence in evidence_of(item):
            found[evidence[:3]] = found.get(evidence[:3], False) or evidence.on_asyncio
    rows = [[*said, on_asyncio] for said, on_asyncio in found.items()]
    Path(os.environ[REPORT]).write_text(json.dumps(rows), encoding="utf-8")


def collected() -> list[Evidence]:
    """Collect the tests, in a process of its own, and return what their marks say."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", __name__, "-p", "no:xdist", *FOLDERS]
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "LOOPCORE_"))
        }
        result = subprocess.run(
            command, check=False, cwd=ROOT, env={**environment, REPORT: str(report)}, capture_output=True, text=True
        )
        if result.returncode:
            raise RuntimeError(f"the tests cannot be collected:\n{result.stdout}{result.stderr}")
        rows = json.loads(report.read_text(encoding="utf-8"))
    return [
        Evidence(test, tuple((method, parameter) for method, parameter in entries), why, on_asyncio)
        for test, entries, why, on_asyncio in rows
    ]
