"""The plugin `convoy`: the switch interval is short while other threads compute next to a loop, and else the program's.

What a thread uses of the processor is not a test's to decide, so the clocks are read from a table.
"""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import loopcore
from loopcore.build_info import has_gil
from loopcore.errors import UsageError
from loopcore.hooks.observer import WAIT_ENDS
from loopcore_plugins.convoy import Convoy, competition
from loopcore_plugins.convoy.switch_interval import SWITCH_INTERVAL

pytestmark = [
    pytest.mark.loopcore_only,
    pytest.mark.skipif(not has_gil(), reason="without the GIL the plugin has no effect"),
]

PROGRAMS = 0.004
LOW = 0.0002


class Clocks:
    """Stands for the module `time`: the clocks of the CPU, as a test sets them, and the real time, unless it is set."""

    def __init__(self) -> None:
        self.others = 0.0
        self.now: float | None = None

    def monotonic(self) -> float:
        return time.monotonic() if self.now is None else self.now

    def thread_time(self) -> float:
        return 0.0

    def process_time(self) -> float:
        return self.others


@pytest.fixture(autouse=True)
def interval() -> Iterator[None]:
    """The program's switch interval. A test that leaves another one fails."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(PROGRAMS)
    yield
    left = sys.getswitchinterval()
    sys.setswitchinterval(before)
    assert not SWITCH_INTERVAL._users
    assert left == pytest.approx(PROGRAMS)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    clocks = Clocks()
    monkeypatch.setattr(competition, "time", clocks)
    return clocks


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop wait, again and again, until `condition` holds."""
    while not condition():
        await asyncio.sleep(0.001)


async def lowered(clocks: Clocks) -> None:
    """Have another thread compute, until the interval is short."""

    def computed() -> bool:
        clocks.others += 1.0
        return is_low()

    await until(computed)


def is_low() -> bool:
    return sys.getswitchinterval() == pytest.approx(LOW)


def convoy(**options: float) -> Convoy:
    return Convoy(interval=LOW, **options)


def test_the_interval_is_short_while_another_thread_computes(backend_name: str, clocks: Clocks) -> None:
    plugin = convoy(hold=0.01)

    async def main() -> None:
        assert not is_low()
        await lowered(clocks)
        await until(lambda: not is_low())  # nothing computes any more

    loopcore.run(main(), backend=backend_name, plugins=[plugin])
    assert plugin.counters()["periods"] == 1
    assert plugin.counters()["seconds"] > 0


class Timers:
    """A loop with a single timer, which a test fires."""

    def __init__(self) -> None:
        self.fire: Callable[[], None] = lambda: None

    def time(self) -> float:
        return 0.0

    def call_at(self, when: float, callback: Callable[..., None], *args: Any) -> "Timers":
        self.fire = lambda: callback(*args)
        return self

    def cancel(self) -> None:
        self.fire = lambda: None


@pytest.mark.parametrize(
    ("computed", "waits", "stays"),
    [(1.0, 2, True), (0.0, 2, False), (1.0, 1, False)],
    ids=["both", "the thread is done", "the loop is idle"],
)
def test_it_stays_short_while_the_thread_computes_and_the_loop_has_work(
    clocks: Clocks, computed: float, waits: int, stays: bool
) -> None:
    clocks.now = 0.0
    timers: Any = Timers()
    subject = competition.Competition(LOW, 1.0)
    subject.begin(timers)

    def wait() -> None:
        clocks.now += 0.1
        subject.note(WAIT_ENDS, None, 1)

    clocks.others += 1.0
    wait()
    assert is_low()
    for _ in range(3):
        clocks.others += 1.0
        wait()
        wait()
        timers.fire()
        assert is_low()
    clocks.others += computed
    for _ in range(waits):
        wait()
    timers.fire()
    assert is_low() == stays
    subject.end()
    assert subject.periods == 1


def test_it_is_restored_while_the_loop_has_nothing_to_do(clocks: Clocks, monkeypatch: pytest.MonkeyPatch) -> None:
    restored = threading.Event()
    release = SWITCH_INTERVAL.release

    def note(user: object) -> None:
        release(user)
        restored.set()

    async def main() -> None:
        await lowered(clocks)
        clocks.process_time = lambda: time.monotonic() * 1e6  # type: ignore[method-assign]  # it goes on computing
        monkeypatch.setattr(SWITCH_INTERVAL, "release", note)
        # One wait, for the review and for the thread.
        await asyncio.get_running_loop().run_in_executor(None, restored.wait, 20)
        assert restored.is_set()

    loopcore.run(main(), plugins=[convoy(hold=0.05)])


def test_the_end_of_a_run_restores_it(backend_name: str, clocks: Clocks) -> None:
    loop = loopcore.new_event_loop(backend_name, plugins=[convoy()])
    loop.run_until_complete(lowered(clocks))
    assert not is_low()
    loop.run_until_complete(lowered(clocks))
    loop.close()


