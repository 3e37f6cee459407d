"""What is known of each project: projects/NAME.toml, read and checked.

    version = "1.2.3"               # of the sdist on PyPI that is unpacked and installed
    package = "example"             # its name on PyPI; default: NAME
    extras = ["http2"]              # of the project itself
    requirements = ["trustme"]      # to test it, beside pytest and pytest-timeout, which all have
    files = ["tests", "pyproject.toml"]     # copied out of the sdist; the run takes place among them
    programs = ["example_program.py"]       # of programs/, copied beside them: for an sdist without tests
    command = ["python", "-m", "pytest", "tests"]   # run there; {root} is the repository
    patience = 600                  # seconds for one run of the command
    services = ["redis"]            # modules of services/, running while the command does
    environment = { NAME = "value" }
    loop = "..."                    # how the loop gets under the project, in a sentence for the table's page

    [[deselect]]                    # not run, on any loop
    tests = ["tests.test_module::test_name[*]"]
    reason = "needs the Internet"

    [[expected]]                    # fails, and may
    kind = "asyncio"                # fails on asyncio too; "internals": asks for how asyncio is made, not for what
                                    # it promises; "race": passes or fails by chance, on asyncio too
    tests = ["tests.test_module.TestClass::test_name"]
    reason = "..."

A service is a module with `running(folder)`, a context manager: it starts the server, keeps its files in `folder`,
yields the environment variables that tell the command where it listens, and stops it at the end.

A test's name is `classname::name` as in JUnit's XML; in a pattern `*` stands for anything, brackets for themselves.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("projects")
KINDS = ("asyncio", "internals", "race")


@dataclass(frozen=True)
class Listed:
    """Tests by pattern, and the reason why they are not run (no kind) or may fail (one of KINDS)."""

    tests: tuple[str, ...]
    reason: str
    kind: str = ""

    def matches(self, test: str) -> bool:
        return any(re.fullmatch(expression(pattern), test) for pattern in self.tests)


@dataclass(frozen=True)
class Project:
    """A project, as its file describes it; see the module for the fields."""

    name: str
    version: str
    package: str
    command: tuple[str, ...]
    loop: str
    extras: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    patience: float = 600.0
    deselect: tuple[Listed, ...] = ()
    expected: tuple[Listed, ...] = ()

    def expectation(self, test: str) -> Listed | None:
        """Return the entry that says the test may fail, if there is one."""
        return next((entry for entry in self.expected if entry.matches(test)), None)


def expression(pattern: str) -> str:
    """Return the pattern as a regular expression: `*` is anything, all else is itself."""
    return ".*".join(map(re.escape, pattern.split("*")))


def read_project(path: Path) -> Project:
    """Read one file. Raises TypeError for a key that is missing or unknown, ValueError for an entry without reason."""
    facts: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    lists = {
        "deselect": tuple(_listed(entry, path, ("",)) for entry in facts.pop("deselect", ())),
        "expected": tuple(_listed(entry, path, KINDS) for entry in facts.pop("expected", ())),
    }
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()}
    return Project(**{"name": path.stem, "package": path.stem, **values, **lists})


def read_projects(names: Iterable[str] = (), folder: Path = FOLDER) -> list[Project]:
    """Return the projects of that name, all if none is given, by name. Raises ValueError for a name without a file."""
    known = {path.stem: path for path in sorted(folder.glob("*.toml"))}
    unknown = set(names) - set(known)
    if unknown:
        raise ValueError(f"no such project: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return [read_project(known[name]) for name in known if name in names or not names]


def _listed(entry: Mapping[str, Any], path: Path, kinds: tuple[str, ...]) -> Listed:
    listed = Listed(tuple(entry["tests"]), " ".join(entry["reason"].split()), entry.get("kind", ""))
    if not listed.tests or not listed.reason or listed.kind not in kinds:
        raise ValueError(f"{path.name}: an entry needs tests, a reason and a kind out of {kinds}: {dict(entry)}")
    return listed
