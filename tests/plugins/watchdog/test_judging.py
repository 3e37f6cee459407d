"""The rules, without time: what the measurements say, and which looks make a stall."""

from types import SimpleNamespace
from typing import Any

import pytest

from loopcore_plugins.watchdog.clocks import Collections, Moment
from loopcore_plugins.watchdog.stall import Stall, StallSample
from loopcore_plugins.watchdog.watch import Watch


@pytest.mark.parametrize(
    ("late", "gc", "cpu", "other_cpu", "in_callback", "cause"),
    [
        (0.0, 0.0, 0.0, 0.0, True, "blocked"),
        (0.0, 0.0, 1.0, 0.0, True, "busy"),
        (0.0, 0.0, 0.2, 0.8, True, "busy"),  # shares the lock with a thread that computes
        (0.1, 0.0, 0.0, 0.9, True, "blocked"),  # others computing do not explain it
        (0.9, 0.8, 0.9, 0.0, True, "gc"),
        (0.9, 0.8, 0.0, 0.9, False, "gc"),
        (0.9, 0.0, 0.0, 0.9, True, "gil"),
        (0.9, 0.0, 0.0, 0.9, False, "gil"),
        (0.9, 0.0, 0.9, 0.0, True, "busy"),  # C code that keeps the lock
        (0.9, 0.0, 0.0, 0.0, True, "suspended"),
        (0.9, 0.0, 0.0, 0.0, False, None),
    ],
)
def test_causes(late: float, gc: float, cpu: float, other_cpu: float, in_callback: bool, cause: str | None) -> None:
    assert StallSample(1.0, late, gc, cpu, other_cpu, in_callback).cause() == cause


class FakeLoop:
    """A loop of which the test says whether it waits and how many ticks it has made."""

    def __init__(self) -> None:
        self.waiting = False
        self.ticks = 0
        self.posted: list[Any] = []

    def is_waiting(self) -> bool:
        return self.waiting

    def counters(self) -> SimpleNamespace:
        return SimpleNamespace(ticks=self.ticks)

    def tick(self) -> None:
        self.ticks += 1

    def call_soon_threadsafe(self, *call: Any) -> None:
        self.posted.append(call)


class Looks:
    """A watch of a fake loop, and what it told."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.told: list[tuple[str, Stall]] = []
        self.ignored = 0
        self.watch = Watch(self.loop, 1.0, self)
        self.start = self.watch._moved.now

    def note_stall(self, event: str, loop: Any, stall: Stall) -> None:
        self.told.append((event, stall))

    def note_standstill(self) -> None:
        self.ignored += 1

    def read_request(self, task: Any) -> None:
        return None

    def at(self, seconds: float, *, late: float = 0.0, process: float = 0.0, collected: float = 0.0) -> list[str]:
        """Look `seconds` after the start, when the process has used `process` seconds of CPU."""
        moved = self.watch._moved
        threads = {self.watch.thread_id: moved.threads.get(self.watch.thread_id, 0.0)}
        moment = Moment(self.start + seconds, late, moved.process + process, threads)
        collections = Collections()
        collections._done.append((moment.now - collected, moment.now))
        before = len(self.told)
        self.watch.look(moment, collections)
        return [event for event, _ in self.told[before:]]


@pytest.fixture
def looks() -> Looks:
    return Looks()


def test_a_loop_that_does_not_move_for_a_threshold_is_stalled_and_told_once(looks: Looks) -> None:
    assert looks.at(0.5) == []
    assert looks.at(1.0) == ["begin"]
    assert looks.at(1.5) == []
    looks.loop.tick()
    assert looks.at(2.0) == ["end"]
    (_, begun), (_, ended) = looks.told
    assert begun is ended
    assert ended.over
    assert ended.seconds == pytest.approx(2.0)


def test_a_loop_that_waits_is_not_stalled_however_long(looks: Looks) -> None:
    looks.loop.waiting = True
    assert [looks.at(second) for second in (1, 2, 100)] == [[], [], []]
    assert not looks.watch.suspicious


def test_a_loop_that_moves_is_not_stalled(looks: Looks) -> None:
    for second in range(1, 10):
        looks.loop.tick()
        assert looks.at(second) == []
    assert looks.watch.suspicious


def test_time_before_the_last_move_does_not_count(looks: Looks) -> None:
    looks.at(0.9)
    looks.loop.tick()
    assert looks.at(1.0) == []
    assert looks.at(1.9) == []
    assert looks.at(2.0) == ["begin"]


def test_the_end_of_a_run_ends_a_stall(looks: Looks) -> None:
    looks.at(1.0)
    looks.watch.gone = True
    assert looks.at(1.5) == ["end"]


def test_a_loop_tells_the_end_of_a_stall_itself(looks: Looks) -> None:
    looks.at(1.0)
    ((note_end, stall),) = looks.loop.posted
    note_end(stall)
    assert looks.at(5.0) == ["end"]
    assert stall.seconds < 5.0


def test_a_watchdog_that_is_late_while_others_compute_finds_a_stall_that_is_over(looks: Looks) -> None:
    looks.loop.waiting = True
    assert looks.at(2.0, late=1.5, process=1.5) == ["begin", "end"]
    assert looks.told[0][1].cause == "gil"
    assert looks.told[0][1].seconds == 1.5


def test_a_watchdog_that_is_late_by_a_collection_says_so(looks: Looks) -> None:
    looks.loop.waiting = True
    assert looks.at(2.0, late=1.5, collected=1.4) == ["begin", "end"]
    assert looks.told[0][1].cause == "gc"


def test_an_idle_loop_in_a_process_that_stood_still_is_no_stall(looks: Looks) -> None:
    looks.loop.waiting = True
    assert looks.at(100.0, late=99.0) == []
    assert looks.ignored == 1
