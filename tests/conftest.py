"""What every test stands on: a loop of each kind, and a search for what a test left behind.

`loop_factory` makes loops, `loop` is one of them, `backend_name` says of which kind: a test that uses one of
these runs once for each available backend and once on asyncio's own loop, the oracle ("asyncio"). A test of
what only loopcore has takes `loopcore_factory` instead, or is marked `loopcore_only`, and has no oracle.
A test that is a coroutine function runs on `loop` (tests/coroutines.py).
LOOPCORE_BACKEND narrows the backends to those it names; LOOPCORE_TEST_KQUEUE adds one (tests/backends/kqueues.py);
LOOPCORE_TEST_COLLECTOR says how often, and in which thread, garbage is collected meanwhile (tests/collecting.py).

After each test `_nothing_left_behind` looks for descriptors, threads, pending tasks, unraisable exceptions and errors
that a loop reported through its default exception handler (`loopcore.testing.leaks`); the test that left one of these
fails and says which. A test that provokes a report on purpose is marked `reports_errors`.
"""

import asyncio
import ctypes  # noqa: F401 - libffi may keep its own file open: no test that is the first to import this leaks it
import gc
import itertools
import sys
import weakref
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

from loopcore.testing.leaks import Watch
from tests import collecting, coroutines, interpreter
from tests.backends import kqueues, ports, simulated
from tests.oracle import ORACLE

interpreter.install()
kqueues.install()  # before anything looks at what this platform has
if sys.platform != "win32":  # the marks are read with asyncio's Unix classes at hand
    from tests.compatibility.marks import kept_promises  # now: within a test on "sim", asyncio's classes are stand-ins

settings.register_profile("no deadline", settings(), deadline=None)  # by default a case that takes 0.2 s fails
settings.load_profile("no deadline")

LoopFactory = Callable[[], asyncio.AbstractEventLoop]

TESTS_BETWEEN_FREEZES = 50
_tests_begun = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    collecting.install(config)
    config.pluginmanager.register(coroutines)
    config.addinivalue_line("markers", "loopcore_only: tests what only loopcore has, so asyncio's loop is left out")
    config.addinivalue_line("markers", "reports_errors: the loop's default exception handler is expected to log")
    config.addinivalue_line(
        "markers", "covers(*entries): proves methods and parameters; see tests/compatibility/marks.py"
    )
    config.addinivalue_line("markers", "differs(*entries, why): shows what is not as in asyncio; see there")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    if sys.platform == "win32":
        return (yield)
    with kept_promises(item):
        return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item, reason in interpreter.skipped(items):
        item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish(session: pytest.Session) -> None:
    # What exists now lives as long as the session: frozen, it costs the collection after each test nothing.
    interpreter.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    # Nor does what the tests so far have left in pytest: in a long session that would soon be most of each test's time.
    if next(_tests_begun) % TESTS_BETWEEN_FREEZES == 0:
        interpreter.freeze()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend_name" not in metafunc.fixturenames:
        return
    alone = (
        "loopcore_factory" in metafunc.fixturenames
        or metafunc.definition.get_closest_marker("loopcore_only")
        or collecting.is_on()  # asyncio's transports are not made for finalizers at any moment
    )
    names = ports.backends_for(metafunc.definition.path)
    if len(names) > 1 and simulated.runs(metafunc.module):  # not where one backend was asked for
        names = [*names, simulated.BACKEND]
    metafunc.parametrize("backend_name", names if alone else [*names, ORACLE], indirect=True)


@pytest.fixture
def backend_name(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The backend of this run of the test, or "asyncio" for the oracle. A test on "sim" runs in a simulation."""
    name: str = request.param
    if name != simulated.BACKEND:
        yield name
        return
    if reason := simulated.cannot(request.node.name):
        pytest.skip(reason)
    tmp_path_factory.getbasetemp()  # made on the real disk, where the other tests find it as well
    with simulated.world():
        yield name


@pytest.fixture
def made_loops() -> weakref.WeakSet[asyncio.AbstractEventLoop]:
    """The loops that this test's factory has made; weakly, so that a test can drop one."""
    return weakref.WeakSet()


@pytest.fixture
def loop_factory(backend_name: str, made_loops: weakref.WeakSet[asyncio.AbstractEventLoop]) -> Iterator[LoopFactory]:
    """Makes loops of the kind `backend_name`; those still open at the end of the test are closed."""

    def make() -> asyncio.AbstractEventLoop:
        made: asyncio.AbstractEventLoop
        if backend_name == ORACLE:
            made = asyncio.SelectorEventLoop()
        else:
            from loopcore import new_event_loop

            made = new_event_loop(backend_name)
        made_loops.add(made)
        if collecting.is_on():
            held.append(made)  # or else it may be collected before it is closed below
        return made

    held: list[asyncio.AbstractEventLoop] = []
    yield make
    if any(asyncio.all_tasks(made) for made in made_loops):
        gc.collect()  # from Python 3.14 on a task and the future it waits for know each other
    pending = [task for made in made_loops for task in asyncio.all_tasks(made)]
    for made in list(made_loops):
        if not made.is_running():
            made.close()
    if pending:
        pytest.fail(f"the test left pending tasks: {pending}")


@pytest.fixture
def loopcore_factory(loop_factory: LoopFactory) -> LoopFactory:
    """As `loop_factory`, for what only loopcore has: never makes asyncio's loop."""
    return loop_factory


@pytest.fixture
def loop(loop_factory: LoopFactory) -> asyncio.AbstractEventLoop:
    """A loop that is set nowhere as the current one, and is closed after the test."""
    return loop_factory()


@pytest.fixture(autouse=True)
def _in_its_world(request: pytest.FixtureRequest, _nothing_left_behind: None) -> None:
    """Have a test on "sim" enter its simulation before its other fixtures make sockets and files."""
    if "backend_name" in request.fixturenames:
        request.getfixturevalue("backend_name")


@pytest.fixture(autouse=True)
def _nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    watch = Watch()
    try:
        yield
    finally:
        complaints = watch.end(request.node.get_closest_marker("reports_errors") is not None)
    if complaints:
        pytest.fail("the test left behind " + "\n".join(complaints), pytrace=False)
