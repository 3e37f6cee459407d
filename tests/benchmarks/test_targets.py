"""Targets: judged by the right loops, met at the right figure, and of rows that are measured."""

from __future__ import annotations

from typing import Any

import pytest

from tests.benchmarks import drawing, figures, targets
from tests.benchmarks.harness.cli import choose_rows


def medians(row: str = "row", **loops: float | dict[str, float]) -> dict[str, Any]:
    figures = [
        {
            "row": row,
            "loop": loop,
            "primary": "cpu_ns",
            "medians": values if isinstance(values, dict) else {"cpu_ns": values},
        }
        for loop, values in loops.items()
    ]
    return targets.medians_of({"figures": figures})


def verdict(target: targets.Target, found: dict[str, Any]) -> tuple[str, bool]:
    judged = target.judge(found)
    assert judged is not None
    return judged.text, judged.met


def test_every_target_is_of_a_row_that_is_measured() -> None:
    rows = {row.name for row in choose_rows(figures.ROWS)}
    assert {target.row for target in targets.TARGETS} <= rows


@pytest.mark.parametrize(("ours", "met"), [(50.0, True), (51.0, False)])
def test_ahead_is_of_the_best_peer_and_the_c_server_is_none(ours: float, met: bool) -> None:
    found = medians(asyncio=200.0, uvloop=100.0, c=10.0, loopcore=ours)
    assert verdict(targets.ahead("row", 2), found) == (f"{100 / ours:.2f} x uvloop", met)


def test_level_allows_for_what_one_build_differs_by() -> None:
    assert verdict(targets.ahead("row", 1), medians(uvloop=98.0, loopcore=100.0))[1]
    assert not verdict(targets.ahead("row", 1), medians(uvloop=96.0, loopcore=100.0))[1]


def test_a_peer_that_ends_sleeps_too_early_is_not_the_best() -> None:
    found = medians(uvloop={"cpu_ns": 1.0, "early": 3.0}, asyncio=100.0, loopcore=50.0)
    assert verdict(targets.ahead("row", 1), found)[0] == "2.00 x asyncio"


@pytest.mark.parametrize("ours", [0.0, 0.2])
def test_there_is_no_ratio_where_a_loop_takes_nothing(ours: float) -> None:
    assert targets.against(medians(asyncio=2.0, blazio=0.0, loopcore=ours)["row"]) == (0.0, "")


def test_a_target_against_named_peers_and_one_backend_leaves_the_others_out() -> None:
    found = medians(uvloop=100.0, blazio=10.0, **{"loopcore": 100.0, "loopcore:uring": 20.0})
    assert verdict(targets.over("row", ("uvloop",), 1, "loopcore"), found) == ("1.00 x uvloop", True)
    assert verdict(targets.over("row", ("blazio",), 1, "loopcore:uring"), found) == ("0.50 x blazio", False)


@pytest.mark.parametrize(
    ("ours", "told", "met"),
    [(107.0, "1.07", True), (108.0, "1.080", True), (108.3, "1.083", False), (109.0, "1.09", False)],
)
def test_the_c_server_is_the_measure_of_epoll_alone(ours: float, told: str, met: bool) -> None:
    found = medians(c=100.0, **{"loopcore": ours, "loopcore:uring": 10.0})
    assert verdict(targets.near_floor("row", 1.08), found) == (f"{told} x C", met)


def test_a_bound_is_for_a_metric() -> None:
    found = medians(loopcore=9.0)
    assert verdict(targets.at_most("row", "cpu_ns", 8, "ns"), found) == ("9 ns", False)


def test_flat_compares_two_rows() -> None:
    few, many = medians("few", loopcore=100.0), medians("many", loopcore=105.0)
    assert verdict(targets.flat("many", "few"), {**few, **many}) == ("0.95 x few", True)
    assert verdict(targets.flat("few", "many"), {**few, **medians("many", loopcore=50.0)}) == ("0.50 x many", False)


@pytest.mark.parametrize("target", targets.TARGETS, ids=lambda target: f"{target.row}: {target.text}")
def test_without_figures_there_is_no_verdict(target: targets.Target) -> None:
    assert target.judge({}) is None
    assert drawing.verdict_cell(target, {}) == ""


def test_rows_of_one_kind_that_all_meet_a_target_share_a_line_with_the_one_that_meets_it_by_least() -> None:
    names = [f"tcp-{number}" for number in range(4)]
    asked = [targets.near_floor(row, 1.08) for row in names]
    found: dict[str, Any] = {}
    for row, ours in zip(names, (101.0, 106.0, 109.0, 102.0), strict=True):
        found |= medians(row, loopcore=ours, c=100.0)
    assert list(drawing.target_lines(asked, [found])) == [
        ["`tcp-*` (3 of 4)", asked[0].text, "met: 1.06 x C at worst"],
        ["`tcp-2`", asked[0].text, "**not met: 1.09 x C**"],
    ]
    assert [line[0] for line in drawing.target_lines(asked[2:], [found])] == ["`tcp-2`", "`tcp-3`"]


@pytest.mark.parametrize(
    ("ours", "kernels", "met"),
    [(109.0, 100.0, True), (115.0, 100.0, False), (115.0, 110.0, False), (109.0, 108.0, True)],
)
def test_how_level_the_c_server_is_stands_beside_and_excuses_nothing(ours: float, kernels: float, met: bool) -> None:
    found = medians("idle-0", loopcore=100.0, c=100.0) | medians("idle-1k", loopcore=ours, c=kernels)
    text = f"{100 / ours:.2f} x idle-0, the C server {100 / kernels:.2f} x"
    assert verdict(targets.flat("idle-1k", "idle-0"), found) == (text, met)


def test_a_row_that_is_cheaper_than_the_kernels_work_is_disturbed() -> None:
    found = medians(c=110.0, loopcore=100.0)
    assert verdict(targets.near_floor("row", 1.08), found) == ("0.91 x C, disturbed", True)
