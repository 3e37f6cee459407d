"""The page of figures: it shows what its data say, and says so where a peer is ahead."""

from __future__ import annotations

import contextlib
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from loopcore_bench.loops import LoopSpec
from loopcore_bench.process import MeasurementError
from loopcore_bench.rounds import Cell, can_run, interleave
from tests.benchmarks import drawing, figures
from tests.benchmarks.harness.cli import choose_rows
from tests.benchmarks.harness.measure import Settings


def document(rounds: int = 5, load: float = 0.1, row: str = "reader", **costs: float) -> dict[str, Any]:
    return {
        "machine": {"cpu": "CPU", "cpus": 2, "system": "Linux", "libc": "glibc", "compiler": "cc"},
        "runs": [{"date": "2026-01-02T03:04:05", "load_average": [load], "commit": "c0ffee", "rows": [row]}],
        "loops": {loop: {"version": "1", "python": "3.13"} for loop in costs},
        "operations": {row: "one operation"},
        "figures": [
            {
                "row": row,
                "loop": loop,
                "primary": "cpu_ns",
                "rounds": rounds,
                "medians": {"cpu_ns": cost},
                "note": None,
            }
            for loop, cost in costs.items()
        ],
    }


def facts(commit: str) -> dict[str, Any]:
    return {"cpu": "CPU", "date": "2026-01-02T03:04:05", "load_average": [0.1], "commit": commit}


def test_the_pages_show_what_the_data_say() -> None:
    """After a change of the data: python tests/benchmarks/figures.py draw."""
    assert [path.name for path, text in drawing.drawings(drawing.read_data()).items() if path.read_text() != text] == []


def test_every_chart_is_well_formed_and_has_its_bars() -> None:
    for path in drawing.IMAGES.glob("performance-*.svg"):
        bars = [
            rect for rect in ET.fromstring(path.read_text()).iter("{http://www.w3.org/2000/svg}rect") if rect.get("rx")
        ]
        assert len(bars) > 10


def test_a_peer_that_is_ahead_is_named_and_one_that_is_level_beside_it() -> None:
    told = drawing.behind({"3.14": document(asyncio=100.0, uvloop=80.0, loopcore=100.0)})
    assert told == "- Python 3.14, a peer ahead: `reader` 0.80 x uvloop."
    told = drawing.behind({"3.14": document(asyncio=100.0, uvloop=98.0, loopcore=100.0)})
    assert told.splitlines() == [
        "- Python 3.14, a peer ahead: on no row.",
        "- Python 3.14, level, a peer ahead by less than 3%: `reader` 0.98 x uvloop.",
    ]


def test_rows_are_counted_as_ahead_level_and_behind() -> None:
    found = document(asyncio=200.0, uvloop=100.0, loopcore=200.0)
    for row, cost in (("ahead", 50.0), ("level", 99.0)):
        found["figures"] += document(row=row, uvloop=100.0, loopcore=cost)["figures"]
    assert drawing.verdicts({"3.14": found}).splitlines()[-1] == "| 3.14 | 3 | 1 | 1 | 1 | `reader` 0.50 x uvloop |"


def test_the_better_of_the_backends_counts_and_the_c_server_is_no_peer() -> None:
    found = document(asyncio=100.0, c=10.0, **{"loopcore": 200.0, "loopcore:uring": 50.0})
    assert drawing.behind({"3.14": found}) == "- Python 3.14, a peer ahead: on no row."
    assert drawing.full_table(found).splitlines()[-1].endswith("| 2.00 x asyncio |")


@pytest.mark.parametrize(("rounds", "load", "said"), [(5, 0.5, False), (4, 0.5, True), (5, 2.5, True)])
def test_few_rounds_and_a_busy_machine_are_said(rounds: int, load: float, said: bool) -> None:
    text = drawing.conditions({"3.13": document(rounds, load, asyncio=1.0)})
    assert (drawing.BUSY in text) is said


def test_rows_with_more_rounds_than_others_are_told() -> None:
    some, more = document(5, asyncio=1.0), document(9, row="udp-1k-10", asyncio=1.0)
    text = drawing.conditions({"3.13": {**some, "figures": some["figures"] + more["figures"]}})
    assert "; rounds: 5 to 9; " in text


