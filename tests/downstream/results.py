"""Results: JUnit's XML read, laid beside asyncio's, and judged by the list of expected failures.

loopcore has to pass what asyncio passes in the same run. A test that it does not pass, for whatever reason (failed,
skipped, never run), is a complaint, unless the project's file expects it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.downstream.projects import Project

STATES = ("passed", "skipped", "failed")
"""From best to worst; a test that is reported twice (its body, its teardown) counts as the worse."""
SUBJECT = "loopcore"
ORACLE = "asyncio"


@dataclass(frozen=True)
class Outcome:
    """How a test ended, one of STATES, and the first line of why."""

    state: str
    message: str = ""


@dataclass
class LoopRun:
    """A project's suite on one loop."""

    loop: str
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    deselected: int = 0
    ran: dict[str, int] = field(default_factory=dict)
    """How many loops of each family have run."""
    problem: str = ""
    """Why the figures do not count, if they do not: the suite hung, did not start, used another loop."""
    seconds: float = 0.0

    def count(self, state: str) -> int:
        return Counter(outcome.state for outcome in self.outcomes.values())[state]

    def failures(self) -> dict[str, Outcome]:
        return {test: outcome for test, outcome in self.outcomes.items() if outcome.state == "failed"}

    def state(self, test: str) -> str:
        return self.outcomes[test].state if test in self.outcomes else "not run"


@dataclass
class ProjectRun:
    """A project's suite on all loops, and what was installed."""

    project: str
    versions: dict[str, str]
    """Of "python", the project's package, "loopcore", "uvloop"; "build" is "compiled" or "pure"."""
    runs: dict[str, LoopRun] = field(default_factory=dict)
    problem: str = ""


def read_junit(path: Path) -> dict[str, Outcome]:
    """Return the outcome of each test by its id, `classname::name`. Raises ElementTree.ParseError, OSError."""
    outcomes: dict[str, Outcome] = {}
    for case in ET.parse(path).iter("testcase"):
        test = "::".join(filter(None, (case.get("classname"), case.get("name"))))
        outcome = _outcome(case)
        known = outcomes.get(test)
        if known is None or STATES.index(outcome.state) > STATES.index(known.state):
            outcomes[test] = outcome
    return outcomes


def _outcome(case: ET.Element) -> Outcome:
    for tag, state in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        found = case.find(tag)
        if found is not None:
            return Outcome(state, (found.get("message") or found.text or "").strip().partition("\n")[0][:300])
    return Outcome("passed")


def complaints(project: Project, runs: Mapping[str, LoopRun]) -> list[str]:
    """Return what must not be: runs that do not count, and tests that asyncio passes and loopcore does not."""
    found = [f"{project.name} on {run.loop}: {run.problem}" for run in runs.values() if run.problem]
    subject, oracle = runs.get(SUBJECT), runs.get(ORACLE)
    if subject is None:
        return found
    if oracle is None:
        found += [f"{project.name}: {test} failed: {outcome.message}" for test, outcome in subject.failures().items()
                  if project.expectation(test) is None]  # fmt: skip
        return found
    for test, outcome in oracle.outcomes.items():
        if outcome.state != "passed" or subject.state(test) == "passed":
            continue
        expected = project.expectation(test)
        if expected is None:
            message = subject.outcomes[test].message if test in subject.outcomes else ""
            found.append(f"{project.name}: {test}: asyncio passes, loopcore: {subject.state(test)}: {message}")
        elif expected.kind == ORACLE:
            found.append(f"{project.name}: {test} is listed as failing on asyncio too, which passes it")
    return found


def remarks(project: Project, runs: Mapping[str, LoopRun]) -> list[str]:
    """Return what the project's file should be changed for, without being loopcore's fault."""
    subject = runs.get(SUBJECT)
    if subject is None or subject.problem:
        return []
    found = [
        f"{project.name}: {test} fails on asyncio too, and is not listed: {outcome.message}"
        for test, outcome in subject.failures().items()
        if project.expectation(test) is None and ORACLE in runs and runs[ORACLE].state(test) == "failed"
    ]
    for entry in project.expected:
        matching = [test for test in subject.outcomes if entry.matches(test)]
        if entry.kind != "race" and not any(subject.state(test) == "failed" for test in matching):
            found.append(f"{project.name}: expected to fail, and does not: {', '.join(entry.tests)}")
    return found


def expected_failures(project: Project, failures: Iterable[str]) -> int:
    """Return how many of the failures the project's file lists."""
    return sum(project.expectation(test) is not None for test in failures)
