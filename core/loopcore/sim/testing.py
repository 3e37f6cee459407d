"""`pytest --loopcore-sim`: unmodified tests in simulations, one for each schedule.

A test runs once for each seed, each time in a new simulation that contains all of it: the set-up of its fixtures of
every scope, the test, and their teardown. So no loop, socket or task outlives a simulation, a class, module or session
scoped loop of pytest-asyncio included, and each run is as if the test were the only one. The price is that fixtures of
wider scopes are set up once for each schedule.

Seed 0 is asyncio's own order. A test that makes no choice and draws no random number there runs once: it has no other
schedule. The first seed that fails ends the search; it is shrunk, and the shrunk run's report is that of the test.

A test that failed because it called what is not simulated says nothing about the program: it is reported as skipped,
"refused". One that caught the refusal and failed of another error has failed; its report lists the refused calls.

A test that starts simulations itself (`loopcore.sim.check(main)`) runs once, as it does without the option: simulations
do not nest.
"""

import shlex
import time
from collections.abc import Generator
from typing import Any, Final, TypeVar

import pytest
from _pytest.runner import runtestprotocol

from loopcore.sim.checking import kind_of
from loopcore.sim.errors import NestedSimulationError, NotSimulatedError, SimulationError
from loopcore.sim.report.failure import in_words
from loopcore.sim.running import outside, simulation
from loopcore.sim.search import mixed
from loopcore.sim.shrinking import shrunk
from loopcore.sim.tape import Level, Strategy, Tape

SHRINK_RUNS: Final = 300
SHRINK_SECONDS: Final = 10.0
_SECTION: Final = "loopcore-sim"

_E = TypeVar("_E", bound=BaseException)


class _Run:
    """One run of a test in a simulation: its reports, and the exceptions behind those that failed."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.reports: list[pytest.TestReport] = []
        self.errors: list[tuple[str, BaseException]] = []
        self.refused: list[str] = []
        """Every call that was refused, also where the program caught the error."""
        self.seconds = 0.0

    @property
    def failed(self) -> bool:
        return any(report.failed for report in self.reports)

    @property
    def refusal(self) -> NotSimulatedError | None:
        """The refusal that made the run fail: a part or a cause of its first error."""
        return self._failed_of(NotSimulatedError)

    @property
    def simulates_itself(self) -> bool:
        """Whether the run failed because the test starts simulations itself."""
        return self._failed_of(NestedSimulationError) is not None

    def _failed_of(self, kind: type[_E]) -> _E | None:
        return _first(kind, self.errors[0][1]) if self.failed and self.errors else None

    @property
    def passed(self) -> bool:
        return all(report.passed and not hasattr(report, "wasxfail") for report in self.reports)

    def end_badly(self, error: SimulationError) -> None:
        """Add an error that came after the test's teardown, or says that this was not the run to repeat."""
        last = self.reports[-1]
        if last.passed:
            last.outcome, last.longrepr = "failed", f"{type(error).__name__}: {error}"
        self.errors.append(("teardown", error))

    @property
    def kind(self) -> object:
        """What makes two failures the same: the phase, the class of the exception, and where it was raised."""
        return [(phase, kind_of(error)) for phase, error in self.errors[:1]] if self.failed else None


