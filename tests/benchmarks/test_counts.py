"""Counts for the page: which rows and loops are counted, what is drawn, and a real count of a server."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from loopcore_bench.cli import all_rows
from loopcore_bench.loops import FLOOR, LoopSpec
from loopcore_bench.measure import NetBench, Settings
from loopcore_bench.native import NoCompilerError
from loopcore_bench.netrows import NET
from loopcore_bench.process import NotInstalledError
from tests.benchmarks import counted, counts, instructions

C = LoopSpec(FLOOR, FLOOR, None, "")


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
    (folder / "instructions.json").write_text(json.dumps({"commit": "c0ffee", "counts": found}))
    return counted.read_counts(folder)


def test_every_row_that_is_counted_is_there() -> None:
    assert {*counts.INSIDE, *counts.REQUESTS, *counts.SYSCALL_ROWS} <= set(all_rows())


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="no valgrind")
def test_a_request_of_the_floor_is_a_few_instructions_and_the_profile_has_them(net: NetBench, tmp_path: Path) -> None:
    found = net.count_instructions(NET["tcp-1k-10"], C, tmp_path / "profile")
    assert found.count == 200
    assert 10 < found.per_operation < 5000  # outside the kernel: some lines of C, and the look at the CPU time
    assert "totals:" in (tmp_path / "profile").read_text()


def test_without_valgrind_a_count_is_refused_with_the_reason(net: NetBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None)
    with pytest.raises(NotInstalledError, match="valgrind is not installed"):
        net.count_instructions(NET["tcp-1k-10"], C)


def test_the_instructions_of_a_row_are_told_beside_those_of_the_floor_and_of_the_best_peer(tmp_path: Path) -> None:
    found = stored(tmp_path, uvloop=4917, rloop=2741, c=57, loopcore=1877, **{"c+python": 1955})
    told = " 1,877, 1,955 of C and Python, 2,741 of rloop on 3.13."
    assert counted.instructions_of("tcp-1k-10", found) == " Instructions:" + told
    assert counted.instructions_of("tcp-64-100", found) == " Instructions of `tcp-1k-10`:" + told
    assert counted.instructions_of("tcp-64-1", found) == ""
    assert counted.instruction_table(tmp_path).splitlines()[::2] == [
        "| row | Python | uvloop | rloop | loopcore | C server | C and Python |",
        "| `tcp-1k-10` | 3.13 | 4,917 | 2,741 | 1,877 | 57 | 1,955 |",
    ]


def test_what_cannot_be_counted_is_refused_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert counts.main(["instructions", "--python", "3.13=/no/such/python", "--out", str(out)]) == 2
    assert "/no/such/python has no loopcore" in capsys.readouterr().err
    assert instructions.main(["--work", "nothing"]) == 2
    assert "no workload 'nothing'" in capsys.readouterr().err
    assert not out.exists()
