"""loopcore without the metadata of its distribution: frozen, vendored, or on PYTHONPATH."""

import os
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pluggy
import pytest

import loopcore
import loopcore_backends
import loopcore_plugins

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import loopcore

async def main():
    return "ran"

print(loopcore.run(main(), plugins="watchdog"), [row.name for row in loopcore.list_backends() if row.available])
"""
CORE_ALONE = """
import sys
sys.path.insert(0, sys.argv[1])
import loopcore

print(loopcore.list_backends())
try:
    loopcore.new_event_loop()
except loopcore.BackendUnavailableError as error:
    print(error)
"""


def run_in_copy(program: str, folder: Path, *packages: ModuleType) -> str:
    """Return the output of `program`, which sees the standard library and copies of `packages` in `folder`."""
    for package in packages:
        source = Path(str(package.__file__)).parent
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    for utility in Path(str(loopcore.__file__)).parent.parent.glob("_cyutility*"):
        shutil.copy(utility, folder)
    command = [sys.executable, "-I", "-S", "-c", program, str(folder)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOOPCORE_")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("group", ["backends", "plugins"])
def test_the_table_repeats_the_entry_points(group: str) -> None:
    entry_points = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["entry-points"]
    assert entry_points[f"loopcore.{group}"] == import_module(f"loopcore_{group}").DECLARED


def test_a_copy_without_metadata_runs_with_its_backends_and_plugins(tmp_path: Path) -> None:
    output = run_in_copy(PROGRAM, tmp_path, loopcore, loopcore_backends, loopcore_plugins, pluggy)
    assert output.startswith("ran [")
    assert "'select'" in output


def test_a_copy_of_core_alone_has_no_backends_and_says_so(tmp_path: Path) -> None:
    output = run_in_copy(CORE_ALONE, tmp_path, loopcore, pluggy)
    assert output.startswith("[]\nauto: no backend of loopcore's own is declared")
