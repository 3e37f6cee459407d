"""Counts for the page: which rows and loops are counted, what is drawn, and a real count of a server."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from loopcore_bench.loops import LoopSpec, parse_loop
from loopcore_bench.process import MeasurementError, NotInstalledError
from tests.benchmarks import counted, counts, figures, instructions, records
from tests.benchmarks.harness.callgrind import Instructions
from tests.benchmarks.harness.cli import all_rows
from tests.benchmarks.harness.floors import FLOOR
from tests.benchmarks.harness.measure import NetBench, Settings
from tests.benchmarks.harness.native import NoCompilerError
from tests.benchmarks.harness.netrows import NET
from tests.benchmarks.harness.strace import Syscalls

C = LoopSpec(FLOOR, FLOOR, None, "")
ASYNCIO = LoopSpec("asyncio", "asyncio", None, sys.executable)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> NetBench:
    try:
        return NetBench(Settings(requests=200, warmup=0.1), tmp_path_factory.mktemp("bench"))
    except NoCompilerError as error:
        pytest.skip(f"no C compiler: {error}")


def stored(folder: Path, **numbers: int) -> counted.Counts:
    found = [
        {"python": "3.13", "row": "tcp-1k-10", "loop": loop, "instructions": number} for loop, number in numbers.items()
    ]
    records.write(folder / "instructions.json", {"commits": {"3.13": "c0ffee"}}, "counts", found)
    return counted.read_counts(folder)


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let counts.py find one loop, and count without a server or valgrind; a text is the reason of a failure."""

    def patch(found: int | str) -> None:
        def count(*_: object) -> Instructions:
            if isinstance(found, str):
                raise MeasurementError(found)
            return Instructions("loopcore", "tcp-1k-10", 1, 0, found)

        series = figures.Series("", [LoopSpec("loopcore", "loopcore", None, "")], {})
        monkeypatch.setattr(counts, "find_loops", lambda *_: series)
        net = SimpleNamespace(settings=Settings(), count_instructions=count)
        monkeypatch.setattr(counts, "NetBench", lambda *_: net)
        monkeypatch.setattr(counts, "REQUESTS", {"tcp-1k-10": 1})
        monkeypatch.setattr(counts, "INSIDE_LOOPS", ())

    return patch


def test_every_row_that_is_counted_is_there() -> None:
    assert {*counts.INSIDE, *counts.REQUESTS, *counts.SYSCALL_ROWS} <= set(all_rows())


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="no valgrind")
@pytest.mark.parametrize(("spec", "least", "most"), [(C, 20, 300), (ASYNCIO, 5_000, 100_000)])
def test_a_server_is_counted_while_it_is_loaded_and_at_no_other_time(
    net: NetBench, spec: LoopSpec, least: int, most: int, tmp_path: Path
) -> None:
    found = net.count_instructions(NET["tcp-1k-10"], spec, tmp_path / "profile")
    assert found.count == 200
    assert least < found.per_operation < most  # to start takes more than all requests
    assert f"totals: {found.twice}\n" in (tmp_path / "profile").read_text()


def test_what_valgrind_does_not_know_is_refused_at_once(net: NetBench) -> None:
    with pytest.raises(NotInstalledError, match="does not know io_uring"):
        net.count_instructions(NET["tcp-1k-10"], parse_loop("loopcore:uring"))


def test_without_valgrind_a_count_is_refused_with_the_reason(net: NetBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None)
    with pytest.raises(NotInstalledError, match="valgrind is not installed"):
        net.count_instructions(NET["tcp-1k-10"], C)


def test_what_was_counted_on_one_python_stays_when_another_is_counted(
    pretend: Callable[..., None], tmp_path: Path
) -> None:
    for version, number in (("3.11", 1), ("3.13", 2), ("3.11", 3)):
        pretend(number)
        assert counts.main(["instructions", "--python", f"{version}=python", "--out", str(tmp_path)]) == 0
    assert counted.read_counts(tmp_path) == {"tcp-1k-10": {"3.13": {"loopcore": 2}, "3.11": {"loopcore": 3}}}


