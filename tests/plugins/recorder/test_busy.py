"""Which other thread computed, from the CPU clocks that the watch thread reads."""

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from loopcore_plugins.recorder.busy import BusyThreads
from loopcore_plugins.watchdog.clocks import Collections, Moment


@pytest.fixture
def other() -> Iterator[int]:
    """The ident of a thread that is there, whatever the clocks of the test say that it does."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name="other")
    thread.start()
    assert thread.ident is not None
    yield thread.ident
    done.set()
    thread.join()


def looked(other: int, *looks: tuple[float, float, float]) -> list[dict[str, Any]]:
    """Return what is found in looks at (time, CPU seconds of `other`, lateness), counted from one at zero."""
    spans: deque[dict[str, Any]] = deque()
    threads: list[BusyThreads] = []
    # The loop's thread: any but the one that looks, as its CPU time is not counted.
    making = threading.Thread(target=lambda: threads.append(BusyThreads(0.1, spans)))
    making.start()
    making.join()
    for now, cpu, late in ((0.0, 0.0, 0.0), *looks):
        threads[0].look(Moment(now, late, cpu, {other: cpu}), Collections())
        if now == 0.0:
            spans.clear()  # from the real time at which it was made
    return list(spans)


def test_looks_in_which_a_thread_computes_are_one_span(other: int) -> None:
    [span] = looked(other, (0.1, 0.08, 0.0), (0.2, 0.17, 0.005), (0.3, 0.25, 0.0), (0.4, 0.25, 0.0))
    assert (span["began_ns"], span["ended_ns"]) == (0, 300_000_000)
    assert (span["thread"], span["kept_gil"]) == ("other", True)
    assert span["cpu_seconds"] == pytest.approx(0.25)
    assert span["place"][0] == "Condition.wait"


def test_a_pause_ends_a_span(other: int) -> None:
    spans = looked(other, (0.1, 0.08, 0.0), (0.2, 0.08, 0.0), (0.3, 0.16, 0.0))
    assert [(span["began_ns"], span["kept_gil"]) for span in spans] == [(0, False), (200_000_000, False)]


def test_a_thread_that_hardly_computes_is_not_busy(other: int) -> None:
    assert looked(other, (0.1, 0.01, 0.005), (0.2, 0.02, 0.005)) == []
