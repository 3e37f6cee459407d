"""The observer measures callbacks: the installed one, which may be compiled, and its source, interpreted."""

import logging
import runpy
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import loopcore_plugin_template
import pytest
from loopcore_plugin_template import Slowest

import loopcore
from loopcore.hooks.observer import BEGINS, ENDS
from loopcore.hooks.sources import IMMEDIATE, SOON

SOURCE = Path(loopcore_plugin_template.__file__).with_name("durations.py")


@pytest.fixture(params=["installed", "interpreted"])
def durations(request: pytest.FixtureRequest) -> Any:
    if request.param == "interpreted":
        return runpy.run_path(str(SOURCE))["Durations"]()
    return loopcore_plugin_template.Durations()


def wait_until(end: int) -> None:
    while perf_counter_ns() <= end:
        pass


async def main() -> None:
    loop = loopcore.get_running_loop()
    done = loop.create_future()
    for callback in (int, int, lambda: done.set_result(None)):
        loop.call_immediate(callback)
    await done


def test_the_loop_tells_it_of_each_callback(durations: Any) -> None:
    slowest = Slowest()
    slowest.durations = durations
    loopcore.run(main(), plugins=[slowest])
    assert durations.figures[IMMEDIATE].count == 3
    assert durations.failure is None


def test_the_longest_callback_is_kept(durations: Any) -> None:
    began = perf_counter_ns()
    durations.note(BEGINS, "short", SOON)
    wait_until(perf_counter_ns())
    durations.note(ENDS, "short", SOON)
    assert durations.figures[SOON].longest == "'short'"
    durations.note(BEGINS, "long", SOON)
    wait_until(2 * perf_counter_ns() - began)
    durations.note(ENDS, "long", SOON)
    figures = durations.figures[SOON]
    assert (figures.count, figures.longest) == (2, "'long'")
    assert 0 < figures.longest_ns <= perf_counter_ns() - began


def test_a_callback_whose_begin_is_unknown_is_only_counted(durations: Any) -> None:
    durations.note(ENDS, "came late", SOON)
    figures = durations.figures[SOON]
    assert (figures.count, figures.longest_ns, figures.longest) == (1, 0, "")


def test_an_error_removes_it_and_the_loop_goes_on(durations: Any, caplog: pytest.LogCaptureFixture) -> None:
    slowest = Slowest()
    slowest.durations = durations
    durations.figures.clear()
    loop = loopcore.new_event_loop()
    loop.probes.register(slowest, "slowest")
    with caplog.at_level(logging.ERROR):
        loop.run_until_complete(main())
    loop.close()
    assert loop.probes.failures == {"slowest": 1}
    assert "IndexError" in caplog.text


def test_it_is_found_by_its_name(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "loopcore_plugin_template"):
        loopcore.run(main(), plugins="template_slowest")
    assert "immediate: 3 ran" in caplog.text
