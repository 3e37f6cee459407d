"""`loopcore bench`: what it measures by default, what it writes, and how it refuses."""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import socket
import subprocess
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from loopcore import UsageError
from loopcore_bench import command
from loopcore_bench.loops import LoopSpec, parse_loop
from loopcore_bench.measure import Settings, measure
from loopcore_bench.process import MeasurementError, NotInstalledError, package_command
from loopcore_bench.rounds import Cell, can_run
from loopcore_bench.rows import NET, NetRow, all_rows
from loopcore_bench.work import Row, all_micro

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
    assert ["cost", "an", "operation", "asyncio", "mine"] in [line.split() for line in out.splitlines()]
    assert "tcp-64-1: protocol: 64 B there and back, 1 connection\n" in out
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
    heads = [line.split()[3:] for line in lines if line.startswith("cost an operation")]
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


def test_loops_that_lack_the_same_are_named_together(capsys: pytest.CaptureFixture[str]) -> None:
    command.show(found_document(asyncio=None, rloop=None))
    assert capsys.readouterr().out == "\nsleep0: one sleep\n  asyncio, rloop: failed: <it> ended\n"


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
        (["--work", "nothing"], "no workload 'nothing'; `loopcore bench --list` shows all, such as all, call_soon,"),
        (["--work", "tcp-1k"], "no workload 'tcp-1k'; .* tcp-1k-1"),
        (["--loops", ""], "no loop name in ''"),
        (["--loops", "json"], "json cannot be measured: not an event loop"),
        (["--loops", f"mine=asyncio@{Path(__file__).parent}"], "mine cannot be measured: .* cannot be executed"),
        (["--loops", "mine=asyncio@/bin/echo"], "mine cannot be measured: /bin/echo is no interpreter: it answers '"),
        (["--html", "same", "--json", "same"], "--html and --json are the same file"),
        (["--loops", "no_such_loop"], "no_such_loop cannot be measured: not installed"),
        (["--loops", ":epoll"], "no loop name in ':epoll'"),
        (["--loops", "=loopcore"], "no label in '=loopcore'"),
        (["--loops", "asyncio,mine=asyncio,mine=loopcore"], "mine is there twice"),
        (["--json", "."], "cannot write '.': it is a folder"),
        (["--loops", "loopcore:nope"], "loopcore:nope cannot be measured: .*nope"),
        (["--list", "--loops", "no_such_loop"], "no_such_loop cannot be measured: not installed"),
        (["--rounds", "0"], "--rounds 0: there must be at least one"),
        (["--seconds", "0"], r"--seconds 0.0: must be from 0.001 to 60"),
        (["--seconds", "nan"], "--seconds nan: must be from"),
        (["--json", "-"], "cannot write to '-': standard output has the table; name a file"),
        (["--html", "no/such/folder/page.html"], "cannot write 'no/such/folder/page.html': there is no folder"),
    ],
)
def test_what_cannot_be_measured_or_written_is_refused_before_anything_runs(words: list[str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        run(*words)


def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, open_path = tmp_path / "page.html", Path.open

    def refuse(path: Path, *arguments: Any, **options: Any) -> Any:
        if path == page:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return open_path(path, *arguments, **options)  # what pytest imports meanwhile

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UsageError, match=r"cannot write .*: Permission denied"):
        run("--html", str(page))


def test_looking_whether_files_can_be_written_leaves_them_as_they_are(tmp_path: Path) -> None:
    old, new = tmp_path / "old.html", tmp_path / "new.json"
    old.write_text("as it was")
    with pytest.raises(UsageError, match="no_such_loop"):
        run("--loops", "no_such_loop", "--html", str(old), "--json", str(new))
    assert [path.name for path in tmp_path.iterdir()] == ["old.html"]
    assert old.read_text() == "as it was"


def test_a_loop_without_backends_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plain_loop.py").write_text("from asyncio import new_event_loop\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    with pytest.raises(UsageError, match="plain_loop has no backends to choose from; write 'plain_loop'"):
        run("--loops", "plain_loop:epoll")


def test_a_setting_that_loopcore_refuses_is_an_error_and_no_comparison_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOOPCORE_FLUSH_LIMIT", "64k")
    with pytest.raises(UsageError, match=r"loopcore cannot be measured: .*LOOPCORE_FLUSH_LIMIT='64k'"):
        run()


def test_an_interrupt_before_anything_is_measured_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(spec: LoopSpec) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "describe", interrupted)
    assert run() == 130
    assert capsys.readouterr().err == "interrupted; nothing is written\n"