def test_removing_the_plugin_restores_it(clocks: Clocks) -> None:
    plugin = convoy()

    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        loop.probes.register(plugin)
        await lowered(clocks)
        loop.probes.unregister(plugin)
        assert not is_low()

    loopcore.run(main())


def test_the_last_of_several_loops_restores_it(clocks: Clocks) -> None:
    plugin = convoy()
    first, second = (loopcore.new_event_loop(plugins=[plugin]) for _ in range(2))

    async def outer() -> None:
        await lowered(clocks)
        ready, over = threading.Event(), threading.Event()

        def run() -> None:
            async def inner() -> None:
                await lowered_by(second)
                ready.set()

            second.run_until_complete(inner())
            over.set()

        async def lowered_by(loop: Any) -> None:
            def computed() -> bool:
                clocks.others += 1.0
                return plugin.counters()["periods"] == 2

            await until(computed)

        thread = threading.Thread(target=run)
        thread.start()
        await until(ready.is_set)
        await until(over.is_set)
        thread.join()
        assert is_low()  # the first loop still asks for it

    first.run_until_complete(outer())
    assert not is_low()
    first.close()
    second.close()


def test_the_shortest_request_counts() -> None:
    SWITCH_INTERVAL.add_user("a")
    SWITCH_INTERVAL.add_user("b")
    SWITCH_INTERVAL.request("a", LOW)
    SWITCH_INTERVAL.request("b", LOW / 2)
    assert sys.getswitchinterval() == pytest.approx(LOW / 2)
    SWITCH_INTERVAL.release("b")
    assert is_low()
    SWITCH_INTERVAL.remove_user("a")
    assert sys.getswitchinterval() == pytest.approx(PROGRAMS)
    SWITCH_INTERVAL.remove_user("b")


def test_a_shorter_one_of_the_program_is_not_touched() -> None:
    sys.setswitchinterval(LOW / 2)
    SWITCH_INTERVAL.add_user("a")
    SWITCH_INTERVAL.request("a", LOW)
    assert sys.getswitchinterval() == pytest.approx(LOW / 2)
    SWITCH_INTERVAL.remove_user("a")
    assert sys.getswitchinterval() == pytest.approx(LOW / 2)
    sys.setswitchinterval(PROGRAMS)


def test_one_that_the_program_sets_meanwhile_stays() -> None:
    SWITCH_INTERVAL.add_user("a")
    SWITCH_INTERVAL.request("a", LOW)
    sys.setswitchinterval(0.02)
    SWITCH_INTERVAL.release("a")
    assert sys.getswitchinterval() == pytest.approx(0.02)
    SWITCH_INTERVAL.request("a", LOW)
    assert sys.getswitchinterval() == pytest.approx(0.02)  # the program has decided
    SWITCH_INTERVAL.remove_user("a")
    SWITCH_INTERVAL.add_user("b")  # but not for the loops of another time
    SWITCH_INTERVAL.request("b", LOW)
    assert is_low()
    SWITCH_INTERVAL.remove_user("b")
    assert sys.getswitchinterval() == pytest.approx(0.02)
    sys.setswitchinterval(PROGRAMS)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")  # threads that other tests leave
def test_a_forked_child_has_the_programs_interval(clocks: Clocks) -> None:
    async def main() -> int:
        await lowered(clocks)
        child = os.fork()
        if child == 0:
            os._exit(0 if sys.getswitchinterval() == pytest.approx(PROGRAMS) else 1)
        _, status = os.waitpid(child, 0)
        assert is_low()  # the parent's is its own
        return os.waitstatus_to_exitcode(status)

    assert loopcore.run(main(), plugins=[convoy()]) == 0


def test_a_thread_that_computes_is_found_by_the_real_clocks() -> None:
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            sum(range(1000))

    async def main() -> None:
        thread = threading.Thread(target=compute)
        thread.start()
        try:
            await until(is_low)
        finally:
            stop.set()
            await asyncio.to_thread(thread.join)

    loopcore.run(main(), plugins=[convoy()])


def test_a_process_whose_other_threads_hardly_compute_keeps_its_interval(clocks: Clocks) -> None:
    plugin = convoy()

    async def main() -> None:
        for _ in range(20):
            clocks.others += 0.00001  # a hundredth of each wait, at most
            await asyncio.sleep(0.001)

    loopcore.run(main(), plugins=[plugin])
    assert plugin.counters() == {"periods": 0, "seconds": 0.0}


def test_without_the_gil_it_does_nothing_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, clocks: Clocks
) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)

    async def main() -> None:
        for _ in range(20):
            clocks.others += 1.0
            await asyncio.sleep(0.001)
        assert not is_low()

    with caplog.at_level("INFO", "loopcore.plugin.convoy"):
        loopcore.run(main(), plugins=[convoy()])
    assert "without the GIL" in caplog.text


@pytest.mark.parametrize("options", [{"interval": 0}, {"interval": 2.0}, {"interval": float("nan")}, {"hold": 0}])
def test_impossible_options_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=r"(interval|hold) must be a number of seconds"):
        Convoy(**options)
