"""CPython's own tests of asyncio on loopcore, as a script: prints a table, and what failed.

    python -m tests.asyncio_compat.run                              every module, on the best backend
    python -m tests.asyncio_compat.run test_events -k pipe          some tests of one module
    python -m tests.asyncio_compat.run --backend poll --python ~/venvs/3.13/bin/python
    python -m tests.asyncio_compat.run --oracle                     also on asyncio's own loop, and compare

To be run in the repository's root. The exit code is 0 if everything passed that is not excluded.
With --oracle a test that fails on asyncio's own loop as well is marked "asyncio fails too", and exclusions of the kind
`asyncio` that asyncio's own loop passes are reported.
"""

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path

from tests.asyncio_compat.exclusions import of_module, read_exclusions, reasons_for
from tests.asyncio_compat.harness import MODULE_PATIENCE, TEST_PATIENCE, Interpreter, ModuleResult, Run, examine

COLUMNS = ("passed", "on loopcore", "failed", "excluded", "skipped", "seconds")


def main() -> int:
    options = _arguments()
    interpreter = examine(options.python)
    backend = options.backend or _best_backend()
    exclusions = [] if options.include_excluded else read_exclusions()
    run = Run(interpreter, backend, exclusions, options.patience, options.module_patience)
    names = options.modules or [name for name in interpreter.modules if options.include_excluded or _is_run(run, name)]
    results = _run_all(run, names, options.k, options.jobs)
    oracle: dict[str, ModuleResult] = {}
    if options.oracle:
        # Everything, excluded or not: this is what the exclusions of the kind `asyncio` are checked against.
        oracle = _run_all(Run(interpreter, None, [], options.patience, options.module_patience), names, options.k,
                          options.jobs)  # fmt: skip
    title = f"Python {interpreter.full_version}, {backend}, {'compiled' if interpreter.compiled else 'pure'}"
    print(table(title, results))
    complaints = _complaints(results, oracle, options.verbose) + (_passed_by_asyncio(run, oracle) if oracle else [])
    print("\n".join(complaints))
    if options.json:
        _write_json(options.json, interpreter, backend, results)
    return 1 if complaints else 0


def table(title: str, results: dict[str, ModuleResult]) -> str:
    """Return the results as text, a line a module and a line for the sum."""
    rows = [(name, *figures(result)) for name, result in results.items()]
    rows.append(("all", *(sum(row[1 + column] for row in rows) for column in range(len(COLUMNS)))))
    width = max(len(row[0]) for row in rows) + 2
    lines = [title, " " * width + "".join(f"{column:>13}" for column in COLUMNS)]
    lines += [f"{name:{width}}" + "".join(f"{figure:>13.0f}" for figure in row) for name, *row in rows]
    return "\n".join(lines)


def figures(result: ModuleResult) -> tuple[float, ...]:
    """Return the figures of one module, in the order of COLUMNS."""
    return (
        result.count("passed"),
        result.on_loopcore,
        len(result.bad),
        result.count("excluded"),
        result.count("skipped"),
        result.seconds,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="CPython's own tests of asyncio on loopcore")
    parser.add_argument("modules", nargs="*", help="such as test_events; default: all")
    parser.add_argument("-k", action="append", default=[], metavar="PART", help="only tests with PART in their name")
    parser.add_argument("--backend", help="default: the best of this platform")
    parser.add_argument("--python", default=sys.executable, help="an interpreter in which loopcore is installed")
    parser.add_argument("--jobs", type=int, default=2, help="modules at a time")
    parser.add_argument("--patience", type=float, default=TEST_PATIENCE, help="seconds that a test may take")
    parser.add_argument("--module-patience", type=float, default=MODULE_PATIENCE, help="seconds for a module")
    parser.add_argument("--oracle", action="store_true", help="run everything on asyncio's own loop too")
    parser.add_argument("--include-excluded", action="store_true", help="ignore the exclusion list")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the tracebacks in full")
    return parser.parse_args()


def _best_backend() -> str:
    from loopcore.selection.discovery import choose_backend

    return choose_backend(None).name


def _is_run(run: Run, module: str) -> bool:
    """Say whether the module is to be run at all; those that are excluded whole are not even started."""
    concerned = of_module(run.exclusions, module, run.interpreter.version)
    return not any(exclusion.whole_module for exclusion in concerned)


def _run_all(run: Run, names: list[str], only: list[str], jobs: int) -> dict[str, ModuleResult]:
    with ThreadPoolExecutor(jobs) as pool:
        return dict(zip(names, pool.map(partial(run.module, only=only), names), strict=True))


def _complaints(results: dict[str, ModuleResult], oracle: dict[str, ModuleResult], verbose: bool) -> list[str]:
    found = []
    for name, result in results.items():
        found += result.problems
        known = {each.test: each for each in oracle[name].outcomes} if name in oracle else {}
        for outcome in result.bad:
            theirs = known.get(outcome.test)
            remark = " (asyncio fails too)" if theirs is not None and theirs.bad else ""
            last = outcome.details.strip().splitlines()[-1:] or [""]
            text = outcome.details if verbose else last[0][:160]
            found.append(f"{outcome.outcome}{remark}: {name} {outcome.test}: {text}")
    return found


def _passed_by_asyncio(run: Run, oracle: dict[str, ModuleResult]) -> list[str]:
    found = []
    for name, result in oracle.items():
        blamed = [e for e in of_module(run.exclusions, name, run.interpreter.version) if e.kind == "asyncio"]
        excused, _ = reasons_for([each.test for each in result.outcomes], blamed)
        passed = {each.test for each in result.outcomes if each.outcome == "passed"}
        found += [
            f"excluded because asyncio fails it, which it does not: {name} {test}" for test in excused if test in passed
        ]
    return found


def _write_json(path: Path, interpreter: Interpreter, backend: str, results: dict[str, ModuleResult]) -> None:
    facts = {"python": interpreter.full_version, "backend": backend, "compiled": interpreter.compiled}
    modules = {name: [asdict(outcome) for outcome in result.outcomes] for name, result in results.items()}
    path.write_text(json.dumps({**facts, "modules": modules}), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
