"""The pytest plugin of the runs under Wine: writes down what became of each test, and applies the expected failures.

Loaded with `-p tests.windows.plugin` by run.py, which reads the file that WINDOWS_TEST_RESULTS names: a JSON object
a line, when a test starts and when it has ended. A test that takes longer than PATIENCE ends the process with all its
stacks on stderr; run.py then starts another for the tests that are left.
"""

import faulthandler
import gc
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.windows.expected import absent, asks_for, of_test, read_expected

PATIENCE = float(os.environ.get("WINDOWS_TEST_PATIENCE", "120"))
"""Seconds a test may take, set-up and all; run.py says."""

_outcomes: dict[str, dict[str, Any]] = {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ended = _ended_before()
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in ended])
    items[:] = [item for item in items if item.nodeid not in ended]
    expected = read_expected()
    for item in items:
        for entry in of_test(item.nodeid, expected):
            # What a test leaves behind counts against it at its end, where a mark comes too late.
            item.add_marker(pytest.mark.xfail(reason=entry.reason, run=entry.run, strict=entry.strict), append=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _write(event="start", test=item.nodeid)
    faulthandler.dump_traceback_later(PATIENCE, exit=True, file=sys.__stderr__)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
        if _outcomes.get(item.nodeid, {}).get("outcome") in ("expected", "skipped"):
            _clear_away()
        _write(event="end", test=item.nodeid, **_outcomes.pop(item.nodeid, {"outcome": "error", "details": ""}))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: Any = yield
    if report.failed and call.excinfo is not None:
        reason = absent(call.excinfo.value, item.nodeid, str(call.excinfo.traceback[-1].path))
        if reason is not None:
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, f"not on Windows: {reason}")
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    known = _outcomes.setdefault(report.nodeid, {"outcome": "passed", "details": ""})
    if report.failed:
        known["outcome"] = "failed"
        known["details"] += report.longreprtext
    elif report.skipped:
        known["outcome"] = "expected" if hasattr(report, "wasxfail") else "skipped"
        known["details"] = getattr(report, "wasxfail", "") or str(report.longrepr)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        last = report.longreprtext.strip().rpartition("\n")[2]
        outcome = "skipped" if asks_for(last) else "failed"
        _write(event="start", test=report.nodeid)
        _write(event="end", test=report.nodeid, outcome=outcome, details=report.longreprtext)


def pytest_sessionfinish(session: pytest.Session) -> None:
    _write(event="complete")


def _clear_away() -> None:
    """Collect what a test that broke off has left, which the next one would be blamed for."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda event: None
    try:
        gc.collect()
    finally:
        sys.unraisablehook = hook


def _ended_before() -> set[str]:
    with open(os.environ["WINDOWS_TEST_RESULTS"], encoding="utf-8") as results:
        events = [json.loads(line) for line in results]
    return {event["test"] for event in events if event["event"] != "complete"}


def _write(**event: Any) -> None:
    with open(os.environ["WINDOWS_TEST_RESULTS"], "a", encoding="utf-8") as results:
        results.write(json.dumps(event) + "\n")
