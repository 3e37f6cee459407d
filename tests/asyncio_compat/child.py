"""The child process: runs one module of test.test_asyncio and writes down what became of each test.

Run by path, with the interpreter whose tests are wanted; it imports nothing of pytest. One JSON object a line goes
to the results file, written when a test starts and when it ends, so that the parent knows which test was under way if
this process is killed. A test that takes longer than --patience seconds ends the process with all its stacks on
stderr (faulthandler); the parent then starts another process for the tests that are left.
"""

import argparse
import faulthandler
import gc
import importlib
import json
import logging
import os
import sys
import time
import traceback
import unittest
import warnings
from pathlib import Path
from typing import Any

import installing  # beside this file: it is run by path


class Recorder(unittest.TestResult):
    """Writes a line when a test starts and a line when it ends."""

    def __init__(self, results: Any, patience: float) -> None:
        super().__init__()
        self._results = results
        self._patience = patience
        self._outcome = "passed"
        self._details: list[str] = []
        self._started = time.monotonic()
        self._loops_before = 0

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        gc.collect()  # where the next collection comes is then the test's own doing: some drop a task that waits
        self._outcome, self._details = "passed", []
        self._started = time.monotonic()
        self._loops_before = installing.loops_made()
        self._write(event="start", test=name_of(test))
        faulthandler.dump_traceback_later(self._patience, exit=True)

    def stopTest(self, test: unittest.TestCase) -> None:
        faulthandler.cancel_dump_traceback_later()
        super().stopTest(test)
        self._write(
            event="end",
            test=name_of(test),
            outcome=self._outcome,
            seconds=round(time.monotonic() - self._started, 3),
            on_loopcore=installing.loops_made() > self._loops_before or installing.is_adapted(type(test)),
            details="\n".join(self._details),
        )
        # Python 3.12.1 starts no test that a class or a decorator skips, but ends it.
        self._started = time.monotonic()
        self._outcome, self._details = "passed", []

    def addSuccess(self, test: unittest.TestCase) -> None:
        pass  # unless something else was added, which a sub-test may do

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        if self._outcome == "passed":
            self._outcome = "skipped"
            self._details.append(reason)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self._outcome = "failed"
        self._details.append("".join(traceback.format_exception(*err)))
        if not isinstance(test, unittest.TestCase):  # setUpModule or setUpClass, which are not started
            self._write(event="end", test=str(test), outcome="failed", seconds=0.0, on_loopcore=True,
                        details=self._details.pop())  # fmt: skip

    addFailure = addError  # noqa: N815 - unittest's name

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self.addError(test, err)

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        pass

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self._outcome = "failed"
        self._details.append("unexpected success")

    def _write(self, **line: Any) -> None:
        self._results.write(json.dumps(line) + "\n")
        self._results.flush()


def name_of(test: unittest.TestCase) -> str:
    """Return "Class.test_method", the name that exclusions and tables use."""
    return ".".join(test.id().split(".")[-2:])


def load_tests(module: Any) -> list[unittest.TestCase]:
    """Return the module's tests, class by class, as unittest would."""
    found = []
    for _, each in sorted(vars(module).items()):
        if isinstance(each, type) and issubclass(each, unittest.TestCase):
            found += [each(name) for name in unittest.defaultTestLoader.getTestCaseNames(each)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("module", help="of test.test_asyncio, for instance test_events")
    parser.add_argument("--backend", help="loopcore's backend; without it the tests run on asyncio's own loop")
    parser.add_argument("--results", required=True, type=Path)
    parser.add_argument("--patience", type=float, default=30.0, help="seconds that a test may take")
    parser.add_argument("--leave-out", type=Path, help="a file with names of tests not to run, one a line")
    parser.add_argument("--list", action="store_true", help="write the names of the tests, and run nothing")
    options = parser.parse_args()

    # As regrtest does: tests assert on warnings, and some provoke errors that would be logged.
    warnings.simplefilter("default")
    logging.getLogger("asyncio").addHandler(logging.NullHandler())
    if options.backend:
        installing.install(options.backend)
    module = importlib.import_module(f"test.test_asyncio.{options.module}")
    if options.backend:
        installing.adapt(module, options.backend)
    left_out = set(options.leave_out.read_text().splitlines()) if options.leave_out else set()
    tests = load_tests(module)
    with options.results.open("a", encoding="utf-8") as results:
        if options.list:
            results.write(json.dumps({"event": "list", "tests": [name_of(test) for test in tests]}) + "\n")
        else:
            suite = unittest.TestSuite(test for test in tests if name_of(test) not in left_out)
            gc.collect()
            gc.freeze()  # each test is preceded by a collection, which needs not look at what is loaded
            suite.run(Recorder(results, options.patience))
            results.write(json.dumps({"event": "complete"}) + "\n")
    sys.stderr.flush()
    os._exit(0)  # threads and processes that failed tests left behind must not keep this one


if __name__ == "__main__":
    main()