def test_a_cell_that_failed_is_told_and_is_a_failure(
    pretend: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend("no answer")
    assert counts.main(["instructions", "--python", "3.13=python", "--out", str(tmp_path)]) == 1
    assert "tcp-1k-10 on loopcore: no answer" in capsys.readouterr().err


def test_without_valgrind_what_is_stored_stays(
    pretend: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(1)
    assert counts.main(["instructions", "--python", "3.13=python", "--out", str(tmp_path)]) == 0

    def refuse(*_: object) -> Instructions:
        raise NotInstalledError("valgrind is not installed")

    monkeypatch.setattr(counts, "NetBench", lambda *_: SimpleNamespace(settings=Settings(), count_instructions=refuse))
    assert counts.main(["instructions", "--python", "3.13=python", "--out", str(tmp_path)]) == 1
    assert counted.read_counts(tmp_path) == {"tcp-1k-10": {"3.13": {"loopcore": 1}}}


def test_where_nothing_was_counted_nothing_is_written(
    pretend: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(1)
    skipped = Syscalls("tcp-1k", "loopcore", skipped="there is no strace")
    monkeypatch.setattr(counts, "count_all", lambda rows, specs, net, tell: tell(skipped) or [skipped])
    assert counts.main(["syscalls", "--python", "3.13=python", "--out", str(tmp_path)]) == 1
    assert "tcp-1k on loopcore: there is no strace" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_instructions_of_a_row_are_told_beside_those_of_the_floor_and_of_the_best_peer(tmp_path: Path) -> None:
    found = stored(tmp_path, uvloop=4917, rloop=2741, c=57, loopcore=1877, **{"c+python": 1955})
    told = " Instructions of `tcp-1k-10`: 1,877 of loopcore, 1,955 of C and Python, 2,741 of rloop on 3.13."
    assert counted.instructions_of("tcp-1k-10", found) == told
    assert counted.instructions_of("tcp-1k-1", found) == ""
    assert counted.instruction_table(tmp_path).splitlines() == [
        "| row | Python | uvloop | rloop | loopcore | C server | C and Python |",
        "|---|---|---:|---:|---:|---:|---:|",
        "| `tcp-1k-10` | 3.13 | 4,917 | 2,741 | 1,877 | 57 | 1,955 |",
        "",
        "Tree at commit c0ffee.",
    ]


@pytest.mark.parametrize(
    ("row", "like"),
    [
        ("tcp-64-1", "tcp-1k-1"),
        ("tcp-16k-1", "tcp-1k-1"),
        ("tcp-16k-10", "tcp-16k-10"),
        ("tcp-64-100", "tcp-1k-10"),
        ("unix-1k-1", "unix-64-1"),
        ("unix-16k-100", "unix-64-10"),
        ("tcp-100k-10", "tcp-100k-10"),
        ("churn-10", "churn-10"),
    ],
)
def test_a_row_is_like_one_of_its_transport_with_as_much_to_do_in_a_tick(row: str, like: str) -> None:
    assert counted.counted_like(row) == like


def test_what_cannot_be_counted_is_refused_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert counts.main(["instructions", "--python", "3.13=/no/such/python", "--out", str(out)]) == 2
    assert "/no/such/python has no loopcore" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        counts.main(["syscalls", "--python", "3.13=a", "--python", "3.11=b", "--out", str(out)])
    assert "on one --python" in capsys.readouterr().err
    assert instructions.main(["--work", "nothing"]) == 2
    assert "no workload 'nothing'" in capsys.readouterr().err
    for words, complaint in ((["--count", "0"], "1 or more"), (["--base", str(out)], "there is no base")):
        with pytest.raises(SystemExit, match="2"):
            instructions.main(words)
        assert complaint in capsys.readouterr().err
    assert not out.exists()


def test_only_loops_are_held_to_a_limit_not_the_floors() -> None:
    found = [Instructions(loop, "spawn", 1, 0, cost) for loop, cost in (("a", 10), ("b", 20), ("c+python", 30))]
    (line,) = instructions.too_many(found, 0.5)
    assert line.startswith("spawn: b is 2.0000 of a")


def test_an_interpreter_is_found_from_the_folder_and_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python9").write_text("#!/bin/sh\n")
    (tmp_path / "python9").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert {parse_loop(f"uvloop@{name}").python for name in ("python9", "./python9")} == {str(tmp_path / "python9")}
    assert parse_loop("uvloop@./none").python == str(tmp_path / "none")