def interrupt_after(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each of `count` measurements find the same, and Ctrl-C come in the next."""
    done: list[str] = []

    def measure_or_interrupt(row: Row, spec: LoopSpec, settings: Settings) -> dict[str, float]:
        if len(done) == count:
            raise KeyboardInterrupt
        done.append(row.name)
        return {"cpu_ns": 100.0, "wall_ns": 100.0}

    monkeypatch.setattr(command, "measure", measure_or_interrupt)


INTERRUPTIBLE = ("--loops", "asyncio,loopcore", "--work", "call_soon,spawn", "--rounds", "3")


def test_an_interrupt_leaves_what_was_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupt_after(7, monkeypatch)  # a round of four, a workload of the second on both loops, and half of the next
    html, figures = tmp_path / "page.html", tmp_path / "figures.json"
    assert run(*INTERRUPTIBLE, "--html", str(html), "--json", str(figures)) == 130
    out, err = capsys.readouterr()
    said = "interrupted after 7 of 12 measurements; what was complete is here"
    assert err.endswith(said + "\n")
    assert ["spawn", "100", "ns", "100", "ns"] in [line.split() for line in out.splitlines()]
    found = json.loads(figures.read_text(encoding="utf-8"))
    assert found["interrupted"] == said
    assert [(cell["round"], cell["row"]) for cell in found["cells"]] == [
        (0, "call_soon"),
        (0, "call_soon"),
        (0, "spawn"),
        (0, "spawn"),
        (1, "call_soon"),
        (1, "call_soon"),
    ]
    assert any(said in text for text in Texts(html.read_text(encoding="utf-8")).texts)


def test_a_workload_that_was_not_reached_before_an_interrupt_is_not_drawn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupt_after(3, monkeypatch)
    assert run(*INTERRUPTIBLE) == 130
    out, _ = capsys.readouterr()
    assert "call_soon" in out
    assert "spawn" not in out


def test_an_interrupt_before_anything_is_complete_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupt_after(1, monkeypatch)
    assert run(*INTERRUPTIBLE, "--json", str(tmp_path / "figures.json")) == 130
    assert capsys.readouterr().err.endswith("interrupted; nothing is written\n")
    assert list(tmp_path.iterdir()) == []


def test_figures_are_shown_to_nobody_where_standard_output_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    command.show(found_document(asyncio=1000.0, loopcore=250.0))


def test_a_pure_build_and_a_lack_of_peers_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "own_variables", dict)
    spec = LoopSpec("loopcore", "loopcore", None, sys.executable)
    peer = LoopSpec("uvloop", "uvloop", None, sys.executable)
    pure: dict[str, dict[str, Any]] = {"loopcore": {"build": "pure"}, "uvloop": {}}
    assert [line.partition(";")[0] for line in command._advice([spec], pure, asked=False)] == [
        "loopcore is not compiled here, which costs most of its speed",
        "no other loop is installed here",
    ]
    compiled: dict[str, dict[str, Any]] = {"loopcore": {"build": "compiled"}, "uvloop": {}}
    assert command._advice([spec, peer], compiled, asked=False) == command._advice([spec], compiled, asked=True) == []


def test_timers_that_are_early_are_no_best_figure() -> None:
    found = found_document(asyncio=100.0, loopcore=50.0, uvloop=-300.0)
    found["figures"][2]["medians"]["early"] = 9.0
    text = command.page(found)
    assert '<td class="best">50 ns</td><td>-300.0 ns (early)</td>' in text


def test_the_workloads_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--list") == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed[0] == "call_soon"
    assert listed == [*all_micro(), *NET]
    assert set(command.WORK.split(",")) <= set(listed)


def test_what_is_set_for_loopcore_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LOOPCORE_POLL_SKIP_TICKS", "0")
    assert run("--loops", "loopcore", "--work", "call_soon", *TINY) == 0
    assert re.search("measured with .*LOOPCORE_POLL_SKIP_TICKS=0", capsys.readouterr().out)


TINY_SETTINGS = Settings(scale=0.001, seconds=0.05)


@pytest.mark.parametrize("loop", ["asyncio", "loopcore"])
@pytest.mark.parametrize("row", list(all_rows()))
def test_every_row_runs_and_gives_sane_figures(row: str, loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/bin/false")  # nothing is compiled
    metrics = measure(all_rows()[row], parse_loop(loop), TINY_SETTINGS)
    assert 0 < metrics["wall_ns"] < 60e9
    assert metrics["cpu_ns"] >= 0
    assert metrics.get("requests", 1) > 0


def test_a_server_that_dies_is_an_error_with_its_last_words() -> None:
    with pytest.raises(MeasurementError, match="AttributeError"):
        measure(NET["tcp-64-1"], LoopSpec("broken", "json", None, sys.executable), TINY_SETTINGS)


def test_what_a_loop_does_not_implement_is_a_reason_to_leave_it_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["import asyncio", "class Loop(asyncio.SelectorEventLoop):", "    async def create_server(self, *a, **k):"]
    lines += ["        raise NotImplementedError", "def new_event_loop():", "    return Loop()"]
    (tmp_path / "lacking.py").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    spec = LoopSpec("lacking", "lacking", None, sys.executable)
    with pytest.raises(NotInstalledError, match="not implemented by this loop"):
        measure(NetRow("row", "protocol", 64, 1), spec, TINY_SETTINGS)


@pytest.mark.parametrize("wrong", [0, 1])
def test_the_load_generator_notices_one_flipped_bit(wrong: int) -> None:
    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            while data := connection.recv(2048):
                connection.sendall(data[:-1] + bytes([data[-1] ^ wrong]))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        words = ["--port", str(listener.getsockname()[1]), "--conns", "1", "--size", "64"]
        load = [*package_command("loopcore_bench.load"), *words, "--seconds", "0.05", "--warmup", "0"]
        said = subprocess.run(load, input="go\n", capture_output=True, text=True, check=True, timeout=60).stdout
        thread.join()
    ready, result = said.splitlines()
    found = json.loads(result)
    assert ready == "ready"
    assert (found["requests"] > 0, found["errors"], found["wrong"]) == (not wrong, wrong, wrong)


def test_nothing_of_the_progress_is_on_standard_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    progress = command.Progress(1, 1.6)
    progress(Cell("sleep0", "asyncio", 0, {}, error="it died"))
    assert capsys.readouterr().out == ""


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


def test_progress_stays_within_one_line_of_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "20")
    progress = command.Progress(3, 1.6, clock=iter([0.0, 5.0]).__next__)
    progress(Cell("sleep0", "asyncio", 0, {"cpu_ns": 1.0}))
    assert capsys.readouterr().err.endswith("\r1/3  sleep0 on asyn")


def test_the_command_is_there() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "loopcore", "bench", "--work", "nothing"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert result.stderr.startswith("loopcore: error: --work nothing: no workload 'nothing'")


def test_the_list_is_of_the_workloads_that_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--list", "--work", "sleep0, pingpong") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["sleep0", "pingpong"]


def test_loops_may_be_written_with_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--list", "--loops", "asyncio, x = loopcore") == 0
    assert (parse_loop(" x = loopcore:poll ").label, parse_loop(" loopcore").name) == ("x", "loopcore")


def test_superfluous_words_are_refused_with_the_command_that_shows_the_usage() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "loopcore", "bench", "extra", "words"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr == "loopcore: error: bench: takes no argument 'extra'; see loopcore bench --help\n"