class SimulationPlugin:
    """Runs every test in simulations. Registered by --loopcore-sim and --loopcore-sim-replay."""

    def __init__(self, seeds: int, token: str | None, level: Level = Level.IO) -> None:
        self._seeds = seeds
        self._token = token
        self._level = level
        self._run: _Run | None = None
        self._timeout: object = None
        """Settings of the timer that pytest-timeout has started for the test, before its first schedule."""
        self._tests = self._refused = self._schedules = self._unsimulated = 0
        self._seconds = 0.0

    def pytest_report_header(self) -> str:
        """Say what a test means in this run."""
        if self._token is not None:
            return f"loopcore-sim: replay of {self._token}"
        level = f" of level {self._level.name.lower()}" if self._level else ""
        return f"loopcore-sim: each test in a simulation, up to {self._seeds} schedules{level}"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Refuse to replay several tests: a token belongs to one."""
        if self._token is not None and len(items) > 1:
            raise pytest.UsageError(
                f"--loopcore-sim-replay runs one test, these are {len(items)}; name it: pytest PATH::TEST"
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool:
        """Run `item` on many schedules, and report it once."""
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        _make_base_of_temporary_folders(item.config)
        run, schedules, seconds = self._replayed(item) if self._token is not None else self._searched(item)
        simulates_itself = run.simulates_itself and self._token is None
        if simulates_itself:
            run.reports = self._unsimulated_reports(item)
        elif run.refusal is not None:
            _skip(item, run, run.refusal)
        run.reports[-1].loopcore_sim = {  # type: ignore[attr-defined]  # a report's attributes travel to xdist's controller
            "schedules": schedules,
            "seconds": seconds,
            "refused": any(_is_refused(report) for report in run.reports),
            "unsimulated": simulates_itself,
        }
        for report in run.reports:
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        self._timeout = None
        return True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep the exception of a report that failed."""
        report = yield
        if self._run is not None and report.failed and call.excinfo is not None:
            self._run.errors.append((call.when, call.excinfo.value))
        return report

    @pytest.hookimpl(wrapper=True, optionalhook=True)
    def pytest_timeout_set_timer(self, settings: object) -> Generator[None, object, object]:
        """Let pytest-timeout start a timer of real time, for each schedule."""
        if self._run is None:
            self._timeout = settings
            return (yield)
        with outside():  # it limits the function only
            return (yield)

    @pytest.hookimpl(wrapper=True, optionalhook=True)
    def pytest_timeout_cancel_timer(self) -> Generator[None, object, object]:
        """Let pytest-timeout stop its timer of real time."""
        if self._run is None:
            return (yield)
        with outside():
            return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count; with pytest-xdist this is called in the controller, for the tests of all workers."""
        counts = getattr(report, "loopcore_sim", None)
        if counts is not None:
            self._tests += 1
            self._schedules += counts["schedules"]
            self._seconds += counts["seconds"]
            self._refused += counts["refused"]
            self._unsimulated += counts["unsimulated"]

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        """Print what was run."""
        if self._tests:
            terminalreporter.line(
                f"loopcore-sim: {_count(self._tests, 'test')}, {_count(self._schedules, 'schedule')}, "
                f"{self._seconds:,.1f} simulated seconds, {self._refused:,} refused"
            )
        if self._unsimulated:
            terminalreporter.line(
                f"loopcore-sim: {self._unsimulated:,} of them ran as without the option: "
                "they start simulations themselves"
            )

    # --- one test -----------------------------------------------------------------------------------

    def _simulated(self, item: pytest.Item, tape: Tape) -> _Run:
        run = self._run = _Run(tape)
        properties = list(item.user_properties)
        item._report_sections.clear()
        self._restart_timer(item)
        try:
            with simulation(tape) as world:
                try:
                    run.reports = runtestprotocol(item, log=False, nextitem=None)
                finally:
                    run.seconds = world.now
                    run.refused = world.refused
        except SimulationError as exc:  # its end: threads that go on
            run.end_badly(exc)
        finally:
            self._run = None
            item.user_properties[:] = properties
        tape.end()
        return run

    def _unsimulated_reports(self, item: pytest.Item) -> list[pytest.TestReport]:
        item._report_sections.clear()
        self._restart_timer(item)
        return runtestprotocol(item, log=False, nextitem=None)

    def _restart_timer(self, item: pytest.Item) -> None:
        if self._timeout is not None:
            item.ihook.pytest_timeout_cancel_timer(item=item)
            item.ihook.pytest_timeout_set_timer(item=item, settings=self._timeout)

    def _replayed(self, item: pytest.Item) -> tuple[_Run, int, float]:
        assert self._token is not None
        run = self._simulated(item, Tape.from_token(self._token))
        lines = [f"loopcore-sim: replayed with seed {run.tape.seed}", *_differences(run), *_refused_calls(run)]
        if run.tape.divergence is not None:
            different = (
                f"this is not the run of the token: {run.tape.divergence}; the test or its libraries have changed, or "
                "the order of a set matters: use the same PYTHONHASHSEED for both runs"
            )
            lines.append(different)
            if run.passed:
                run.end_badly(SimulationError(different))
        _add_section(run, lines)
        return run, 1, run.seconds

    def _searched(self, item: pytest.Item) -> tuple[_Run, int, float]:
        seconds = 0.0
        for seed in range(self._seeds):
            run = self._simulated(item, Tape(mixed(seed), seed=seed, level=self._level))
            seconds += run.seconds
            if not run.passed or (seed == 0 and run.tape.is_blank):
                break
        if run.failed and run.refusal is None and not run.simulates_itself:
            run = self._explained(item, run, seed)
        return run, seed + 1, seconds

    def _explained(self, item: pytest.Item, run: _Run, seed: int) -> _Run:
        """Return the shrunk run of a failure, with the line that repeats it in its report."""
        config: Any = item.config
        again = f"pytest {shlex.quote(config.cwd_relative_nodeid(item.nodeid))} --loopcore-sim-replay"
        if seed == 0:
            line = f"loopcore-sim: failed with seed 0, asyncio's own order; no other schedule is needed: {again}"
            _add_section(run, [f"{line} {run.tape.token()}", *_refused_calls(run)])
            return run
        run, notes = (run, []) if item.config.getoption("usepdb", False) else self._shrunk(item, run)
        line = f"loopcore-sim: failed with seed {seed} (after {seed} that passed): {again} {run.tape.token()}"
        _add_section(run, [line, *_differences(run), *_refused_calls(run), *notes])
        return run

    def _shrunk(self, item: pytest.Item, run: _Run) -> tuple[_Run, list[str]]:
        end = time.monotonic() + SHRINK_SECONDS

        def run_once(strategy: Strategy) -> _Run | None:
            if time.monotonic() > end:
                return None
            tried = self._simulated(item, Tape(strategy, seed=run.tape.seed, level=run.tape.level))
            return tried if tried.kind == run.kind and tried.refusal is None else None

        best = shrunk(run_once, run, SHRINK_RUNS)
        if best is not run:
            return best, []
        return run, ["the same schedule did not fail again: the test depends on an earlier run, or on the real clock"]


def _differences(run: _Run) -> list[str]:
    changes = in_words(run.tape.choices)
    if not changes:
        return ["every choice is that of asyncio's own order"]
    return [
        f"{len(changes)} of {_count(len(run.tape.choices), 'choice')} differ from asyncio's own order:",
        *(f"  - {change}" for change in changes),
    ]


def _refused_calls(run: _Run) -> list[str]:
    if not run.refused:
        return []
    return [
        "calls that are not simulated, and whose error the test or a library caught:",
        *(f"  - {call}" for call in dict.fromkeys(run.refused)),
    ]


def _first(kind: type[_E], error: BaseException) -> _E | None:
    """Return the first exception of `kind` among `error`, its causes and contexts, and the members of its groups."""
    found = [error]
    for each in found:  # it grows
        if isinstance(each, kind):
            return each
        linked = [each.__cause__, each.__context__, *(each.exceptions if isinstance(each, BaseExceptionGroup) else ())]
        found += [other for other in linked if other is not None and not any(other is known for known in found)]
    return None


def _add_section(run: _Run, lines: list[str]) -> None:
    for report in run.reports:
        if report.failed:
            report.sections.append((_SECTION, "\n".join(lines)))
            return


def _skip(item: pytest.Item, run: _Run, refusal: NotSimulatedError) -> None:
    """Turn the failures of a test that failed because of `refusal` into a skip."""
    path, line, _ = item.location
    for report in run.reports:
        if report.failed:
            report.outcome = "skipped"
            report.longrepr = (path, line or 0, f"Skipped: refused: {refusal}")


def _is_refused(report: pytest.TestReport) -> bool:
    return isinstance(report.longrepr, tuple) and report.longrepr[2].startswith("Skipped: refused: ")


def _make_base_of_temporary_folders(config: pytest.Config) -> None:
    """Let the folder of tmp_path exist for real: pytest remembers it for the session, a simulation's disk does not."""
    factory = getattr(config, "_tmp_path_factory", None)
    if factory is not None:
        factory.getbasetemp()


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
