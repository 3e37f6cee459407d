"""Tests that are coroutine functions (tests/coroutines.py), seen from the test and from outside."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import coroutines

ROOT = Path(coroutines.__file__).parents[1]
PROJECT = """
import asyncio
import pytest


@pytest.fixture
def loop():
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


async def test_passes():
    await asyncio.sleep(0)


async def test_fails():
    await asyncio.sleep(0)
    assert False


async def test_is_skipped(loop):
    await asyncio.sleep(0)
    pytest.skip("not here")


class TestInAClass:
    async def test_fails_too(self, loop):
        await asyncio.sleep(0)
        raise OSError
"""
BOUNDED = """
@pytest.fixture
def run(loop):
    return lambda test: loop.run_until_complete(asyncio.wait_for(test, 0.01))


async def test_waits_for_ever():
    await asyncio.Event().wait()
"""


async def test_runs_on_the_loop_of_the_fixture(loop: Any, backend_name: str) -> None:
    assert asyncio.get_running_loop() is loop
    assert backend_name == (loop.backend.name if hasattr(loop, "backend") else "asyncio")


@pytest.mark.loopcore_only
async def test_runs_on_a_backend_without_naming_a_loop() -> None:
    assert hasattr(asyncio.get_running_loop(), "backend")


@pytest.mark.parametrize("value", [1, 2])
async def test_has_parameters_and_fixtures(value: int, tmp_path: Path) -> None:
    assert value in (1, 2)
    assert tmp_path.is_dir()


def outcomes(tmp_path: Path, text: str) -> dict[str, str]:
    """Run the tests of `text` in a separate process; return the outcome of each by its name."""
    (tmp_path / "test_project.py").write_text(text, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "LOOPCORE_"))}
    options = ["-v", "--tb=no", "-p", "tests.coroutines", "-p", "no:cacheprovider", "-c", os.devnull]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir", str(tmp_path), "test_project.py"],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return dict(re.findall(r"^test_project\.py::(\S+) ([A-Z]+)", ended.stdout, re.MULTILINE))


def test_failures_and_skips_are_those_of_the_coroutine(tmp_path: Path) -> None:
    assert outcomes(tmp_path, PROJECT) == {
        "test_passes": "PASSED",
        "test_fails": "FAILED",
        "test_is_skipped": "SKIPPED",
        "TestInAClass::test_fails_too": "FAILED",
    }


def test_fixture_run_of_a_module_decides_how_its_tests_are_run(tmp_path: Path) -> None:
    assert outcomes(tmp_path, PROJECT + BOUNDED)["test_waits_for_ever"] == "FAILED"
