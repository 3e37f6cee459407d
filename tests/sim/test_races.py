"""Known races of Python and of libraries are found and replayed, and the versions without them are clean.

The programs are in `examples/races`. Those of a library run where one of the versions below is installed.
"""

import importlib
import importlib.metadata
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from loopcore import sim

PROGRAMS = Path(__file__).parents[2] / "examples" / "races"
SEEDS = range(2000)
CONTROL_SEEDS = range(300)


class Race(NamedTuple):
    """A program, the package that has the race, and the versions that are known to have it or not to have it."""

    program: str
    package: str
    with_it: tuple[str, ...]
    without_it: tuple[str, ...] = ()


OF_LIBRARIES = [
    Race("aiohttp_connector", "aiohttp", ("3.10.10", "3.14.5")),
    Race("aiomcache_reply", "aiomcache", ("0.8.1", "0.8.2")),
    Race("aiorwlock_writer", "aiorwlock", ("1.3.0",), ("1.5.1",)),
    Race("anyio_condition", "anyio", ("4.3.0", "4.9.0", "4.13.0", "4.14.2")),
    Race("anyio_group", "anyio", ("4.9.0", "4.13.0", "4.14.2"), ("4.3.0",)),
    Race("anyio_limiter", "anyio", ("4.3.0", "4.9.0"), ("4.13.0", "4.14.2")),
    Race("anyio_lock", "anyio", ("4.9.0", "4.13.0"), ("4.3.0", "4.14.2")),
    Race("anyio_stream", "anyio", ("4.3.0", "4.9.0", "4.13.0", "4.14.2")),
    Race("httpcore_pool", "httpcore", ("1.0.9",)),
    Race("httpcore_pool", "httpcore2", (), ("2.16.2",)),
    Race("psycopg_getconn", "psycopg_pool", ("3.3.0",), ("3.3.3",)),
    Race("redis_reply", "redis", ("4.5.3",), ("8.1.0",)),
]
OF_PYTHON = {"condition": (3, 13), "task_group": (3, 13), "wait_for": (3, 12)}
"""The first version without the race, by program."""


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a program of `examples/races`."""
    monkeypatch.syspath_prepend(str(PROGRAMS))
    return importlib.import_module(name)


def check_found(program: Any) -> None:
    failure = sim.search(program.main, seeds=SEEDS).failure
    assert failure is not None
    assert 1 <= len(failure.changes) <= 2
    assert any(entry.kind == "cancel" for entry in failure.outcome.log)
    lines = [
        "import sys",
        f"sys.path.insert(0, {str(PROGRAMS)!r})",
        f"import {program.__name__}",
        "from loopcore import sim",
        f"sim.replay({program.__name__}.main, {failure.token!r})",
    ]
    replayed = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=60, check=False
    )
    assert type(failure.error).__name__ in replayed.stderr.rpartition("Traceback")[2]


def check_clean(program: Any) -> None:
    found = sim.search(program.main, seeds=CONTROL_SEEDS)
    assert found.failure is None, sim.in_words(found.failure)
    assert found.runs == len(CONTROL_SEEDS)


@pytest.mark.parametrize("name", OF_PYTHON)
def test_a_race_of_python_is_found_where_it_is_and_nowhere_else(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = load(name, monkeypatch)
    if sys.version_info < OF_PYTHON[name]:
        check_found(program)
    else:
        check_clean(program)


@pytest.mark.parametrize("race", OF_LIBRARIES, ids=lambda race: f"{race.program}-{race.package}")
def test_a_race_of_a_library_is_found_where_it_is_and_nowhere_else(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        version = importlib.metadata.version(race.package)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{race.package} is not installed")
    if race.package == "httpcore2" and importlib.util.find_spec("httpcore"):
        pytest.skip("the program prefers httpcore, which is installed")
    if version not in race.with_it + race.without_it:
        pytest.skip(f"{race.package} {version} has not been tried; known are {race.with_it + race.without_it}")
    program = load(race.program, monkeypatch)
    if version in race.with_it:
        check_found(program)
    else:
        check_clean(program)
