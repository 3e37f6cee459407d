"""The judging of downstream runs: JUnit's XML, expected failures, the page. No network, no suite."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.downstream.page import page, read_results, write_results
from tests.downstream.projects import KINDS, Listed, Project, expression, read_project, read_projects
from tests.downstream.results import LoopRun, Outcome, ProjectRun, complaints, read_junit, remarks

HERE = Path(__file__).parent
JUNIT = """<?xml version="1.0"?>
<testsuites><testsuite>
  <testcase classname="tests.test_a.TestB" name="test_good[1]"/>
  <testcase classname="tests.test_a" name="test_bad"><failure message="assert 1 == 2&#10;more">text</failure></testcase>
  <testcase classname="tests.test_a" name="test_left_out"><skipped message="no need"/></testcase>
  <testcase classname="tests.test_a" name="test_teardown"/>
  <testcase classname="tests.test_a" name="test_teardown"><error message="left a thread"/></testcase>
  <testcase classname="" name="tests.test_broken"><error message="collection failure">text</error></testcase>
</testsuite></testsuites>
"""
INTERPRETER = {"python": "3.11.7", "loopcore": "0.1.0", "uvloop": "0.23.0", "build": "pure"}


def project(*expected: Listed) -> Project:
    return Project("example", "1.0", "example", ("python", "-m", "pytest"), "somehow", expected=expected)


def listed(kind: str, test: str = "m::test_x") -> Listed:
    return Listed((test,), "a reason", kind)


def runs(**states: str) -> dict[str, LoopRun]:
    """Return runs of one test, `m::test_x`, by loop."""
    return {
        loop: LoopRun(loop, {} if state == "absent" else {"m::test_x": Outcome(state, "why")}, ran={loop: 1})
        for loop, state in states.items()
    }


def test_junit_gives_each_test_its_worst_outcome(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text(JUNIT)
    assert read_junit(tmp_path / "junit.xml") == {
        "tests.test_a.TestB::test_good[1]": Outcome("passed"),
        "tests.test_a::test_bad": Outcome("failed", "assert 1 == 2"),
        "tests.test_a::test_left_out": Outcome("skipped", "no need"),
        "tests.test_a::test_teardown": Outcome("failed", "left a thread"),
        "tests.test_broken": Outcome("failed", "collection failure"),
    }


@pytest.mark.parametrize("state", ["failed", "skipped", "absent"])
def test_what_asyncio_passes_loopcore_has_to_pass(state: str) -> None:
    (complaint,) = complaints(project(), runs(loopcore=state, asyncio="passed"))
    assert "m::test_x: asyncio passes, loopcore" in complaint


@pytest.mark.parametrize("state", ["passed", "failed", "skipped"])
def test_what_loopcore_passes_is_no_complaint(state: str) -> None:
    assert complaints(project(), runs(loopcore="passed", asyncio=state, uvloop="failed")) == []


@pytest.mark.parametrize("kind", ["internals", "race"])
def test_an_expected_failure_is_no_complaint(kind: str) -> None:
    assert complaints(project(listed(kind)), runs(loopcore="failed", asyncio="passed")) == []


def test_a_failure_that_asyncio_is_said_to_share_has_to_be_shared() -> None:
    assert complaints(project(listed("asyncio")), runs(loopcore="failed", asyncio="failed")) == []
    (complaint,) = complaints(project(listed("asyncio")), runs(loopcore="failed", asyncio="passed"))
    assert "listed as failing on asyncio too" in complaint


def test_a_shared_failure_that_is_not_listed_is_remarked_upon() -> None:
    found = runs(loopcore="failed", asyncio="failed")
    assert complaints(project(), found) == []
    (remark,) = remarks(project(), found)
    assert "fails on asyncio too, and is not listed" in remark


def test_an_entry_that_excuses_nothing_is_remarked_upon() -> None:
    (remark,) = remarks(project(listed("asyncio")), runs(loopcore="passed", asyncio="passed"))
    assert "expected to fail, and does not" in remark
    assert remarks(project(listed("race")), runs(loopcore="passed", asyncio="passed")) == []


def test_without_asyncio_every_failure_counts() -> None:
    assert len(complaints(project(), runs(loopcore="failed"))) == 1
    assert complaints(project(listed("internals")), runs(loopcore="failed")) == []


def test_a_run_that_does_not_count_is_a_complaint_whatever_passed() -> None:
    found = runs(loopcore="passed", asyncio="passed")
    found["asyncio"].problem = "no loop of asyncio ran"
    assert complaints(project(), found) == ["example on asyncio: no loop of asyncio ran"]


def test_in_a_pattern_only_the_star_is_special() -> None:
    entry = Listed((r"tests.test_a::test_x[*-ipv6]",), "a reason")
    assert entry.matches("tests.test_a::test_x[asyncio-ipv6]")
    assert not entry.matches("tests.test_a::test_x[asyncio-ipv4]")
    assert not entry.matches("tests_test_a::test_x[asyncio-ipv6]")
    assert expression("a*b") == "a.*b"


def test_every_project_is_readable_and_pinned() -> None:
    projects = read_projects()
    assert projects
    for each in projects:
        assert each.version
        assert "pytest" in each.command
        assert each.files or each.programs
        for program in each.programs:
            assert (HERE / "programs" / program).exists()
        for service in each.services:
            assert (HERE / "services" / f"{service}.py").exists()


def test_a_project_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="no such project: nonsense"):
        read_projects(["nonsense"])


@pytest.mark.parametrize("entry", ['reason = ""\nkind = "asyncio"', 'reason = "x"\nkind = "luck"', 'reason = "x"'])
def test_an_expected_failure_needs_a_reason_and_a_kind(tmp_path: Path, entry: str) -> None:
    file = tmp_path / "example.toml"
    file.write_text(f'version = "1"\ncommand = []\nloop = ""\n[[expected]]\ntests = ["m::t"]\n{entry}\n')
    with pytest.raises(ValueError, match=f"a kind out of .*{KINDS[0]}"):
        read_project(file)


def test_results_survive_the_file_and_make_a_page(tmp_path: Path) -> None:
    found = runs(loopcore="failed", asyncio="passed", uvloop="passed")
    results = {"example": ProjectRun("example", INTERPRETER, found)}
    write_results(tmp_path / "results.json", results)
    assert read_results(tmp_path / "results.json") == results
    text = page([project(listed("internals"))], results)
    row = "| example 1.0 | 3.11.7 | 0.1.0, pure | 0 / 1 / 0 (1 expected) | 1 / 0 / 0 | 1 / 0 / 0 | 0 |"
    assert row in text
    assert "- `m::test_x`: a reason" in text


@pytest.mark.parametrize("name", ["loopcore", "asyncio"])
def test_the_chosen_loop_runs_and_is_written_down(tmp_path: Path, name: str) -> None:
    record = tmp_path / "loops.txt"
    program = "import asyncio; asyncio.run(asyncio.sleep(0)); asyncio.SelectorEventLoop().close()"
    variables = {"PYTHONPATH": str(HERE / "inject"), "DOWNSTREAM_LOOP": name, "DOWNSTREAM_RECORD": str(record)}
    subprocess.run([sys.executable, "-c", program], env=variables, check=True, timeout=60)
    assert [line.split()[0] for line in record.read_text().splitlines()] == [name]
