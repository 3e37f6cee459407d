"""The kit catches every backend that is broken on purpose, by a test of the guarantee that it breaks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from loopcore.testing import guarantees
from tests.docs import mutants_page
from tests.testing.mutants.contracts import mutants

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="stands on epoll and poll")


def test_every_mutant_is_caught_by_a_test_of_the_guarantee_it_breaks(tmp_path: Path) -> None:
    caught = tmp_path / "caught.json"
    options = ["-q", "--tb=line", "--noconftest", "-p", "no:cacheprovider", "-p", "loopcore_pytest"]
    command = [sys.executable, "-m", "pytest", *options, "-p", "tests.testing.mutants.selection"]
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    # A wait that is lost shows after `LOOPCORE_PATIENCE`: a mutant's tests are to fail, so there is no use in more.
    environment = {"LOOPCORE_PATIENCE": "1", "MUTANTS_CAUGHT": str(caught), "PYTHONPATH": paths}
    ended = subprocess.run(
        [*command, "tests/testing/mutants/contracts.py"],
        cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert caught.exists(), ended.stdout + ended.stderr
    tests = json.loads(caught.read_text(encoding="utf-8"))
    for name, mutant in mutants().items():
        broken = {each.name for test in tests.get(name, ()) for each in guarantees.of_test(test)}
        assert vars(mutant)["breaks"] in broken, f"nobody noticed {name}: {mutant.__doc__}"


def test_there_are_mutants_of_every_guarantee_but_those_of_loops() -> None:
    broken = {vars(mutant)["breaks"] for mutant in mutants().values()}
    names = {each.name for each in guarantees.GUARANTEES}
    assert broken <= names
    assert names - broken == {"files", "loop", "transports", "hooks", "soak"}


def test_every_mutant_says_what_is_wrong_with_it() -> None:
    assert all(mutant.__doc__ for mutant in mutants().values())


def test_the_manual_lists_them() -> None:
    page = mutants_page.PAGE.read_text(encoding="utf-8")
    assert page == mutants_page.rewritten(page), "run: python -m tests.docs.mutants_page"
