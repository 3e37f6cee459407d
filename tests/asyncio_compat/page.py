"""Writes docs/evidence/cpython-tests.md from results of run.py.

    python -m tests.asyncio_compat.run --json 311.json
    python -m tests.asyncio_compat.run --python .../3.13/bin/python --json 313.json
    python -m tests.asyncio_compat.page 311.json 313.json

To be run in the repository's root. A row of the page stays until a result of the same Python, backend and build takes
its place: a run on one Python need not repeat those on the others. The modules' table shows, for each Python, the first
result that is given.
tests/docs checks that the reasons on the page are those of the exclusion list.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.asyncio_compat.exclusions import EVERY_TEST, Exclusion, read_exclusions

Row = tuple[Any, ...]

PAGE = Path("docs/evidence/cpython-tests.md")

INTRODUCTION = """\
# CPython's tests of asyncio: runs and exclusions

<!-- Written by tests/asyncio_compat/page.py; edits are lost. -->

[The verdict](../reference/cpython-tests.md) is in the reference.

CPython's own tests of asyncio (`test.test_asyncio` of each Python) run on loopcore: its loop is installed through
asyncio's policy and replaces `asyncio.SelectorEventLoop`, and the tests that CPython generates for each
implementation of Future and Task are generated for loopcore's. The tests of streams run twice, on asyncio's streams
and on loopcore's own. Every module runs in a separate process.

    python -m tests.asyncio_compat.run                  # a table, and what failed
    python -m tests.asyncio_compat.run --oracle         # laid beside asyncio's own loop
    pytest tests/asyncio_compat                         # a test for each module

*Passed* counts tests; of these, *on loopcore* used a loop, a task or a future of loopcore's (the others test parts of
asyncio that have no loop, or abstract classes). *Failed* includes tests that hang. *Excluded* tests are listed
below, each with its reason; *skipped* tests skip themselves, as they do on asyncio's own loop.
"""

REASONS = """\
## What is excluded, and why

The list is `tests/asyncio_compat/exclusions.toml`. It holds tests of CPython's private internals and of other
platforms, and nothing else; an entry that matches no test fails the run.
"""


def main(files: list[str]) -> None:
    results = [json.loads(Path(file).read_text(encoding="utf-8")) for file in files]
    PAGE.write_text(page(results, read_rows(PAGE)), encoding="utf-8")


def page(results: list[dict[str, Any]], before: Sequence[Row] = ()) -> str:
    """Return the whole page; `before` are rows of the runs' table that stay unless they were repeated."""
    return "\n".join([INTRODUCTION, _runs(results, before), _modules(results), reasons(read_exclusions())])


def reasons(exclusions: list[Exclusion]) -> str:
    """Return the section of the exclusions, without anything that a run tells."""
    rows = []
    for each in exclusions:
        tests = "the whole module" if EVERY_TEST in each.tests else "<br>".join(f"`{test}`" for test in each.tests)
        rows.append((f"`{each.module}`", tests, ", ".join(each.versions) or "all", each.reason))
    return REASONS + "\n" + _table(("module", "tests", "Python", "reason"), rows)


def read_rows(path: Path) -> list[Row]:
    """Return the rows of the runs' table on the page at `path`; none if there is no page yet."""
    if not path.exists():
        return []
    _, _, rest = path.read_text(encoding="utf-8").partition("## Runs\n")
    lines = rest.partition("\n## ")[0].splitlines()
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines if line.startswith("|")]
    return rows[2:]  # after the heads and the line below them


def _runs(results: list[dict[str, Any]], before: Sequence[Row]) -> str:
    rows = {row[:3]: row for row in before}
    for result in results:
        outcomes = [outcome for module in result["modules"].values() for outcome in module]
        build = "compiled" if result["compiled"] else "pure"
        run = (result["python"], result["backend"], build)
        rows[run] = (*run, *_figures(outcomes))
    heads = ("Python", "backend", "build", "passed", "on loopcore", "failed", "excluded", "skipped")
    return "## Runs\n\n" + _table(heads, [rows[run] for run in sorted(rows, key=_rank)])


def _rank(run: Row) -> tuple[Any, ...]:
    python, backend, build = run
    return [int(part) for part in re.findall(r"\d+", python)], build, backend


def _modules(results: list[dict[str, Any]]) -> str:
    by_python: dict[str, dict[str, Any]] = {}
    for result in results:
        by_python.setdefault(result["python"], result["modules"])
    rows = []
    for name in sorted({name for modules in by_python.values() for name in modules}):
        row = [f"`{name}`"]
        for modules in by_python.values():
            if name in modules:
                passed, _, failed, excluded, _ = _figures(modules[name])
                row.append(f"{passed} / {failed} / {excluded}")
            else:
                row.append("")
        rows.append(tuple(row))
    text = "## Modules\n\nPassed / failed / excluded, for each Python, on its first backend above.\n\n"
    return text + _table(("module", *by_python), rows)


def _figures(outcomes: list[dict[str, Any]]) -> tuple[int, int, int, int, int]:
    counts = Counter(outcome["outcome"] for outcome in outcomes)
    on_loopcore = sum(outcome["outcome"] == "passed" and outcome["on_loopcore"] for outcome in outcomes)
    failed = counts["failed"] + counts["hung"] + counts["died"]
    return counts["passed"], on_loopcore, failed, counts["excluded"], counts["skipped"]


def _table(heads: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
