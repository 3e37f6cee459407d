"""`loopcore bench`: what it measures by default, what it writes, and how it refuses."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from loopcore import UsageError
from loopcore_bench import command
from loopcore_bench.loops import LoopSpec
from loopcore_bench.netrows import NET
from loopcore_bench.rounds import Cell, can_run
from loopcore_bench.work import all_micro

TINY = ["--rounds", "1", "--seconds", "0.002"]


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command.bench(parser)
    return command.act(parser.parse_args(words))


class Texts(HTMLParser):
    """The text of a page, and the addresses that it needs."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.addresses: list[str] = []
        self.feed(page)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]


def test_a_run_prints_a_table_and_a_chart_and_writes_a_page_and_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    html, figures = tmp_path / "page.html", tmp_path / "figures.json"
    words = ["--loops", "asyncio,mine=loopcore:poll", "--work", "call_soon,tcp-64-1", *TINY]
    assert run(*words, "--html", str(html), "--json", str(figures)) == 0
    out, err = capsys.readouterr()
    assert "4 measurements" in err
    assert ["CPU", "an", "operation", "asyncio", "mine"] in [line.split() for line in out.splitlines()]
    assert "tcp-64-1: protocol: 64 B there and back, 1 connections" in out
    assert "x: how many times less than asyncio" in out
    found: dict[str, Any] = json.loads(figures.read_text(encoding="utf-8"))
    assert {(cell["row"], cell["loop"]) for cell in found["cells"]} == {
        (row, loop) for row in ("call_soon", "tcp-64-1") for loop in ("asyncio", "mine")
    }
    page = Texts(html.read_text(encoding="utf-8"))
    assert page.addresses == []  # it needs nothing from elsewhere
    assert {"call_soon", "tcp-64-1", "mine"} <= set(page.texts)


def found_document(**costs: float | None) -> dict[str, Any]:
    """Figures of one workload; None is a loop that failed."""
    return {
        "machine": {"date": "", "cpu": "", "cpus": 2, "system": "", "libc": ""},
        "loops": {loop: {"version": "1"} for loop in costs},
        "operations": {"sleep0": "one sleep"},
        "figures": [
            {
                "row": "sleep0",
                "loop": loop,
                "primary": "cpu_ns",
                "medians": {} if cost is None else {"cpu_ns": cost},
                "note": "failed: <it> ended" if cost is None else None,
            }
            for loop, cost in costs.items()
        ],
    }


def test_a_table_is_as_wide_as_the_terminal_and_goes_on_below(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    loops = [f"loop-number-{number}" for number in range(9)]
    command.show(found_document(**dict.fromkeys(loops, 1000.0)))
    lines = capsys.readouterr().out.splitlines()
    heads = [line.split()[3:] for line in lines if line.startswith("CPU an operation")]
    assert len(heads) > 1
    assert [loop for head in heads for loop in head] == loops
    assert max(map(len, lines)) <= 80


def test_a_loop_that_failed_is_named_with_the_reason_in_the_terminal_and_on_the_page(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = found_document(asyncio=1000.0, rloop=None)
    command.show(found)
    assert "  rloop: failed: <it> ended" in capsys.readouterr().out.splitlines()
    assert "rloop: failed: <it> ended" in Texts(command.page(found)).texts


def test_the_longest_bar_of_a_page_is_full_and_loopcore_has_its_colour() -> None:
    text = command.page(found_document(asyncio=1000.0, loopcore=250.0))
    assert '<b class="other" style="width: 25.0%">' in text
    assert '<b class="ours" style="width: 100.0%">' in text


def test_by_default_every_installed_loop_is_measured_and_every_backend_over_the_network_alone() -> None:
    loops = {spec.label: spec for spec in command.installed_loops()}
    assert {"asyncio", "loopcore"} <= loops.keys()
    assert not loops["loopcore"].network_only
    other = next(label for label in loops if label.startswith("loopcore:"))  # than what LOOPCORE_BACKEND may ask for
    backend = other.removeprefix("loopcore:")
    assert loops[other] == LoopSpec(other, "loopcore", backend, sys.executable, True)
    assert can_run(NET["tcp-64-1"], loops[other])
    assert not can_run(all_micro()["sleep0"], loops[other])


def test_loops_that_are_not_installed_are_not_among_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "PEERS", ("no_such_loop", "json"))
    assert "no_such_loop" not in {spec.name for spec in command.installed_loops()}
    assert "json" in {spec.name for spec in command.installed_loops()}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--work", "nothing"], "no workload 'nothing'; there are micro,"),
        (["--loops", "no_such_loop"], "no_such_loop cannot be measured: not installed"),
        (["--loops", ":epoll"], "no loop name in ':epoll'"),
        (["--loops", "asyncio,mine=asyncio,mine=loopcore"], "mine is there twice"),
        (["--json", "."], "cannot write '.': it is a folder"),
        (["--loops", "loopcore:nope"], "loopcore:nope cannot be measured: .*nope"),
        (["--rounds", "0"], "--rounds has to be 1 or more"),
        (["--seconds", "0"], "--seconds more than 0"),
        (["--html", "no/such/folder/page.html"], "cannot write 'no/such/folder/page.html': there is no folder"),
    ],
)
def test_what_cannot_be_measured_or_written_is_refused_before_anything_runs(words: list[str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        run(*words)


def test_the_workloads_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--list") == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed[0] == "call_soon"
    assert set(listed) >= {*all_micro(), *NET}
    assert set(command.WORK.split(",")) <= set(listed)


def test_without_a_compiler_echoes_are_measured_all_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", "/bin/false")
    assert run("--loops", "asyncio", "--work", "tcp-100k-10,unix-1k-10,udp-64-10", *TINY) == 0
    out = capsys.readouterr().out
    assert "the load generator is the one in Python: floor.c does not compile" in out
    assert "asyncio: skipped: without the load generator in C" in out  # datagrams
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert lines["tcp-100k-10"][-1] in ("ns", "us")
    assert lines["unix-1k-10"][-1] in ("ns", "us")


def test_progress_is_a_line_at_the_beginning_where_nobody_sees_it_move(capsys: pytest.CaptureFixture[str]) -> None:
    progress = command.Progress(2, 1.6, clock=iter([0.0, 1.0, 2.0]).__next__)
    progress(Cell("sleep0", "asyncio", 0, {"cpu_ns": 1.0}))
    progress(Cell("sleep0", "uvloop", 0, {}, error="it died"))
    progress.clear()
    assert capsys.readouterr().err == "2 measurements, about 2 s\nsleep0 on uvloop failed: it died\n"


def test_progress_on_a_terminal_says_what_runs_and_how_long_it_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    progress = command.Progress(3, 1.6, clock=iter([0.0, 5.0]).__next__)
    progress(Cell("sleep0", "asyncio", 0, {"cpu_ns": 1.0}))
    assert "\r1/3  sleep0 on asyncio  about 10 s left" in capsys.readouterr().err


def test_the_command_is_there() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "loopcore", "bench", "--work", "nothing"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert result.stderr.startswith("loopcore: error: --work nothing: no workload 'nothing'")
