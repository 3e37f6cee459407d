"""The page of the manual: docs/evidence/downstream.md, and the results that it is made of, as JSON."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from tests.downstream.projects import Listed, Project
from tests.downstream.results import SUBJECT, LoopRun, Outcome, ProjectRun, expected_failures

INTRODUCTION = """\
# Real projects on loopcore: every failure

<!-- Written by tests/downstream/run.py; edits are lost. -->

[The verdicts](../reference/downstream.md) are in the reference.

The suites of real projects, from their sdists on PyPI, run on loopcore, asyncio and uvloop in the same session. If an
sdist holds no tests, a test program exercises the project instead. loopcore is installed through asyncio's policy and
replaces `asyncio.SelectorEventLoop` in every process of a suite, and each suite must prove that it ran on the intended
loop: the loops that began to run are counted by the package that they come from.

    python tests/downstream/run.py                      # everything: minutes
    python tests/downstream/run.py --project anyio      # one project

Each figure is passed / failed / skipped. A failure on loopcore must also fail on asyncio, or test an implementation
detail of asyncio rather than its promises, or be a race that asyncio may lose as well; such failures are *expected*,
and listed below with the reason. Any other failure is a defect, and ends the run with an error. Deselected tests run on
no loop. uvloop's failures are given for comparison.
"""


def read_results(path: Path) -> dict[str, ProjectRun]:
    """Return the results that `write_results` has written, by the project's name."""
    found = {}
    for entry in json.loads(path.read_text(encoding="utf-8")):
        runs = {}
        for loop, facts in entry.pop("runs").items():
            outcomes = {test: Outcome(*outcome) for test, outcome in facts.pop("outcomes").items()}
            runs[loop] = LoopRun(**facts, outcomes=outcomes)
        found[entry["project"]] = ProjectRun(**entry, runs=runs)
    return found


def write_results(path: Path, results: Mapping[str, ProjectRun]) -> None:
    """Write the results, every single outcome among them."""
    entries = [asdict(result) for _, result in sorted(results.items())]
    for entry in entries:
        for run in entry["runs"].values():
            run["outcomes"] = {test: list(outcome.values()) for test, outcome in run["outcomes"].items()}
    path.write_text(json.dumps(entries, indent=1), encoding="utf-8")


def page(projects: Iterable[Project], results: Mapping[str, ProjectRun]) -> str:
    """Return the page for those projects that have results."""
    shown = [(project, results[project.name]) for project in projects if project.name in results]
    loops = list(dict.fromkeys(loop for _, result in shown for loop in result.runs))
    lines = [INTRODUCTION, _table_head(loops)]
    lines += [_row(project, result, loops) for project, result in shown]
    for project, result in shown:
        lines += _section(project, result)
    return "\n".join(lines) + "\n"


def _table_head(loops: list[str]) -> str:
    heads = ["project", "Python", "version of loopcore", *loops, "deselected", "loops that ran"]
    return "\n".join((f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"))


def _row(project: Project, result: ProjectRun, loops: list[str]) -> str:
    versions = result.versions
    cells = [f"{project.name} {project.version}", versions["python"], f"{versions['loopcore']}, {versions['build']}"]
    cells += [_figures(project, result.runs[loop]) if loop in result.runs else "" for loop in loops]
    cells.append(str(max((run.deselected for run in result.runs.values()), default=0)))
    cells.append(", ".join(f"{run.ran.get(loop, 0)} {loop}" for loop, run in result.runs.items()))
    return f"| {' | '.join(cells)} |"


def _figures(project: Project, run: LoopRun) -> str:
    text = " / ".join(str(run.count(state)) for state in ("passed", "failed", "skipped"))
    expected = expected_failures(project, run.failures())
    remark = f" ({expected} expected)" if expected and run.loop == SUBJECT else ""
    return text + remark + (f" ({run.problem})" if run.problem else "")


def _section(project: Project, result: ProjectRun) -> list[str]:
    versions = result.versions
    lines = ["", f"## {project.name}", "", project.loop]
    if "uvloop" in result.runs:
        lines.append(f"Compared with uvloop {versions['uvloop']}.")
    if project.services:
        lines.append(f"Servers used: {', '.join(project.services)}.")
    lines += _entries("Deselected", project.deselect)
    lines += _entries("Expected to fail", project.expected)
    for loop, run in result.runs.items():
        unlisted = [test for test in sorted(run.failures()) if project.expectation(test) is None]
        if unlisted:
            lines += ["", f"Failed on {loop}, and not listed above:", ""] + [f"- `{test}`" for test in unlisted]
    return lines


def _entries(title: str, entries: Iterable[Listed]) -> list[str]:
    listed = [f"- {', '.join(f'`{test}`' for test in entry.tests)}: {entry.reason}" for entry in entries]
    return ["", f"{title}:", "", *listed] if listed else []
