"""loopcore's tests on genuine Windows CPython under Wine ("stand-in Windows"), as a script.

    python -m tests.windows.run                                  the suites that make sense there, on every backend
    python -m tests.windows.run tests/unit/test_sockops.py -k recv           these, with pytest's own options
    python -m tests.windows.run --backend select tests/transports
    python -m tests.windows.run --only-make                      makes the environment, and prints its interpreter

Needs Wine and mingw-w64 (a message says how to get them), this Python's own standard library, and pip, which
fetches what interpreter.txt and packages.txt pin. To be run in the repository's root, in an environment with
`loopcore[dev]`. The first run takes a minute and 1 GB; what it made is used again. CPython's own tests of asyncio
run there too:

    python -m tests.asyncio_compat.run --python .tox/windows-py311/bin/python --backend select test_streams

Prints the failures and one line of counts for each folder; the exit code is 0 if everything passed or was expected
to fail.
"""

import argparse
import json
import os
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tests.windows.environment import Unavailable, Windows
from tests.windows.expected import read_expected, unused

SUITES = ("tests/unit", "tests/backends", "tests/transports")
PATIENCE = 3600.0
"""Seconds for one process. The plugin ends a test that hangs, so this is for what hangs outside of tests."""
STARTS_LIMIT = 40
FOLDER = Path(".tox") / f"windows-py{sys.version_info.major}{sys.version_info.minor}"
OUTCOMES = ("passed", "failed", "hung", "expected", "skipped")


def main() -> int:
    parser = argparse.ArgumentParser(description="loopcore's tests on Windows CPython under Wine")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="the environment's, made if needed (%(default)s)")
    parser.add_argument("--backend", help="only this one and asyncio's own loop; default: all there are")
    parser.add_argument("--only-make", action="store_true", help="make the environment, and no more")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds that a test may take (%(default)s)")
    options, arguments = parser.parse_known_args()
    windows = Windows(options.folder)
    try:
        windows.make()
    except Unavailable as exc:
        print(exc, file=sys.stderr)
        return 2
    if options.only_make:
        print(windows.script)
        return 0
    if options.backend:
        os.environ["LOOPCORE_BACKEND"] = options.backend
    os.environ["WINDOWS_TEST_PATIENCE"] = str(options.patience)
    outcomes, complete = run_tests(windows, arguments)
    if options.json:
        options.json.write_text(json.dumps(outcomes), encoding="utf-8")
    return report(outcomes, complete, narrowed="-k" in arguments or options.backend is not None)


def run_tests(windows: Windows, arguments: list[str]) -> tuple[list[dict[str, Any]], bool]:
    """Run pytest, again for the tests that are left when one took the process down; return what became of each."""
    if not any(argument.startswith("tests") for argument in arguments):
        arguments = [*SUITES, *arguments]
    results = windows.folder / "results.jsonl"
    results.write_text("")
    os.environ["WINDOWS_TEST_RESULTS"] = str(results)
    command = ["-m", "pytest", "-p", "tests.windows.plugin", "-p", "no:cacheprovider", "-q", *arguments]
    # The plugin's time limit ends the process; pytest's own would take its only timer away.
    command += ["--continue-on-collection-errors", "-o", "faulthandler_timeout=0"]
    for _ in range(STARTS_LIMIT):
        windows.run(command, PATIENCE)
        events = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
        if events and events[-1]["event"] == "complete":
            return outcomes_of(events), True
    return outcomes_of(events), False


def outcomes_of(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the outcome of each test. One that has begun and has not ended took its process down."""
    found: dict[str, dict[str, Any]] = {}
    for event in events:
        if event["event"] == "start":
            found[event["test"]] = {"test": event["test"], "outcome": "hung", "details": "hung, or ended the process"}
        elif event["event"] == "end":
            found[event["test"]] = event
    return list(found.values())


def report(outcomes: list[dict[str, Any]], complete: bool, narrowed: bool) -> int:
    """Print what failed and the counts; return the exit code."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    bad = [each for each in outcomes if each["outcome"] in ("failed", "hung", "error")]
    for each in outcomes:
        counts["/".join(each["test"].split("/")[:2])][each["outcome"]] += 1
    for each in bad:
        last = each["details"].strip().splitlines()[-1:] or [""]
        print(f"{each['outcome']}: {each['test']}: {last[0][:160]}")
    print(" " * 24 + "".join(f"{name:>10}" for name in OUTCOMES))
    for suite, found in sorted(counts.items()):
        print(f"{suite:24}" + "".join(f"{found[name]:>10}" for name in OUTCOMES))
    stale = [] if narrowed else unused([each["test"] for each in outcomes], read_expected())
    for pattern in stale:
        print(f"no test matches the expected failure {pattern}")
    if not complete:
        print("given up: not all tests were run")
    return 1 if bad or stale or not complete else 0


if __name__ == "__main__":
    sys.exit(main())
