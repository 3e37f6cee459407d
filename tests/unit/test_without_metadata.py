"""loopcore without the metadata of its distribution: frozen, vendored, or on PYTHONPATH."""

import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

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


@pytest.mark.parametrize("group", ["backends", "plugins"])
def test_the_table_repeats_the_entry_points(group: str) -> None:
    entry_points = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["entry-points"]
    assert entry_points[f"loopcore.{group}"] == import_module(f"loopcore_{group}").DECLARED


def test_a_copy_without_metadata_runs_with_its_backends_and_plugins(tmp_path: Path) -> None:
    for package in (loopcore, loopcore_backends, loopcore_plugins, pluggy):
        source = Path(str(package.__file__)).parent
        shutil.copytree(source, tmp_path / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    for utility in Path(str(loopcore.__file__)).parent.parent.glob("_cyutility*"):
        shutil.copy(utility, tmp_path)
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ran [")
    assert "'select'" in done.stdout
