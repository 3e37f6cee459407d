"""The reader of traces finds what is wrong with one."""

import gzip
import json
from pathlib import Path

import pytest

from loopcore import UsageError
from loopcore_plugins.trace.__main__ import main
from loopcore_plugins.trace.reading import find_problems, load, slowest_tasks
from tests.plugins.trace.programs import Event, a_slice, an_arrow


def test_nested_slices_and_bound_arrows_are_sound() -> None:
    events = [a_slice("outer", 0, 10), a_slice("inner", 2, 8), *an_arrow(1, 3, 9)]
    assert find_problems(sorted(events, key=lambda event: event["ts"])) == []


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([a_slice("a", 0, 5), a_slice("b", 3, 5)], "'b' at 3 on track (1, 1) outlives 'a'"),
        ([a_slice("a", 5, 1), a_slice("b", 3, 1)], "time runs backwards"),
        ([a_slice("a", 0, 5), an_arrow(1, 1, 2)[0]], "arrow 1 has only its beginning"),
        ([a_slice("a", 0, 5), an_arrow(1, 1, 2)[1]], "arrow 1 has only its end"),
        ([a_slice("a", 0, 5), *an_arrow(1, 1, 7)], "arrow 1 is bound to nothing at 7"),
        ([a_slice("a", 0, 5), *an_arrow(1, 1, 2, tracks=(1, 2))], "arrow 1 is bound to nothing at 2 on track (1, 2)"),
        ([a_slice("a", 0, 5), a_slice("b", 0, 5, track=2), *an_arrow(1, 3, 2, tracks=(1, 2))], "ends before it begins"),
        ([{"ph": "X", "name": "a"}], "'dur' is missing"),
        ([a_slice("a", 0, -1)], "'dur' is negative"),
        ([{"ph": "?"}], "unknown kind '?'"),
        ([{"ph": [[]]}], "unknown kind [[]]"),
        ([a_slice("a", 0, 5) | {"ts": "now"}], "'ts' is of the wrong type"),
        ([a_slice("a", 0, 5) | {"tid": []}], "'tid' is of the wrong type"),
        ([{"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": None}], "'args' is of the wrong type"),
    ],
)
def test_what_is_wrong_is_said(events: list[Event], problem: str) -> None:
    assert any(problem in found for found in find_problems(events))
    assert len(slowest_tasks(events)) <= len(events)  # it may find nothing, and must not fail


def test_tasks_are_sorted_by_their_total_time() -> None:
    names = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": track, "args": {"name": name}}
        for track, name in ((2, "quick"), (3, "slow"))
    ]
    steps = [a_slice("q", 0, 5, 2, "task"), a_slice("s", 0, 3, 3, "task"), a_slice("s", 4, 4, 3, "task")]
    on_loop = [a_slice("tick", 0, 20, 1, "tick"), a_slice("q", 0, 5, 1, "task")]
    found = slowest_tasks([*names, *steps, *on_loop])
    assert [(task.track, task.steps, task.total, task.longest) for task in found] == [
        ("slow", 2, 7, 4),
        ("quick", 1, 5, 5),
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[1]",
        b"\x1f\x8bnothing",
        gzip.compress(b"[]", mtime=0)[:10] + b"damaged" * 10,
        b"\xff",
        b"[" * 100_000 + b"]" * 100_000,
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is not a trace"):
        load(path)


def test_the_command_says_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps([a_slice("a", 0, 5), a_slice("b", 3, 5)]))
    assert main([str(path)]) == 1
    assert "2 events, 1 problems" in capsys.readouterr().out
    assert main([str(tmp_path / "missing")]) == 2
    assert "missing" in capsys.readouterr().err


def test_names_in_a_trace_are_no_commands_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Issue 32."""
    name = {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "na\x1b[2J\nme"}}
    path = tmp_path / "x.json"
    path.write_text(json.dumps([name, a_slice("step", 0, 5, 2, "task")]))
    assert main([str(path)]) == 0
    out = capsys.readouterr().out
    assert r"na\x1b[2J\nme" in out
    assert out.replace("\n", "").isprintable()
