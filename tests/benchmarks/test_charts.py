"""Charts and tables from figures: right lengths, everything named, well-formed."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from loopcore_bench.charts import Bar, groups_of, text_chart
from tests.benchmarks.harness.charts import markdown_table, svg

SVG = "{http://www.w3.org/2000/svg}"


def document(**loops: float | None) -> dict[str, Any]:
    figures = [
        {
            "row": "sleep0",
            "loop": loop,
            "primary": "cpu_ns",
            "medians": {} if value is None else {"cpu_ns": value},
            "note": None if value is not None else "skipped: <not> implemented",
        }
        for loop, value in loops.items()
    ]
    known = {loop: {"version": "1", "python": "3.11"} for loop in loops}
    return {"figures": figures, "operations": {"sleep0": "one sleep & nothing else"}, "loops": known}


def test_a_ratio_is_to_asyncio_and_more_is_better() -> None:
    (group,) = groups_of(document(asyncio=2000.0, uvloop=1000.0, loopcore=500.0))
    assert [(bar.label, bar.ratio, bar.ours) for bar in group.bars] == [
        ("asyncio", 1.0, False),
        ("uvloop", 2.0, False),
        ("loopcore", 4.0, True),
    ]


def test_without_asyncio_ratios_are_to_the_first_loop() -> None:
    (group,) = groups_of(document(uvloop=1000.0, loopcore=500.0))
    assert [bar.ratio for bar in group.bars] == [1.0, 2.0]


def test_a_loop_without_a_figure_is_named_with_the_reason() -> None:
    groups = groups_of(document(asyncio=2000.0, rloop=None))
    assert groups[0].missing == ("rloop: skipped: <not> implemented",)
    assert "rloop: skipped: <not> implemented" in text_chart(groups)


@pytest.mark.parametrize(("ascii_only", "block"), [(True, "#"), (False, "█")])
def test_the_longest_bar_fills_the_terminal_and_the_others_are_in_proportion(ascii_only: bool, block: str) -> None:
    text = text_chart(groups_of(document(asyncio=2000.0, loopcore=1000.0)), 80, ascii_only)
    lengths = [line.count(block) for line in text.splitlines()[1:]]
    assert lengths[1] == 2 * lengths[0] > 20
    assert max(len(line) for line in text.splitlines()) <= 80


def test_a_drawing_is_well_formed_and_its_bars_are_in_proportion() -> None:
    root = ET.fromstring(svg(groups_of(document(asyncio=2000.0, loopcore=500.0)), "Sleep & wake"))
    widths = [float(rect.get("width", "0")) for rect in root.iter(f"{SVG}rect") if rect.get("rx")]
    assert widths[1] == pytest.approx(4 * widths[0], abs=0.5)
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts[:3] == ["Sleep & wake", "sleep0", "one sleep & nothing else"]
    assert root.get("aria-label") == "Sleep & wake"
    style = root.find(f"{SVG}style")
    assert style is not None
    assert "prefers-color-scheme: dark" in (style.text or "")


def test_all_groups_of_a_drawing_have_one_scale() -> None:
    slow, fast = (groups_of(document(asyncio=2000.0, loopcore=cost))[0] for cost in (1000.0, 500.0))
    root = ET.fromstring(svg([slow, fast], "two workloads"))
    widths = [float(rect.get("width", "0")) for rect in root.iter(f"{SVG}rect") if rect.get("rx")]
    assert widths[0] == widths[2]  # asyncio's
    assert widths[3] == pytest.approx(2 * widths[1], abs=0.5)


def test_all_of_a_drawing_is_inside_of_it() -> None:
    root = ET.fromstring(svg(groups_of(document(asyncio=2000.0, loopcore=5.0)), "far ahead"))
    _, _, width, height = (float(word) for word in root.get("viewBox", "").split())
    for text in root.iter(f"{SVG}text"):
        assert float(text.get("y", "0")) < height
        assert float(text.get("x", "0")) + 7 * len(text.text or "") < width
    # The longest bar leaves room for its figures.


def test_a_table_has_a_column_for_each_loop_and_marks_the_best() -> None:
    lines = markdown_table(groups_of(document(asyncio=20_000.0, loopcore=5_000.0))).splitlines()
    assert lines[0] == "| work | asyncio | loopcore |"
    assert lines[2] == "| `sleep0` | 20.0 us | **5000 ns (4.00 x)** |"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (9.87, "ns", "9.9 ns"),
        (9999.4, "ns", "9999 ns"),
        (9999.6, "ns", "10.0 us"),
        (12_345.0, "ns", "12.3 us"),
        (900.0, "B", "900 B"),
    ],
)
def test_a_cost_is_readable(value: float, unit: str, text: str) -> None:
    assert Bar("x", value, unit, None, False).cost == text
    assert re.fullmatch(r"[\d.]+ \w+", text)


def test_connections_that_a_loop_left_open_stand_beside_its_cost() -> None:
    found = document(asyncio=2000.0)
    found["figures"][0]["medians"]["left_open"] = 1000.0
    assert [bar.cost for group in groups_of(found) for bar in group.bars] == ["2000 ns (1000 left open)"]
