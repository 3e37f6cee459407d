"""Runs the contract against one backend, in a separate pytest, and reports which guarantees are kept.

The test file is the three lines that any author of a backend writes; it is made in a temporary folder, so that
neither the settings of the current folder nor other pytest plugins have any effect.
"""

import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from loopcore.errors import UsageError, check_writable
from loopcore.ports.completion import is_completion_backend
from loopcore.testing import making
from loopcore.testing.guarantees import GUARANTEES, NAMES
from loopcore.testing.report import Outcome, Report, badge_of

PROGRAM = """\
from loopcore.testing.conformance import BackendContract


class TestBackend(BackendContract):
    backend = {backend!r}
"""
SETTINGS = "[pytest]\nfilterwarnings = error\nfaulthandler_timeout = 120\n"


class Collector:
    """A pytest plugin that deselects unwanted tests, and records how each test ended."""

    def __init__(self, wanted: Iterable[str]) -> None:
        self.wanted = frozenset(wanted)
        self.outcomes: dict[str, Outcome] = {}

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the wanted tests, or all."""
        if self.wanted:
            left_out = [item for item in items if getattr(item, "originalname", "") not in self.wanted]
            items[:] = [item for item in items if item not in left_out]
            config.hook.pytest_deselected(items=left_out)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record an outcome; that of a fixture counts unless it passed."""
        if report.when != "call" and report.passed:
            return
        name = report.nodeid.rsplit("::", 1)[1]
        before = self.outcomes.get(name)
        if before is not None and before.outcome == "failed":
            return
        why = ""
        if report.skipped:
            why = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        elif report.failed:
            why = _last_line(report)
        self.outcomes[name] = Outcome(report.outcome, why.removeprefix("Skipped: "), round(report.duration, 3))


def _last_line(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash is not None else report.longrepr).strip()


def prove(backend: str, only: Sequence[str] = (), json_file: Path | None = None, badge: Path | None = None) -> int:
    """Run the contract on `backend`, and write the results. Returns 0 if all is kept, 1 if not.

    Raises UsageError for an unknown guarantee, as `choose_backend` does for a name, and without assert statements.
    """
    if not __debug__:
        raise UsageError("the contract is made of assert statements; run it without -O and PYTHONOPTIMIZE")
    factory = factory_of(backend)
    unknown = [name for name in only if name not in NAMES]
    if unknown:
        known = ", ".join(each.name for each in GUARANTEES)
        raise UsageError(f"--only: there is no guarantee {', '.join(map(repr, unknown))}; there are {known}")
    wanted = {test for each in GUARANTEES if each.name in only for test in each.tests} | {*only}
    for path in (json_file, badge):
        if path is not None:
            check_writable(path)
    collector = Collector(wanted)
    with tempfile.TemporaryDirectory(prefix="loopcore-conformance-") as folder:
        status = run_tests(Path(folder), backend, collector)
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise UsageError(f"the contract could not be run: pytest ended with {status!r}, see above")
    port = "completion" if is_completion_backend(factory) else "readiness"
    report = Report(backend, port, collector.outcomes, partial=bool(only))
    print("\n".join(report.lines()))
    if json_file is not None:
        json_file.write_text(json.dumps(report.as_json(factory), indent=2) + "\n", encoding="utf-8")
    if badge is not None:
        badge.write_text(badge_of(report), encoding="utf-8")
    return 1 if report.broken() or status != pytest.ExitCode.OK else 0


def factory_of(backend: str) -> Any:
    """Return the class of `backend`. Raises UsageError if `MODULE:CLASS` is not found, or not a class."""
    try:
        found = making.factory_of(backend)
    except (ImportError, AttributeError) as exc:
        raise UsageError(f"there is no backend {backend!r}: {exc}") from None
    if ":" in backend and not isinstance(found, type):
        raise UsageError(f"{backend!r} is not a backend class; name one as MODULE:CLASS")
    return found


def run_tests(folder: Path, backend: str, collector: Collector) -> int:
    """Run the contract in `folder`, with pytest's own progress on the terminal."""
    file, settings = folder / "test_backend.py", folder / "pytest.ini"
    file.write_text(PROGRAM.format(backend=backend), encoding="utf-8")
    settings.write_text(SETTINGS, encoding="utf-8")
    before = os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        options = ["-q", "--no-header", "--import-mode=importlib", f"--rootdir={folder}", f"--config-file={settings}"]
        return int(pytest.main([*options, "-p", "no:cacheprovider", "-p", "loopcore_pytest", str(file)], [collector]))
    finally:
        if before is None:
            del os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"]
        else:
            os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = before
