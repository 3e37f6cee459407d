"""`loopcore conformance`: what it runs, what it says, what it writes."""

import argparse
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from loopcore.errors import UsageError
from loopcore.testing import commands, runner
from loopcore.testing.guarantees import GUARANTEES
from loopcore.testing.report import GOOD, Outcome, Report, badge_of

ROOT = Path(__file__).parents[2]
PROGRAM = """
import argparse, sys
from loopcore.errors import LoopcoreError
from loopcore.testing.commands import conformance

parser = argparse.ArgumentParser()
conformance(parser)
arguments = parser.parse_args()
try:
    sys.exit(arguments.act(arguments))
except LoopcoreError as exc:
    sys.exit(f"error: {exc}")
"""


def run(*words: str) -> tuple[int, str]:
    import os

    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    environment = {**os.environ, "PYTHONPATH": paths, "LOOPCORE_PATIENCE": "5"}
    command = [sys.executable, "-c", PROGRAM, *words]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def states(file: Path) -> dict[str, str]:
    return {row["name"]: row["state"] for row in json.loads(file.read_text(encoding="utf-8"))["guarantees"]}


def test_blank_variables_count_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("LOOPCORE_PATIENCE", "LOOPCORE_STORM", "LOOPCORE_SOAK"):
        monkeypatch.setenv(variable, " ")
    for name, default in (
        ("surroundings.PATIENCE", 30.0),
        ("completion.storm.OPERATIONS", 3000),
        ("loop.soak.ROUNDS", 10),
    ):
        module, _, attribute = f"loopcore.testing.conformance.{name}".rpartition(".")
        spec = importlib.util.find_spec(module)
        assert spec is not None
        assert spec.loader is not None
        read_again = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(read_again)
        assert getattr(read_again, attribute) == default


def test_contract_is_not_run_without_its_assert_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    message = "the contract is made of assert statements; run it without -O and PYTHONOPTIMIZE"
    assert run("select", "--only", "shape") == (1, f"error: {message}\n")


def test_backend_that_keeps_everything_is_reported_so(tmp_path: Path) -> None:
    json_file, badge = tmp_path / "report.json", tmp_path / "badge.svg"
    code, said = run("select", "--only", "shape,interest", "--json", str(json_file), "--badge", str(badge))
    assert code == 0, said
    assert "select, readiness port, some of the contract: 2 kept" in said
    assert {name for name, state in states(json_file).items() if state == "kept"} == {"shape", "interest"}
    assert states(json_file)["wakes"] == "not checked"
    told = "".join(ET.parse(badge).getroot().itertext())
    kept_of_all = f"2 of {len(states(json_file))} guarantees, {len(states(json_file)) - 2} not checked"
    assert kept_of_all in told, "a part of the contract must not look like the whole"
    assert GOOD not in badge.read_text(encoding="utf-8")


@pytest.mark.skipif(sys.platform != "linux", reason="the mutants stand on poll")
def test_broken_guarantee_is_named_and_is_the_exit_code(tmp_path: Path) -> None:
    json_file, badge = tmp_path / "report.json", tmp_path / "badge.svg"
    mutant = "tests.testing.mutants.readiness:ModifyAdds"
    code, said = run(mutant, "--only", "interest,level-triggered", "--json", str(json_file), "--badge", str(badge))
    assert code == 1
    assert "broken guarantee" in said
    assert "interest: `modify` replaces the interest" in said
    assert states(json_file)["interest"] == "broken"
    assert states(json_file)["level-triggered"] == "kept"
    assert "1 broken" in "".join(ET.parse(badge).getroot().itertext())


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["selct"], "did you mean 'select'"),
        (["nowhere:Backend"], "there is no backend 'nowhere:Backend': No module named 'nowhere'"),
        (["loopcore.text:printable"], "'loopcore.text:printable' is not a backend class"),
        (["select", "--only", "flying"], "there is no guarantee 'flying'; there are shape"),
    ],
)
def test_what_cannot_be_run_is_an_error_that_says_what_can(words: list[str], complaint: str) -> None:
    code, said = run(*words)
    assert code == 1
    assert complaint in said


def test_place_of_a_report_is_looked_at_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "run_tests", None)
    with pytest.raises(UsageError, match=r"cannot write .*there is no folder"):
        runner.prove("select", json_file=tmp_path / "nowhere" / "report.json")


def test_class_in_the_current_folder_is_found_as_a_program_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "backend_of_mine.py").write_text("class Mine: pass\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["folder of the command", *sys.path])
    monkeypatch.setattr(runner, "run_tests", lambda folder, backend, collector: pytest.ExitCode.INTERRUPTED)
    parser = argparse.ArgumentParser()
    commands.conformance(parser)
    arguments = parser.parse_args(["backend_of_mine:Mine"])
    with pytest.raises(UsageError, match="the contract could not be run"):
        arguments.act(arguments)


def test_pytest_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from loopcore.errors import UsageError

    monkeypatch.setitem(sys.modules, "pytest", None)
    monkeypatch.delitem(sys.modules, "loopcore.testing.runner", raising=False)
    parser = argparse.ArgumentParser()
    commands.conformance(parser)
    arguments = parser.parse_args(["select"])
    with pytest.raises(UsageError, match=r"loopcore\[testing\]"):
        arguments.act(arguments)


def outcomes(**told: Any) -> dict[str, Outcome]:
    return {name: Outcome(*outcome, 0.0) for name, outcome in told.items()}


def test_guarantee_is_broken_by_one_test_and_kept_by_one_that_ran() -> None:
    report = Report(
        "mine",
        "readiness",
        outcomes(
            test_wake_is_not_an_event=("failed", "no"),
            test_wake_does_not_hide_events=("passed", ""),
            test_wakes_coalesce=("passed", ""),
            test_wake_is_spent_by_one_wait=("skipped", "not here"),
            test_regular_file_is_ready_or_refused_with_advice=("skipped", "cannot (regular-files): a device"),
        ),
    )
    told = {each.name: report.state_of(each) for each in report.guarantees}
    assert told["wakes-hide-nothing"] == "broken"
    assert told["wakes-coalesce"] == "kept"
    assert told["regular-files"] == "cannot"
    assert told["events"] == "not checked"
    assert "mine, readiness port, the contract: 1 kept, 1 broken, 1 cannot" in report.lines()
    assert any("cannot (regular-files): a device" in line for line in report.lines())


def every_test(outcome: str) -> dict[str, Outcome]:
    return {test: Outcome(outcome, "", 0.0) for each in GUARANTEES for test in each.tests}


def test_badge_of_the_whole_contract_is_green() -> None:
    badge = badge_of(Report("mine", "completion", every_test("passed")))
    count = sum(each.port != "readiness" for each in GUARANTEES)
    assert f"{count} of {count} guarantees<" in badge
    assert GOOD in badge


@pytest.mark.parametrize(
    "report",
    [
        Report("mine", "readiness", {}),
        Report("mine", "readiness", every_test("skipped")),
        Report("mine", "readiness", every_test("passed"), partial=True),
        Report("mine", "readiness", every_test("failed")),
        Report("mine", "readiness", {**every_test("passed"), "test_wakes_coalesce": Outcome("failed", "", 0.0)}),
    ],
    ids=["nothing ran", "all skipped", "some were asked for", "all failed", "one failed"],
)
def test_badge_of_anything_less_is_not_green(report: Report) -> None:
    assert GOOD not in badge_of(report)
