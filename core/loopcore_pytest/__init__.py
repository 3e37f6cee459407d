"""loopcore's pytest plugin: found by its entry point, and light, because every pytest with loopcore installed loads it.

    pytest --loopcore-backend poll        LOOPCORE_BACKEND for this run: every loop of loopcore's uses it
    pytest --loopcore-sim --seeds 100     each test in simulations, on up to 100 schedules (loopcore.sim.testing)
    pytest --loopcore-sim-level wake      with --loopcore-sim: what may differ from asyncio's order
    pytest --loopcore-sim-replay TOKEN    one test, on the schedule of the token
    loop_factory                          fixture: makes loops, for asyncio.Runner, pytest-asyncio, anyio
    loopcore_no_leaks                     fixture: fails a test that leaves a descriptor, thread, task or error behind

Nothing of loopcore is imported before a fixture is used or an option given. A project that has a fixture of one of
these names keeps its own. Failures of the contract of a backend (`loopcore.testing.conformance`) say which guarantee is
broken; guarantees that a backend has declared in `cannot` are listed at the end. (PYTEST_DONT_REWRITE)
"""

import os
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

pytest.register_assert_rewrite("loopcore.testing.conformance")

VARIABLE = "LOOPCORE_BACKEND"
CONTRACT = "loopcore.testing.conformance.contract"
SEEDS = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --loopcore-backend, --loopcore-sim, --seeds, --loopcore-sim-level and --loopcore-sim-replay."""
    group = parser.getgroup("loopcore")
    group.addoption(
        "--loopcore-backend", metavar="NAME", help=f"what loopcore's loops wait with; sets {VARIABLE} for this run"
    )
    group.addoption(
        "--loopcore-sim", action="store_true", help="run each test in simulations: on simulated time, on many schedules"
    )
    group.addoption(
        "--seeds",
        dest="loopcore_sim_seeds",
        type=int,
        default=SEEDS,
        metavar="N",
        help=f"with --loopcore-sim: schedules to try for each test, first asyncio's own order (default: {SEEDS})",
    )
    group.addoption(
        "--loopcore-sim-level",
        choices=("io", "wake", "all"),
        default="io",
        help="with --loopcore-sim: what may differ from asyncio's order: arrivals, timers and ends of jobs (io, the "
        "default), also which waiter wakes first (wake), also any two ready callbacks (all)",
    )
    group.addoption(
        "--loopcore-sim-replay", metavar="TOKEN", help="run one test in a simulation, on the schedule of a failure"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Apply the options, and refuse a backend that cannot run here before any test has run on another."""
    if config.getoption("--loopcore-sim", default=False) or config.getoption("--loopcore-sim-replay", default=None):
        _simulate(config)
    name = config.getoption("--loopcore-backend", default=None)
    if name is not None:
        _use_backend(config, name)


def _simulate(config: pytest.Config) -> None:
    seeds = config.getoption("loopcore_sim_seeds")
    if seeds < 1:
        raise pytest.UsageError(f"--seeds is 1 or more, this is {seeds}")
    from loopcore.errors import UsageError
    from loopcore.sim.tape import Level, Tape
    from loopcore.sim.testing import SimulationPlugin

    token = config.getoption("--loopcore-sim-replay")
    if token is not None:
        try:
            Tape.from_token(token)
        except UsageError as exc:
            raise pytest.UsageError(str(exc)) from None
    level = Level[config.getoption("--loopcore-sim-level").upper()]
    config.pluginmanager.register(SimulationPlugin(seeds, token, level), "loopcore-sim")


def _use_backend(config: pytest.Config, name: str) -> None:
    from loopcore.errors import LoopcoreError
    from loopcore.selection.discovery import choose_backend

    try:
        choose_backend(name, f"--loopcore-backend={name}")
    except LoopcoreError as exc:
        raise pytest.UsageError(str(exc)) from None
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = name

    def restore() -> None:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before

    config.add_cleanup(restore)


@pytest.fixture(scope="session")
def loop_factory() -> Callable[[], Any]:
    """Makes loops, on --loopcore-backend, else LOOPCORE_BACKEND, else the best backend; the caller closes them."""
    from loopcore import new_event_loop

    return new_event_loop


@pytest.fixture
def loopcore_no_leaks() -> Iterator[None]:
    """Fails the test if it leaves descriptors, threads, tasks, unraisable exceptions or reported errors behind."""
    from loopcore.testing.leaks import Watch

    watch = Watch(tasks=True)
    try:
        yield
    finally:
        complaints = watch.end()
    if complaints:
        pytest.fail("the test left behind " + "\n".join(complaints), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Name the guarantees that a failed test of the contract checks."""
    report: Any = yield
    if CONTRACT in sys.modules and isinstance(item, pytest.Function):
        from loopcore.testing import guarantees
        from loopcore.testing.conformance import BackendContract

        if item.cls is not None and issubclass(item.cls, BackendContract):
            kept = guarantees.of_test(item.originalname)
            report.user_properties.append(("loopcore guarantees", [each.name for each in kept]))
            if report.failed:
                report.sections += [("broken guarantee", f"{each.name}: {each.text}") for each in kept]
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the guarantees that backends have declared in `cannot`."""
    reasons = {
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", ())
        if isinstance(report.longrepr, tuple) and report.longrepr[2].startswith("Skipped: cannot (")
    }
    if reasons:
        terminalreporter.section("what the backend cannot")
        for reason in sorted(reasons):
            terminalreporter.line(reason)