def test_rows_of_another_day_a_busier_hour_and_another_commit_are_told() -> None:
    found = document(load=0.1, asyncio=1.0)
    found["runs"] += [{"date": "2026-01-04T00:00:00", "load_average": [0.7], "commit": "beef", "rows": []}]
    text = drawing.conditions({"3.13": found})
    assert text.startswith("**Python 3.13**, 2026-01-02 to 2026-01-04: CPU, ")
    assert "; tree at commit c0ffee, beef; rounds: 5; load at the start: 0.7. " in text


def test_peers_that_were_not_installed_are_named() -> None:
    text = drawing.conditions({"3.13": document(uvloop=1.0, rloop=1.0, zloop=1.0, loopcore=1.0)})
    assert text.endswith("\n- not installed: blazio, zuvloop")


def test_how_far_the_same_program_is_apart_is_told() -> None:
    first, second = document(reader=1.0, c=110.0), document(reader=1.0, c=100.0)
    assert drawing.conditions({"3.13": first, "3.11": second}).endswith("are 1.10 to 1.10 times those in the second.")
    assert "same program" not in drawing.conditions({"3.13": first})
    assert "same program" not in drawing.conditions({"3.13": first, "3.11": document(asyncio=1.0)})


def test_the_claim_of_the_readme_says_less_or_more_as_measured() -> None:
    found = document(row="uvicorn-100", asyncio=210.0, uvloop=80.0, loopcore=100.0)
    said = "about 50 % less than on asyncio and about 25 % more than on uvloop"
    assert f"{said} (Python 3.14, 5 rounds;" in drawing.claim(found, "3.14")


def test_the_claim_of_the_readme_says_that_there_was_one_round() -> None:
    found = document(1, row="uvicorn-100", asyncio=200.0, uvloop=80.0, loopcore=100.0)
    assert "(Python 3.14, one round;" in drawing.claim(found, "3.14")


def test_the_readme_counts_the_rows_on_which_a_peer_is_ahead_by_more_than_noise() -> None:
    found = document(uvloop=100.0, **{"loopcore": 200.0, "loopcore:uring": 98.0})
    for row, cost in (("level", 102.0), ("behind", 105.0)):
        found["figures"] += document(row=row, uvloop=100.0, loopcore=cost)["figures"]
    one = document(uvloop=100.0, loopcore=50.0)
    said = drawing.losses({"3.14": found, "3.13": one})
    counts = "On 3.14 another loop is ahead by more than 3 % in 1 of 3 rows, on 3.13 in 0 of 1, even with "
    assert said.startswith(counts)


def test_what_stands_between_marks_is_replaced_and_the_rest_is_kept() -> None:
    text = "before\n<!-- drawn: short -->\nold\n<!-- end -->\nafter\n"
    once = drawing.put(text, {"short": "new"})
    assert once == "before\n<!-- drawn: short -->\nnew\n<!-- end -->\nafter\n"
    assert drawing.put(once, {"short": "new"}) == once


def test_what_is_stored_is_read_back_and_short(tmp_path: Path) -> None:
    spec = LoopSpec("asyncio", "asyncio", None, "python")
    series = figures.Series("3.13", [spec], {"asyncio": {"version": "3.13"}})
    series.cells = [Cell("sleep0", "asyncio", number, {"cpu_ns": 1234.5678 + number}) for number in range(3)]
    figures.store(series, choose_rows("sleep0"), Settings(), facts("c0ffee"), tmp_path)
    assert json.loads((tmp_path / "3.13.json").read_text())["figures"][0]["medians"] == {"cpu_ns": 1236.0}
    assert list(drawing.read_data(tmp_path)) == ["3.13"]


