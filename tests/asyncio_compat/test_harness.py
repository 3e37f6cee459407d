"""The harness itself: what it makes of tests that hang, and of exclusions that excuse nothing."""

from pathlib import Path

import pytest

from tests.asyncio_compat.exclusions import Exclusion, read_exclusions, reasons_for
from tests.asyncio_compat.harness import NoTestPackage, Run, examine


def exclusion(*tests: str) -> Exclusion:
    return Exclusion("test_timeouts", tests, "internals", "because", ())


def any_run(exclusions: list[Exclusion], test_patience: float = 30.0) -> Run:
    try:
        return Run(examine(), "poll", exclusions, test_patience)
    except NoTestPackage as exc:
        pytest.skip(str(exc))


def test_an_exclusion_that_matches_nothing_is_a_problem() -> None:
    run = any_run([exclusion("*.test_timeout_basic", "*.test_of_nobody")])
    result = run.module("test_timeouts", only=["test_timeout_basic"])
    assert [(each.test, each.outcome) for each in result.outcomes] == [("TimeoutTests.test_timeout_basic", "excluded")]
    assert result.problems == [f"unused exclusion of test_timeouts on {run.interpreter.version}: *.test_of_nobody"]


def test_a_test_that_takes_too_long_is_ended_and_the_others_are_run() -> None:
    # The second one sleeps for more than two seconds, the others do not wait. Python 3.14 has two classes of them.
    only = ["TestTaskGroup.test_taskgroup_22", "TestTaskGroup.test_taskgroup_23", "TestTaskGroup.test_taskgroup_24"]
    result = any_run([], test_patience=1.0).module("test_taskgroups", only=only)
    assert {each.test.partition(".")[2]: each.outcome for each in result.outcomes} == {
        "test_taskgroup_22": "passed",
        "test_taskgroup_23": "hung",
        "test_taskgroup_24": "passed",
    }
    (hung,) = result.bad
    assert "Timeout (0:00:01)!" in hung.details


def test_a_module_that_cannot_be_loaded_is_a_problem() -> None:
    (problem,) = any_run([]).module("test_of_nobody").problems
    assert problem.startswith("test_of_nobody could not be loaded")


def test_excluded_tests_keep_the_first_reason() -> None:
    first, second = exclusion("A.*"), exclusion("*.test_b")
    assert reasons_for(["A.test_b", "C.test_b", "C.test_d"], [first, second]) == (
        {"A.test_b": first, "C.test_b": second},
        [],
    )


@pytest.mark.parametrize("fault", ['kind = "whim"', 'reason = " "', "tests = []"])
def test_an_exclusion_without_kind_reason_or_tests_is_refused(tmp_path: Path, fault: str) -> None:
    entry = {"module": '"m"', "tests": '["t"]', "kind": '"internals"', "reason": '"r"'}
    key, _, value = fault.partition(" = ")
    text = "\n".join(f"{name} = {value if name == key else known}" for name, known in entry.items())
    path = tmp_path / "list.toml"
    path.write_text(f"[[exclude]]\n{text}\n")
    with pytest.raises(ValueError, match=r"^an exclusion needs tests, a reason, and a kind"):
        read_exclusions(path)
