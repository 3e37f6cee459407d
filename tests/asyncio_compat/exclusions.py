"""The exclusion list: tests that are not run, each with its reason; read from exclusions.toml.

A line belongs to one of three kinds:

- `internals`: tests a private part of CPython's implementation (a mock selector, a private attribute)
- `platform`: tests another operating system
- `asyncio`: asyncio's own loop fails it too, on this machine; `run.py --oracle` checks that

A pattern that matches no test of a Python it is meant for is an error: the list must not outlive what it excuses.
"""

import fnmatch
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

KINDS = ("internals", "platform", "asyncio")
EVERY_TEST = "*"
LIST = Path(__file__).with_name("exclusions.toml")


@dataclass(frozen=True)
class Exclusion:
    """Patterns of tests of one module, and why they are not run."""

    module: str
    tests: tuple[str, ...]
    kind: str
    reason: str
    versions: tuple[str, ...]
    """Pythons it is for, such as "3.12"; none means all."""

    def covers(self, version: str) -> bool:
        return not self.versions or version in self.versions

    @property
    def whole_module(self) -> bool:
        return EVERY_TEST in self.tests


def read_exclusions(path: Path = LIST) -> list[Exclusion]:
    """Return the list. Raises ValueError where a line has no reason or is of no known kind."""
    found = []
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["exclude"]:
        exclusion = Exclusion(
            module=entry["module"],
            tests=tuple(entry["tests"]),
            kind=entry["kind"],
            reason=" ".join(entry["reason"].split()),
            versions=tuple(entry.get("versions", ())),
        )
        if exclusion.kind not in KINDS or not exclusion.reason or not exclusion.tests:
            raise ValueError(f"an exclusion needs tests, a reason, and a kind out of {KINDS}: {entry}")
        found.append(exclusion)
    return found


def of_module(exclusions: Iterable[Exclusion], module: str, version: str) -> list[Exclusion]:
    """Return those that concern `module` on Python `version`."""
    return [each for each in exclusions if each.module == module and each.covers(version)]


def reasons_for(tests: Sequence[str], exclusions: Iterable[Exclusion]) -> tuple[dict[str, Exclusion], list[str]]:
    """Return the excluded ones of `tests`, and the patterns that match none of them."""
    excluded: dict[str, Exclusion] = {}
    unused = []
    for exclusion in exclusions:
        for pattern in exclusion.tests:
            matching = [test for test in tests if fnmatch.fnmatchcase(test, pattern)]
            if not matching:
                unused.append(pattern)
            for test in matching:
                excluded.setdefault(test, exclusion)
    return excluded, unused
