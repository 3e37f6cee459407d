"""The expected failures under Wine, read from expected.toml. An entry says what asyncio's own loop does there:

- `fails`: asyncio's own loop fails the same test there, so it is Wine, Windows or the test
- `passes`: it does not: a limit of loopcore on Windows
- `none`: the test has no counterpart on asyncio's loop
"""

import fnmatch
import functools
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ON_ASYNCIO = ("fails", "passes", "none")
LIST = Path(__file__).with_name("expected.toml")


@dataclass(frozen=True)
class Expected:
    """Patterns of node ids that fail, and why."""

    tests: tuple[str, ...]
    reason: str
    on_asyncio: str
    run: bool
    """False where it hangs or takes the process down"""
    strict: bool
    """False where it fails on some runs only"""


def read_expected(path: Path = LIST) -> list[Expected]:
    """Return the list. Raises ValueError where an entry has no reason or does not say what asyncio does."""
    found = []
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("expected", ()):
        expected = Expected(
            tests=tuple(entry["tests"]),
            reason=" ".join(entry["reason"].split()),
            on_asyncio=entry["asyncio"],
            run=entry.get("run", True),
            strict=entry.get("strict", True) and entry.get("run", True),
        )
        if expected.on_asyncio not in ON_ASYNCIO or not expected.reason or not expected.tests:
            raise ValueError(f"an entry needs tests, a reason, and asyncio out of {ON_ASYNCIO}: {entry}")
        found.append(expected)
    return found


UNIX = re.compile(
    r"(?:module|type object|<module) .* has no attribute '(?P<name>\w+)'|No module named '(?P<module>\w+)'"
    r"|^(?P<bare>\w+)$"
)


@functools.cache
def read_absent(path: Path = LIST) -> frozenset[str]:
    """Return the names that Windows' standard library has not got, and tests of Unix ask for."""
    return frozenset(tomllib.loads(path.read_text(encoding="utf-8"))["absent"])


def absent(exc: BaseException, node_id: str, raised_in: str) -> str | None:
    """Return what a test has asked for and Windows does not have, or None if that is not why it failed.

    `raised_in` is the file: where that is one of loopcore's own, it is loopcore's mistake.
    """
    if isinstance(exc, NotImplementedError) and "asyncio" in node_id.partition("[")[2]:
        return "asyncio's selector loop has neither pipes nor subprocesses there"
    if isinstance(exc, NotImplementedError) and "takes sockets only" in str(exc):
        return "this backend has no pipes there"
    if isinstance(exc, NotImplementedError) and "no Unix sockets on this platform" in str(exc):
        return "Unix sockets"
    file = raised_in.replace("\\", "/")
    if isinstance(exc, FileNotFoundError) and file.endswith("/subprocess.py"):
        return "a program of Unix"
    if "not supported on Windows" in str(exc) or "not supported by socket module" in str(exc):
        return str(exc)
    if isinstance(exc, AttributeError | ImportError) and "/loopcore" not in file:
        return asks_for(str(exc))
    return None


def asks_for(message: str) -> str | None:
    """Return the name, of those that Windows does not have, that the message of an error is about."""
    match = UNIX.search(message)
    name = next(filter(None, match.groups()), "") if match else ""
    return name if name in read_absent() else None


def of_test(node_id: str, expected: Iterable[Expected]) -> list[Expected]:
    """Return the entries for a test. In a pattern only `*` and `?` are special: node ids are full of brackets."""
    return [entry for entry in expected if any(matches(node_id, pattern) for pattern in entry.tests)]


def matches(node_id: str, pattern: str) -> bool:
    """Tell whether the pattern, which has no `tests/` in front, names this test."""
    return fnmatch.fnmatchcase(node_id.removeprefix("tests/"), pattern.replace("[", "[[]"))


def unused(node_ids: Iterable[str], expected: Iterable[Expected]) -> list[str]:
    """Return the patterns for files of `node_ids` that match none of them."""
    names = list(node_ids)
    files = {name.removeprefix("tests/").partition("::")[0] for name in names}
    return [
        pattern
        for entry in expected
        for pattern in entry.tests
        if pattern.partition("::")[0] in files and not any(matches(name, pattern) for name in names)
    ]