def test_rows_that_are_not_measured_again_stay_and_those_there_are_no_more_go(tmp_path: Path) -> None:
    spec = LoopSpec("asyncio", "asyncio", None, "python")
    for time, (rows, cost) in enumerate((("sleep0,call_soon", 1.0), ("sleep0,pingpong", 2.0))):
        series = figures.Series("3.13", [spec], {"asyncio": {"version": "3.13"}})
        chosen = choose_rows(rows)
        series.cells = [Cell(row.name, "asyncio", time, {"cpu_ns": cost}) for row in chosen]
        figures.store(series, chosen, Settings(), facts(f"c0ffee{time}"), tmp_path)
        path = tmp_path / "3.13.json"
        path.write_text(path.read_text().replace("pingpong", "gone"))
    found = json.loads(path.read_text())
    assert [(each["row"], each["medians"]["cpu_ns"]) for each in found["figures"]] == [
        ("call_soon", 1.0),
        ("sleep0", 2.0),
        ("gone", 2.0),
    ]
    assert [(run["commit"], run["rows"]) for run in found["runs"]] == [
        ("c0ffee1", ["sleep0", "gone"]),
        ("c0ffee0", ["call_soon"]),
    ]
    assert found["machine"] == {"cpu": "CPU"}
    figures.keep_others(made := {"figures": [], "operations": {}, "runs": []}, found)
    assert [each["row"] for each in made["figures"]] == ["call_soon", "sleep0"]


def test_the_newest_python_comes_first(tmp_path: Path) -> None:
    for version in ("3.9", "3.13", "3.11"):
        (tmp_path / f"{version}.json").write_text("{}")
    (tmp_path / "syscalls.json").write_text("{}")
    assert list(drawing.read_data(tmp_path)) == ["3.13", "3.11", "3.9"]


def test_a_later_time_begins_with_another_loop() -> None:
    specs = [LoopSpec(name, name, None, "") for name in ("asyncio", "uvloop")]
    order = interleave(choose_rows("sleep0"), specs, 1, 1, exists=can_run)
    assert [(number, [spec.label for spec in chosen]) for number, _, chosen in order] == [(1, ["uvloop", "asyncio"])]


def test_every_transport_makes_no_more_calls_than_the_page_says_it_needs() -> None:
    """Over one connection and epoll; how often the server of datagrams waits differs from run to run."""
    least = {"udp-1k": 3.1}
    found = json.loads((drawing.DATA / "syscalls.json").read_text(encoding="utf-8"))
    for each in found["calls"]:
        if each["loop"] == "loopcore":
            assert sum(each["calls"].values()) <= least.get(each["row"], 3.02), each
    assert re.fullmatch(r"3\.\d+", found["python"])


def test_a_row_that_there_is_not_is_refused_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert figures.main(["measure", "--rows", "nothing", "--python", "3.13=python"]) == 2
    assert "no workload 'nothing'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "complaint"),
    [
        ("python", "write VERSION=PYTHON"),
        ("/usr/bin/python=3.13", "write VERSION=PYTHON"),
        ("3.13=/no/such/python", "/no/such/python has no loopcore"),
    ],
)
def test_a_wrong_python_is_refused_and_nothing_is_written(
    argument: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["measure", "--rows", "reader", "--minutes", "0", "--out", str(tmp_path), "--python", argument]
    assert figures.main(words) == 2
    assert complaint in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("row", "cpu", "refused"), [("sleep0", "CPU", False), ("sleep0", "other", True), ("*", "other", False)]
)
def test_rows_of_two_machines_do_not_share_a_file(row: str, cpu: str, refused: bool, tmp_path: Path) -> None:
    spec = LoopSpec("asyncio", "asyncio", None, "python")
    series = figures.Series("3.13", [spec], {"asyncio": {"version": "3.13"}})
    series.cells = [Cell(name, "asyncio", 0, {"cpu_ns": 1.0}) for name in ("sleep0", "call_soon")]
    figures.store(series, choose_rows("sleep0,call_soon"), Settings(), facts("c0ffee"), tmp_path)
    chance = pytest.raises(MeasurementError, match="another machine") if refused else contextlib.nullcontext()
    with chance:
        figures.refuse_other_ground(series, choose_rows(row), {**facts("beef"), "cpu": cpu}, tmp_path)


def test_a_python_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    facts_of_loop = {"version": "1", "build": "compiled", "python": "3.13.0"}
    monkeypatch.setattr(figures, "describe", lambda spec: facts_of_loop)
    with pytest.raises(MeasurementError, match=r"is Python 3\.13\.0, and not 3\.1$"):
        figures.find_loops("3.1", "python", "")


def test_a_file_of_before_runs_were_noted_is_replaced_when_all_its_rows_are_measured(tmp_path: Path) -> None:
    figures.keep_others(made := {"figures": [], "operations": {}, "runs": []}, {"figures": [], "operations": {}})
    assert made["runs"] == []
