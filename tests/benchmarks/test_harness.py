"""The harness itself: every workload runs, figures are sane, the arithmetic is right. No timing assertion."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

from loopbench.cli import all_rows, choose_rows  # noqa: E402
from loopbench.loops import LoopSpec, parse_loop  # noqa: E402
from loopbench.measure import NetBench, Settings, measure_micro  # noqa: E402
from loopbench.native import NoCompilerError  # noqa: E402
from loopbench.netrows import NET, NetRow  # noqa: E402
from loopbench.process import MeasurementError, NotInstalledError, describe  # noqa: E402
from loopbench.rounds import Cell, interleave  # noqa: E402
from loopbench.summary import summarise  # noqa: E402
from loopbench.work import all_micro  # noqa: E402

TINY = Settings(scale=0.001, requests=40, warmup=0.0)
LOOPS = ["asyncio", "loopcore"]
ROWS = ["tcp-100k-10", "buffered-1k-10", "streams-1k-10", "sock-1k-10", "split-1k-10", "unix-1k-10", "churn-10"]
HTTP = ["uvicorn-100", "aiohttp-100"]


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
    metrics = net.measure(NET[row], installed(loop))
    assert sane(metrics)
    assert metrics["requests"] == TINY.requests
    assert metrics["p50_us"] <= metrics["p99_us"]


@pytest.mark.parametrize("row", HTTP)
def test_http_servers_run_where_they_are_installed(net: NetBench, row: str) -> None:
    try:
        metrics = net.measure(NET[row], installed("asyncio"))
    except NotInstalledError as error:
        pytest.skip(f"{row}: {error}")
    assert metrics["requests"] == TINY.requests


@pytest.mark.parametrize("unix", [False, True])
def test_the_floor_echoes_large_messages_over_tcp_and_unix(net: NetBench, unix: bool) -> None:
    metrics = net.measure(NetRow("floor", "protocol", 1 << 20, 3, unix=unix), LoopSpec("c", "c", None, ""))
    assert metrics["requests"] == TINY.requests


def test_idle_connections_stay_open_beside_the_active_ones(net: NetBench) -> None:
    metrics = net.measure(NetRow("idle", "protocol", 64, 2, idle=50), installed("loopcore"))
    assert metrics["requests"] == TINY.requests


def test_a_server_that_dies_is_an_error_with_its_last_words(net: NetBench) -> None:
    with pytest.raises(MeasurementError, match="AttributeError"):
        net.measure(NET["tcp-64-1"], LoopSpec("broken", "json", None, sys.executable))


def test_a_missing_loop_is_skipped_with_the_reason_and_is_no_failure(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [sys.executable, str(HERE / "run.py"), "--loops", "asyncio,no_such_loop", "--work", "sleep0,tcp-64-1"]
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


def test_rows_are_chosen_by_group_name_and_pattern() -> None:
    assert [row.name for row in choose_rows("sleep0,tcp-64-*")] == ["sleep0", "tcp-64-1", "tcp-64-10", "tcp-64-100"]
    assert len(choose_rows("all")) == len(all_rows())
    with pytest.raises(ValueError, match="no workload 'nothing'"):
        choose_rows("nothing")


def test_loops_are_interleaved_and_take_turns_at_the_front() -> None:
    specs = [parse_loop("asyncio"), parse_loop("uvloop")]
    order = [(number, spec.label) for number, _, spec in interleave(choose_rows("sleep0"), specs, 2)]
    assert order == [(0, "asyncio"), (0, "uvloop"), (1, "uvloop"), (1, "asyncio")]


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
