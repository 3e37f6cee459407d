"""A plugin of pytest's for the mutants: of each, the tests of the guarantee that it breaks, until one fails.

    -p tests.testing.mutants.selection

LOOPCORE_MUTANTS=all runs every test of the port on each, which takes minutes. What caught which is written to the
file that MUTANTS_CAUGHT names, as JSON: tests by mutant.
"""

import json
import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from loopcore.testing import guarantees
from tests.testing.mutants.contracts import mutants

EVERYTHING = os.environ.get("LOOPCORE_MUTANTS") == "all"
caught: dict[str, list[str]] = defaultdict(list)


def _mutant_of(item: Any) -> str:
    return str(item.cls.__name__.removeprefix("Test"))


def pytest_collection_modifyitems(items: list[Any]) -> None:
    if EVERYTHING:
        return
    tests = {each.name: each.tests for each in guarantees.GUARANTEES}
    broken = {name: getattr(mutant, "breaks") for name, mutant in mutants().items()}  # noqa: B009
    items[:] = [
        item
        for item in items
        if item.originalname in tests[broken[_mutant_of(item)]] and not getattr(item.function, "unhurried", False)
    ]


def pytest_runtest_setup(item: Any) -> None:
    if caught[_mutant_of(item)] and not EVERYTHING:
        pytest.skip("caught already")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Generator[None, Any, Any]:
    report = yield
    if report.failed:
        caught[_mutant_of(item)].append(item.originalname)
    return report


def pytest_sessionfinish() -> None:
    Path(os.environ["MUTANTS_CAUGHT"]).write_text(json.dumps(caught), encoding="utf-8")
