"""The regression gate: what it lets pass, what it stops, and that a count is the same twice."""

from __future__ import annotations

import json
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from loopcore_bench.loops import LoopSpec
from loopcore_bench.process import MeasurementError, NotInstalledError
from tests.benchmarks import gate
from tests.benchmarks.harness.callgrind import count_sections

FACTS = {"python": "3.11.7", "compiler": "gcc 12", "cython": "3.2"}


def counts(loopcore: float = 1.0, asyncio: float = 1.0) -> gate.Counts:
    return {
        "loopcore": {"sleep0": 2000.0 * loopcore, "spawn": 4000.0},
        "asyncio": {"sleep0": 9000.0 * asyncio, "spawn": 9000.0},
    }


def judge(now: gate.Counts, facts: dict[str, str] = FACTS) -> gate.Judgement:
    return gate.compare({"facts": FACTS, **counts()}, facts, now)


def test_a_regression_of_six_per_cent_is_caught() -> None:
    (failure,) = judge(counts(loopcore=1.06)).failures
    assert failure.startswith("sleep0: +6.0% instructions per operation, the margin is 5%")


def test_a_regression_of_four_per_cent_is_within_the_margin() -> None:
    assert judge(counts(loopcore=1.04)).failures == []


def test_a_count_that_grew_as_asyncios_did_is_not_loopcores_regression() -> None:
    assert judge(counts(loopcore=1.06, asyncio=1.06)).failures == []


def test_a_regression_is_not_hidden_by_an_asyncio_that_became_dearer_by_less() -> None:
    assert len(judge(counts(loopcore=1.12, asyncio=1.06)).failures) == 1


def test_an_asyncio_that_became_cheaper_does_not_make_a_regression() -> None:
    assert judge(counts(asyncio=0.9)).failures == []


@pytest.mark.parametrize(("grown", "failing"), [(1.14, 0), (1.16, 1)])
def test_another_compiler_is_said_and_only_ratios_are_judged(grown: float, failing: int) -> None:
    found = judge(counts(loopcore=2 * grown, asyncio=2.0), {**FACTS, "compiler": "clang 19"})
    assert found.notes[0] == "not what the base was made with: compiler: 'clang 19', the base has 'gcc 12'"
    assert "margin of 15%" in found.notes[1]
    assert len(found.failures) == failing


def test_a_workload_that_became_cheaper_is_named_and_no_failure() -> None:
    found = judge(counts(loopcore=0.9))
    assert found.failures == []
    assert found.notes == ["sleep0: -10.0% instructions; --update would keep that"]


def test_a_workload_without_a_base_is_a_failure_and_one_that_is_gone_is_said() -> None:
    now = counts()
    now["loopcore"]["pair_echo"] = now["asyncio"]["pair_echo"] = 1.0
    del now["loopcore"]["spawn"]
    found = judge(now)
    assert found.failures == ["pair_echo: the base has no count; write one with --update"]
    assert found.notes == ["spawn: in the base, but not counted any more"]


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Any:
    def with_counts(now: gate.Counts, facts: dict[str, str] = FACTS) -> None:
        monkeypatch.setattr(gate, "facts_of", lambda python: facts)
        monkeypatch.setattr(gate, "count_both", lambda python: now)

    return with_counts


def test_the_exit_status_says_what_happened(
    pretend: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    base = ["--base", str(tmp_path / "base.json")]
    pretend(counts())
    monkeypatch.setattr(gate, "count_both", lambda python: pytest.fail("counted for nothing"))
    assert gate.main(base) == 2
    assert "no base for Python 3.11, but for none" in capsys.readouterr().err
    pretend(counts())
    assert gate.main([*base, "--update"]) == 0
    assert gate.main(base) == 0
    pretend(counts(loopcore=1.06))
    assert gate.main(base) == 1
    assert "sleep0: +6.0%" in capsys.readouterr().out


def test_a_new_base_leaves_those_of_other_pythons(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    gate.write_base(path, {"python": "3.13.1"}, counts())
    gate.write_base(path, FACTS, counts(loopcore=2))
    assert list(json.loads(path.read_text())) == ["3.11", "3.13"]
    gate.write_base(path, FACTS, counts())
    assert gate.read_bases(path)["3.11"] == {"facts": FACTS, **counts()}


def test_without_valgrind_the_gate_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert gate.main([]) == 2
    assert "valgrind is not installed; on Debian: apt-get install valgrind" in capsys.readouterr().err


def test_the_stored_base_has_every_workload_on_both_loops() -> None:
    for base in gate.read_bases(gate.BASE).values():
        assert set(base["loopcore"]) == set(base["asyncio"]) == set(gate.SECTIONS)
        assert set(base["facts"]) == {"python", "python_compiler", "cython", "compiler", "libc", "machine", "valgrind"}


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_a_count_is_the_same_twice() -> None:
    spec = LoopSpec("asyncio", "asyncio", None, sys.executable)
    with ThreadPoolExecutor(2) as pool:  # under valgrind both take some seconds
        first, second = pool.map(lambda count: count_sections(spec, {"sleep0": count, "spawn": 200}), (300, 300))
    for work in ("sleep0", "spawn"):
        assert first[work].per_operation == pytest.approx(second[work].per_operation, rel=0.002)
        assert first[work].twice > first[work].once > 0


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_a_workload_that_fails_under_valgrind_is_an_error_with_its_last_words() -> None:
    with pytest.raises(MeasurementError, match="KeyError"):
        count_sections(LoopSpec("asyncio", "asyncio", None, sys.executable), {"nothing": 10})


def test_an_interpreter_without_loopcore_is_named(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho loopcore is not installed for this Python >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(NotInstalledError, match="loopcore is not installed for this Python"):
        gate.facts_of(str(python))


@pytest.mark.parametrize("name", ["/no/such/python", "true"])
def test_what_is_no_interpreter_is_refused_without_a_traceback(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert gate.main(["--python", name]) == 2
    assert "is no interpreter" in capsys.readouterr().err
