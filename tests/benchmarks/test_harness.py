"""The harness itself: every workload runs, figures are sane, the arithmetic is right. No timing assertion."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loopcore_bench import rows
from loopcore_bench.loops import LoopSpec, loop_factory, parse_loop
from loopcore_bench.machine import own_variables
from loopcore_bench.process import MeasurementError, NotInstalledError, describe
from loopcore_bench.rounds import Cell, can_run, interleave
from tests.benchmarks.harness.certificates import make_certificates
from tests.benchmarks.harness.cli import all_rows, choose_rows
from tests.benchmarks.harness.measure import NetBench, Settings, allow_files, measure_micro
from tests.benchmarks.harness.native import NoCompilerError, compile_programs
from tests.benchmarks.harness.netrows import NET, WIDE, NetRow, Over
from tests.benchmarks.harness.report import idle_table
from tests.benchmarks.harness.rounds import run_rounds, steady_rounds
from tests.benchmarks.harness.session import Session
from tests.benchmarks.harness.summary import summarise
from tests.benchmarks.harness.work import all_micro

TINY = Settings(scale=0.001, requests=40, warmup=0.0)
LOOPS = ["asyncio", "loopcore"]
ROWS = ["tcp-100k-10", "buffered-1k-10", "streams-1k-10", "sock-1k-10", "split-1k-10", "unix-1k-10", "churn-10"]
ROWS += ["udp-1k-10", "tls-1k-10", "tls-100k-10", "pipe-1k-1"]
HTTP = ["uvicorn-100", "uvicorn-tls-100", "aiohttp-100"]
FLOOR = LoopSpec("c", "c", None, "")


def installed(name: str) -> LoopSpec:
    spec = parse_loop(name)
    try:
        describe(spec)
    except NotInstalledError as error:
        if name == "loopcore":
            raise
        pytest.skip(f"{name}: {error}")
    return spec


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> NetBench:
    try:
        return NetBench(TINY, tmp_path_factory.mktemp("native"))
    except NoCompilerError as error:
        pytest.skip(str(error))


@pytest.fixture
def in_turns(net: NetBench) -> NetBench:
    bench = copy.copy(net)
    bench.settings = dataclasses.replace(TINY, turns=3)
    return bench


def sane(metrics: dict[str, float]) -> bool:
    return metrics["wall_ns"] > 0 and metrics["cpu_ns"] >= 0 and metrics["wall_ns"] < 60e9


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("work", list(all_micro()))
def test_every_micro_workload_runs_and_gives_sane_figures(work: str, loop: str) -> None:
    metrics = measure_micro(all_micro()[work], installed(loop), TINY)
    assert sane(metrics)
    assert all_micro()[work].primary in metrics


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("row", ROWS)
def test_every_kind_of_server_answers_every_request(net: NetBench, row: str, loop: str) -> None:
    try:
        metrics = net.measure(NET[row], installed(loop))
    except NotInstalledError as error:
        pytest.skip(f"{row}: {error}")
    assert sane(metrics)
    assert metrics["requests"] == TINY.requests
    assert metrics["p50_us"] <= metrics["p99_us"]


@pytest.mark.parametrize("row", HTTP)
def test_http_servers_run_where_they_are_installed(net: NetBench, row: str) -> None:
    try:
        metrics = net.measure({**NET, **WIDE}[row], installed("asyncio"))
    except NotInstalledError as error:
        pytest.skip(f"{row}: {error}")
    assert metrics["requests"] == TINY.requests


@pytest.mark.parametrize(("over", "size"), [("tcp", 1 << 20), ("unix", 1 << 20), ("udp", 1 << 10)])
def test_the_floor_echoes_over_tcp_unix_and_udp(net: NetBench, over: Over, size: int) -> None:
    metrics = net.measure(NetRow("floor", "protocol", size, 3, over), FLOOR)
    assert metrics["requests"] == TINY.requests


@pytest.mark.parametrize("loop", ["loopcore", "c"])
def test_idle_connections_stay_open_beside_the_active_ones_and_are_closed_at_the_end(net: NetBench, loop: str) -> None:
    spec = FLOOR if loop == "c" else installed(loop)
    metrics = net.measure(NetRow("idle", "protocol", 64, 2, idle=50), spec)
    assert metrics["requests"] == TINY.requests
    assert metrics["left_open"] == 0
    assert "bytes_per_idle" in metrics


def test_tls_rows_are_skipped_with_the_reason_where_something_is_missing(
    net: NetBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = NetBench(TINY, tmp_path)
    without.programs = dataclasses.replace(net.programs, no_tls="no headers")
    with pytest.raises(NotInstalledError, match="no headers"):
        without.measure(NET["tls-1k-10"], LoopSpec("asyncio", "asyncio", None, sys.executable))
    monkeypatch.setitem(sys.modules, "trustme", None)
    with pytest.raises(NotInstalledError, match="trustme"):
        make_certificates(tmp_path)


def test_too_many_connections_for_the_system_are_a_reason_to_skip() -> None:
    with pytest.raises(NotInstalledError, match="the hard limit is"):
        allow_files(1 << 40)


def test_a_server_that_dies_is_an_error_with_its_last_words(net: NetBench) -> None:
    with pytest.raises(MeasurementError, match="AttributeError"):
        net.measure(NET["tcp-64-1"], LoopSpec("broken", "json", None, sys.executable))


def test_a_row_that_a_loop_does_not_implement_is_skipped_with_the_reason(net: NetBench, tmp_path: Path) -> None:
    lines = ["import asyncio", "class Loop(asyncio.SelectorEventLoop):", "    async def create_server(self, *a, **k):"]
    lines += ["        raise NotImplementedError", "def new_event_loop():", "    return Loop()"]
    (tmp_path / "lacking.py").write_text("\n".join(lines), encoding="utf-8")
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{tmp_path}" exec {sys.executable} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    for row in (NET["tcp-64-1"], WIDE["uvicorn-tls-100"]):
        with pytest.raises(NotInstalledError, match=r"not implemented|uvicorn|trustme|OpenSSL"):
            net.measure(row, LoopSpec("lacking", "lacking", None, str(script)))


def test_a_missing_loop_is_skipped_with_the_reason_and_is_no_failure(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [
        sys.executable,
        str(Path(__file__).with_name("run.py")),
        "--loops",
        "asyncio,no_such_loop",
        "--work",
        "sleep0,tcp-64-1",
    ]
    command += ["--rounds", "2", "--scale", "0.001", "--requests", "20", "--quiet", "--json", str(out)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "no_such_loop: skipped, not installed (no module named 'no_such_loop')" in result.stdout
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    assert set(found["loops"]) >= {"asyncio", "no_such_loop"}
    assert {figure["rounds"] for figure in found["figures"]} == {2}
    assert found["machine"]["date"]


def test_loopcore_says_how_it_was_built_and_which_backend_runs() -> None:
    facts = describe(installed("loopcore"))
    assert facts["build"] in ("compiled", "pure")
    assert facts["backend"] not in ("", "None")


def test_a_loop_is_read_from_its_text() -> None:
    assert parse_loop("pure=loopcore:poll@/venv/bin/python") == LoopSpec("pure", "loopcore", "poll", "/venv/bin/python")
    assert parse_loop("uvloop") == LoopSpec("uvloop", "uvloop", None, sys.executable)
    with pytest.raises(ValueError, match="no loop name"):
        parse_loop(":epoll")


def test_a_backend_reaches_a_loop_that_reads_it_from_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZLOOP_IO_URING", "")
    monkeypatch.setitem(sys.modules, "zloop", sys.modules["asyncio"])
    loop_factory("zloop", "completion")().close()
    assert os.environ["ZLOOP_IO_URING"] == "completion"


def test_rows_are_chosen_by_group_name_and_pattern() -> None:
    assert [row.name for row in choose_rows("sleep0,tcp-64-1*")] == ["sleep0", "tcp-64-1", "tcp-64-10", "tcp-64-100"]
    assert len(choose_rows("all")) == len(all_rows())
    assert "tcp-1k-400" in {row.name for row in choose_rows("wide")}
    assert not {row.name for row in choose_rows("wide")} & {row.name for row in choose_rows("net")}
    with pytest.raises(ValueError, match="no workload 'nothing'"):
        choose_rows("nothing")


def test_loops_are_interleaved_and_take_turns_at_the_front() -> None:
    specs = [parse_loop("asyncio"), parse_loop("uvloop")]
    order = interleave(choose_rows("sleep0"), specs, 2, exists=can_run)
    assert [(number, [spec.label for spec in chosen]) for number, _, chosen in order] == [
        (0, ["asyncio", "uvloop"]),
        (1, ["uvloop", "asyncio"]),
    ]


def test_in_turns_each_loop_is_loaded_as_often_and_one_that_dies_holds_up_nobody(
    in_turns: NetBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = in_turns
    order: list[str] = []
    measure = Session.measure

    def noted(session: Session) -> dict[str, float]:
        order.append(labels[session.server.pid])
        if order == ["asyncio", "loopcore", "loopcore", "asyncio"]:
            os.kill(session.server.pid, signal.SIGKILL)
        return measure(session)

    labels: dict[int, str] = {}
    open_session = NetBench._session

    @contextlib.contextmanager
    def labelled(bench: NetBench, row: NetRow, spec: LoopSpec) -> Iterator[Session]:
        with open_session(bench, row, spec) as session:
            labels[session.server.pid] = spec.label
            yield session

    monkeypatch.setattr(Session, "measure", noted)
    monkeypatch.setattr(NetBench, "_session", labelled)
    missing = LoopSpec("missing", "no_such_loop", None, sys.executable)
    specs = [missing, installed("asyncio"), installed("loopcore")]
    cells = run_rounds([NET["tcp-1k-10"]], specs, 1, net.settings, net, lambda cell: None)
    assert order == ["asyncio", "loopcore", "loopcore", "asyncio", "loopcore"]
    assert [cell.loop for cell in cells] == ["missing", "asyncio", "loopcore"]
    assert cells[0].skipped is not None
    assert cells[1].error is not None
    assert sane(cells[2].metrics)
    assert cells[2].metrics["requests"] == net.settings.requests


def test_idle_connections_are_not_measured_in_turns(in_turns: NetBench) -> None:
    net = in_turns
    row = NetRow("idle", "protocol", 64, 2, idle=3)
    (cell,) = run_rounds([row], [installed("asyncio")], 1, net.settings, net, lambda cell: None)
    assert cell.metrics["left_open"] == 0
    net.settings = Settings(seconds=3.0, turns=3)
    seconds = [net._load_command(each, 1, None, None) for each in (row, NET["tcp-1k-10"])]
    assert [command[command.index("--seconds") + 1] for command in seconds] == ["3.0", "1.0"]


def test_the_load_generator_loads_as_often_as_it_is_told(in_turns: NetBench) -> None:
    with in_turns._session(NET["tcp-1k-10"], installed("asyncio")) as session:
        session.prepare()
        assert [session.run()["requests"] for _ in range(3)] == [TINY.requests] * 3


def test_ratios_are_reference_over_measured_and_floor_the_other_way_round() -> None:
    specs = [parse_loop(name) for name in ("asyncio", "uvloop", "loopcore", "c")]
    costs = {"asyncio": (40, 44, 90), "uvloop": (20, 30, 22), "loopcore": (10, 11, 12), "c": (5, 6, 5)}
    cells = [
        Cell("tcp-64-1", loop, n, {"cpu_ns": float(v)}) for loop, values in costs.items() for n, v in enumerate(values)
    ]
    figures = {figure.loop: figure for figure in summarise(cells, [NET["tcp-64-1"]], specs)}
    ours = figures["loopcore"]
    assert (ours.value, ours.minima["cpu_ns"]) == (11, 10)
    assert (ours.best_peer, ours.to_best_peer, ours.to_reference) == ("uvloop", 2, 2)
    assert ours.to_best_peer_by_minima == 20 / 10
    assert ours.to_floor == 11 / 5
    assert figures["uvloop"].best_peer == "asyncio"


def test_what_a_loop_did_wrong_without_failing_stands_beside_its_figure() -> None:
    base = {"cpu_ns": 1.0}
    remarks = {"early": "2 too early", "resent": "2 sent again", "left_open": "2 left open"}
    for metric, remark in remarks.items():
        cells = [Cell("udp-1k-10", "asyncio", 0, {**base, metric: 2.0})]
        (figure,) = summarise(cells, [NET["udp-1k-10"]], [parse_loop("asyncio")])
        assert figure.remark == remark


def test_memory_of_idle_connections_has_a_table_of_its_own() -> None:
    cells = [Cell("idle-1k", "asyncio", 0, {"cpu_ns": 1.0, "bytes_per_idle": 2048.0})]
    figures = summarise(cells, [NET["idle-1k"]], [parse_loop("asyncio")])
    assert "2048" in idle_table(figures)
    assert idle_table([]) == ""


def test_a_blank_name_of_a_compiler_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", "  ")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoCompilerError, match="no C compiler"):
        compile_programs(tmp_path)


def test_a_compiler_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "cc"))
    with pytest.raises(NoCompilerError, match=r"floor.c does not compile: \[Errno 2\] No such file or directory"):
        compile_programs(tmp_path)


def test_the_rows_of_the_readme_are_a_group() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    drawn = re.findall(r"^\| `([\w-]+)` \| [\d.]+ [nu]s \|", readme, flags=re.MULTILINE)
    assert [row.name for row in choose_rows("readme")] == drawn


def test_the_rows_of_the_command_are_rows_of_the_harness_and_measure_the_same() -> None:
    for name, row in rows.all_rows().items():
        assert all_rows()[name].operation == row.operation


def test_variables_that_a_measurement_does_not_read_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(own_variables()):
        monkeypatch.delenv(name)
    for name in ("LOOPCORE_COMPILE", "LOOPCORE_BUILD_CACHE", "LOOPCORE_EVENT_BATCH"):
        monkeypatch.setenv(name, "16")
    monkeypatch.setenv("LOOPCORE_BACKEND", "")
    assert own_variables() == {"LOOPCORE_EVENT_BATCH": "16"}


def test_what_slows_all_loops_of_a_turn_is_taken_out_and_ratios_stay() -> None:
    turns = [(1.0, {"a": 10.0, "b": 20.0}), (2.0, {"a": 10.0, "b": 20.0}), (4.0, {"a": 11.0, "b": 22.0})]
    cells = [
        Cell("tcp-64-1", loop, number, {"cpu_ns": cost * slower})
        for number, (slower, costs) in enumerate(turns)
        for loop, cost in costs.items()
    ]
    cells.append(Cell("tcp-64-1", "c", 0, {}, error="died"))
    found = steady_rounds(cells)
    assert found[-1] is cells[-1]
    times = {(cell.loop, cell.round): cell.metrics["cpu_ns"] for cell in found[:-1]}
    assert {loop: {times[loop, number] for number in range(3)} for loop in "ab"} == {"a": {20.0}, "b": {40.0}}
