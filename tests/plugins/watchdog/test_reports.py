"""What is logged, how often, and what is counted."""

import logging
from typing import Any

import pytest

import loopcore
from loopcore.errors import UsageError
from loopcore_plugins._tasktree import Place, TaskView
from loopcore_plugins.watchdog import Stall, Watchdog
from loopcore_plugins.watchdog.report import describe, summarize
from loopcore_plugins.watchdog.stall import Holder
from tests.plugins.watchdog.finder import PATIENCE, Finder, find

HERE = Place(__file__, 1, "test")
SOURCE = '"""What is logged, how often, and what is counted."""'


def view(name: str) -> TaskView:
    return TaskView(1, name, "main", "waiting", (), "", ())


def test_a_report_says_what_where_and_who() -> None:
    stall = Stall("blocked", 0.25, 0.01, stack=(HERE,), place=HERE, call=HERE, samples=2)
    stall.task, stall.awaited_by = view("inner"), tuple(view(f"outer-{number}") for number in range(7))
    lines = describe(stall).splitlines()
    assert lines[0].startswith("loop has been stalled for 0.25 s: blocked (")
    assert lines[1] == f"  at {__file__}:1, in test: {SOURCE}; 0.01 s of CPU"
    assert lines[2].startswith("  task 'inner' (main), awaited by 'outer-0' (main), ")
    assert lines[2].endswith("'outer-4' (main) and 2 more")
    assert lines[3:] == [f'    File "{__file__}", line 1, in test', f"      {SOURCE}"]


def test_a_report_of_a_thread_that_keeps_the_lock_names_it() -> None:
    stall = Stall("gil", 1.0, 0.0, holder=Holder("hog", HERE, 0.9), over=True)
    assert describe(stall).splitlines()[0].startswith("loop stalled for 1.00 s: gil")
    assert f"GIL held by thread 'hog' at {__file__}:1, in test: {SOURCE}; 0.90 s of CPU" in describe(stall)


def test_a_report_of_many_callbacks_blames_none() -> None:
    assert "in no single place" in describe(Stall("busy", 1.0, 0.9, samples=3))


def test_the_end_is_one_line() -> None:
    stall = Stall("busy", 1.0, 0.5, place=HERE, over=True)
    assert summarize(stall) == f"loop continues after 1.00 s: busy, at {__file__}:1, in test; 0.50 s of CPU"


def test_a_name_begins_no_line_of_the_log() -> None:
    """Issue 32."""
    odd = Place("/srv/\x1b[2Ja\nb.py", 1, "m\u2028ain")
    stall = Stall("busy", 1.0, 0.5, stack=(odd,), place=odd, holder=Holder("t\n", odd, 0.1), over=True)
    stall.task = view("n\n")._replace(coroutine="c\nWARNING forged")
    assert all(line.isprintable() for line in describe(stall).split("\n"))
    assert len(describe(stall).split("\n")) == 5
    assert summarize(stall).isprintable()


class FakeLoop:
    class probes:
        @staticmethod
        def cold(hook: str, **arguments: Any) -> None:
            """Nobody listens."""


def stalls(watchdog: Watchdog, number: int) -> None:
    for _ in range(number):
        stall = Stall("busy", 2.0, 1.0)
        watchdog.note_stall("begin", FakeLoop, stall)
        stall.over = True
        watchdog.note_stall("end", FakeLoop, stall)


@pytest.mark.parametrize(
    ("options", "written"),
    [
        ({"report_every": 3600.0}, 1),
        ({"report_every": 0.0, "max_reports": 2}, 2),
        ({"report_every": 0.0, "max_reports": 0}, 0),
        ({"report_every": 0.0}, 5),
    ],
)
def test_reports_are_limited_and_everything_is_counted(
    caplog: pytest.LogCaptureFixture, options: dict[str, Any], written: int
) -> None:
    caplog.set_level(logging.INFO, "loopcore.plugin.watchdog")
    watchdog = Watchdog(**options)
    stalls(watchdog, 5)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"] * written
    assert watchdog.counters() == {
        "stalls.busy": 5,
        "stalls": 5,
        "seconds": 10.0,
        "longest": 2.0,
        "reports": written,
        "suppressed": 5 - written,
        "ignored": 0,
    }


@pytest.mark.parametrize(
    "options",
    [{"threshold": value} for value in (0.0, 1e-9, float("inf"), float("nan"))]
    + [{"report_every": -1.0}, {"report_every": float("nan")}, {"max_reports": -1}],
)
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(UsageError, match=name):
        Watchdog(**options)


@pytest.mark.loopcore_only
def test_a_report_is_written_while_the_loop_is_stalled(loop: Any) -> None:
    written: list[logging.LogRecord] = []

    class Until(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            written.append(record)
            if record.levelno == logging.WARNING:
                finder_in_charge.found.set()

    finder_in_charge = Finder()
    logger = logging.getLogger("loopcore.plugin.watchdog")
    handler = Until()
    logger.addHandler(handler)
    try:

        async def program(_: Finder) -> None:
            assert finder_in_charge.found.wait(PATIENCE)  # by the log alone

        find(loop, program)
    finally:
        logger.removeHandler(handler)
    assert written[0].getMessage().startswith("loop has been stalled for")
    assert __file__ in written[0].getMessage()


@pytest.mark.loopcore_only
def test_the_plugin_is_found_by_name_and_takes_options(backend_name: str) -> None:
    loop = loopcore.new_event_loop(backend_name, plugins="watchdog:threshold=0.5,max_reports=3")
    try:
        (plugin,) = [plugin for name, plugin in loop.probes.plugins() if name == "watchdog"]
        assert isinstance(plugin, Watchdog)
        assert (plugin.threshold, plugin.max_reports) == (0.5, 3)
    finally:
        loop.close()
