"""Running modules of test.test_asyncio in child processes, and what comes of it.

`run_module` starts child.py, reads the lines it wrote, and starts it again for the tests that are left when one test
hung or took the process down with it. Nothing of this process is patched: every module has its own.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.asyncio_compat.exclusions import Exclusion, of_module, reasons_for

HERE = Path(__file__).parent
TEST_PATIENCE = 30.0
"""Seconds a test may take; CPython's own wait at most 10 s for what does not come."""
MODULE_PATIENCE = 300.0
STARTS_LIMIT = 40
"""A module that takes down its process more often than this is given up."""


@dataclass(frozen=True)
class Outcome:
    """What became of one test."""

    test: str
    outcome: str
    """passed, failed, hung, died, skipped or excluded"""
    seconds: float = 0.0
    on_loopcore: bool = False
    details: str = ""

    @property
    def bad(self) -> bool:
        return self.outcome in ("failed", "hung", "died")


@dataclass
class ModuleResult:
    """What became of one module."""

    module: str
    outcomes: list[Outcome] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What is wrong with the run itself: unused exclusions, a module that cannot be imported."""
    seconds: float = 0.0

    def count(self, *outcomes: str) -> int:
        counts = Counter(each.outcome for each in self.outcomes)
        return sum(counts[outcome] for outcome in outcomes)

    @property
    def bad(self) -> list[Outcome]:
        return [each for each in self.outcomes if each.bad]

    @property
    def on_loopcore(self) -> int:
        """How many of the tests that passed used a loop, a task or a future of loopcore's."""
        return sum(each.on_loopcore for each in self.outcomes if each.outcome == "passed")


class NoTestPackage(Exception):
    """The interpreter was installed without its own tests."""


@dataclass(frozen=True)
class Interpreter:
    """A Python whose test.test_asyncio is run."""

    executable: str
    version: str
    """major.minor"""
    full_version: str
    modules: tuple[str, ...]
    compiled: bool
    """whether loopcore is compiled there"""


def examine(executable: str = sys.executable) -> Interpreter:
    """Return what `executable` has to offer. Raises NoTestPackage."""
    question = (
        "import importlib.util, json, pathlib, platform\n"
        "try: where = importlib.util.find_spec('test.test_asyncio')\n"
        "except ModuleNotFoundError: where = None\n"
        "found = [] if where is None else sorted(p.stem for p in pathlib.Path(where.origin).parent.glob('test_*.py'))\n"
        "from loopcore.build_info import describe_build\n"
        "print(json.dumps([platform.python_version(), found, describe_build().compiled]))\n"
    )
    asked = subprocess.run([executable, "-c", question], capture_output=True, text=True, check=True, env=_environment())
    version, modules, compiled = json.loads(asked.stdout)
    if not modules:
        raise NoTestPackage(f"{executable} (Python {version}) was installed without test.test_asyncio")
    return Interpreter(executable, ".".join(version.split(".")[:2]), version, tuple(modules), compiled)


@dataclass(frozen=True)
class Run:
    """How modules are to be run."""

    interpreter: Interpreter
    backend: str | None
    """loopcore's backend; None runs the tests on asyncio's own loop"""
    exclusions: Sequence[Exclusion]
    test_patience: float = TEST_PATIENCE
    module_patience: float = MODULE_PATIENCE

    def module(self, module: str, only: Sequence[str] = ()) -> ModuleResult:
        """Run one module, or those of its tests whose names contain one of `only`."""
        result = ModuleResult(module)
        concerned = of_module(self.exclusions, module, self.interpreter.version)
        with tempfile.TemporaryDirectory(prefix="loopcore-compat-") as folder:
            child = _Child(self, module, Path(folder))
            tests = child.list_tests()
            if tests is None:
                result.problems.append(f"{module} could not be loaded:\n{child.last_words()}")
                return result
            excluded, unused = reasons_for(tests, concerned)
            if tests:
                result.problems += [f"unused exclusion of {module} on {self.interpreter.version}: {p}" for p in unused]
            unwanted = {test for test in tests if only and not any(part in test for part in only)}
            result.outcomes = [Outcome(test, "excluded") for test in excluded]
            wanted = [test for test in tests if test not in excluded and test not in unwanted]
            self._run_tests(child, wanted, set(tests) - set(wanted), result)
        return result

    def _run_tests(self, child: "_Child", wanted: list[str], left_out: set[str], result: ModuleResult) -> None:
        starts = 0
        while wanted:
            starts += 1
            outcomes, complete, seconds = child.run(left_out)
            result.outcomes += outcomes
            result.seconds += seconds
            ended = {outcome.test for outcome in outcomes}
            left_out |= ended
            wanted = [test for test in wanted if test not in ended]
            if complete:
                break
            if not ended or starts == STARTS_LIMIT or result.seconds > self.module_patience:
                result.problems.append(f"{result.module} was given up; not run: {', '.join(wanted)}")
                break


class _Child:
    """Runs child.py, as often as it takes."""

    def __init__(self, run: Run, module: str, folder: Path) -> None:
        self._run = run
        self._module = module
        self._folder = folder
        self._results = folder / "results.jsonl"
        self._output = folder / "output.txt"

    def list_tests(self) -> list[str] | None:
        self._start("--list")
        lines = self._lines()
        return list(lines[0]["tests"]) if lines else None

    def run(self, left_out: set[str]) -> tuple[list[Outcome], bool, float]:
        """Run what is not left out; return the outcomes, whether nothing is left, and the seconds it took."""
        names = self._folder / "left-out.txt"
        names.write_text("\n".join(left_out))
        timed_out = self._start("--leave-out", str(names), "--patience", str(self._run.test_patience))
        outcomes, under_way, complete = [], None, False
        for line in self._lines():
            event = line.pop("event")
            if event == "start":
                under_way = line["test"]
            elif event == "end":
                outcomes.append(Outcome(**line))
                under_way = None
            else:
                complete = True
        if under_way is not None:
            words = self.last_words()
            hung = timed_out or "Timeout (" in words
            outcomes.append(Outcome(under_way, "hung" if hung else "died", self._run.test_patience, True, words))
        return outcomes, complete, sum(outcome.seconds for outcome in outcomes)

    def last_words(self, limit: int = 6000) -> str:
        return self._output.read_text(errors="replace")[-limit:]

    def _lines(self) -> list[dict[str, Any]]:
        if not self._results.exists():
            return []
        return [json.loads(line) for line in self._results.read_text(encoding="utf-8").splitlines()]

    def _start(self, *arguments: str) -> bool:
        """Run the child to its end; return whether it had to be killed."""
        self._results.unlink(missing_ok=True)
        command = [self._run.interpreter.executable, str(HERE / "child.py"), self._module]
        command += ["--results", str(self._results), *arguments]
        if self._run.backend is not None:
            command += ["--backend", self._run.backend]
        with self._output.open("wb") as output:
            # A session of its own: what it leaves behind is killed with it. A folder of its own: tests litter.
            child = subprocess.Popen(
                command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True, env=_environment(),
            )  # fmt: skip
            try:
                child.wait(self._run.module_patience)
            except subprocess.TimeoutExpired:
                return True
            finally:
                try:
                    os.killpg(child.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                child.wait()
        return False


def _environment() -> dict[str, str]:
    """Return this process's environment without what would change what is tested."""
    prefixes = ("LOOPCORE_", "PYTHONASYNCIO", "PYTEST_", "PYTHONDEV", "PYTHONWARN")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    chosen = {name: os.environ[name] for name in ("LOOPCORE_TASKS", "LOOPCORE_TEST_KQUEUE") if name in os.environ}
    return kept | chosen
