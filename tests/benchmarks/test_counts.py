"""Counts of system calls and instructions: which rows there are, what is refused, and a real count of a server."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from pathlib import Path

import pytest

from loopcore_bench.loops import LoopSpec, parse_loop
from loopcore_bench.process import NotInstalledError
from tests.benchmarks import counts, figures, instructions
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


def test_every_row_that_is_counted_is_there() -> None:
    assert set(counts.SYSCALL_ROWS) <= set(all_rows())


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


@pytest.mark.parametrize("reason", ["skipped", "error"])
def test_where_nothing_was_counted_nothing_is_written(
    reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = dataclasses.replace(Syscalls("tcp-1k", "loopcore"), **{reason: "there is no strace"})
    series = figures.Series("", [LoopSpec("loopcore", "loopcore", None, "")], {})
    monkeypatch.setattr(counts, "find_loops", lambda *_: series)
    monkeypatch.setattr(counts, "NetBench", lambda *_: None)
    monkeypatch.setattr(counts, "count_all", lambda rows, specs, net, tell: tell(found) or [found])
    assert counts.main(["--python", "3.14=python", "--out", str(tmp_path)]) == 1
    assert "tcp-1k on loopcore: there is no strace" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_counted_is_refused_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert counts.main(["--python", "3.14=/no/such/python", "--out", str(out)]) == 2
    assert "/no/such/python has no loopcore" in capsys.readouterr().err
    assert instructions.main(["--work", "nothing"]) == 2
    assert "no workload 'nothing'" in capsys.readouterr().err
    for words, complaint in ((["--count", "0"], "1 or more"), (["--base", str(out)], "there is no base")):
        with pytest.raises(SystemExit, match="2"):
            instructions.main(words)
        assert complaint in capsys.readouterr().err
    assert not out.exists()


def test_only_loops_are_held_to_a_limit_not_the_floors() -> None:
    found = [Instructions(loop, "spawn", 1, 0, cost) for loop, cost in (("a", 10), ("b", 20), ("c", 30))]
    (line,) = instructions.too_many(found, 0.5)
    assert line.startswith("spawn: b is 2.0000 of a")


def test_an_interpreter_is_found_from_the_folder_and_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python9").write_text("#!/bin/sh\n")
    (tmp_path / "python9").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert {parse_loop(f"uvloop@{name}").python for name in ("python9", "./python9")} == {str(tmp_path / "python9")}
    assert parse_loop("uvloop@./none").python == str(tmp_path / "none")
