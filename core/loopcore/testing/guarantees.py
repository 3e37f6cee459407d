"""The guarantees of a backend, each with the tests that check it: the contract as data, from guarantees.toml.

The manual's list (docs/reference/backend-port.md), the reports of `loopcore conformance` and the names in
`BackendContract.cannot` come from there. A test of the contract that is listed under no guarantee is an error in
the kit's own tests, and so is a guarantee without a test.
"""

import tomllib
from pathlib import Path
from typing import Final, NamedTuple


class Guarantee(NamedTuple):
    """A promise."""

    name: str
    port: str
    """The port that makes it: `readiness`, `completion` or `both`."""
    text: str
    tests: tuple[str, ...]
    """The names of the tests of the contract that check it."""


def _read(path: Path) -> tuple[Guarantee, ...]:
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["guarantee"]
    return tuple(Guarantee(row["name"], row["port"], row["text"], tuple(row["tests"])) for row in rows)


GUARANTEES: Final = _read(Path(__file__).with_name("guarantees.toml"))

NAMES: Final = frozenset({each.name for each in GUARANTEES} | {test for each in GUARANTEES for test in each.tests})
"""The names that `BackendContract.cannot` may use."""


def of_test(name: str) -> list[Guarantee]:
    """Return the guarantees that the test `name` checks."""
    return [each for each in GUARANTEES if name in each.tests]
