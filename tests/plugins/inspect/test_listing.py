"""The tree of `loopcore ps`, and how durations and names are written."""

import os
from pathlib import Path
from typing import Any

import pytest

from loopcore_plugins._tasktree import Place
from loopcore_plugins.inspect.listing import (
    FINE,
    PLAIN,
    age_of,
    align,
    fit,
    ps_lines,
    shorten,
    stack_lines,
    stacks_lines,
    tree,
)
from loopcore_plugins.watchdog.stacks import source_line


def task(number: int, *awaited_by: int, name: str = "") -> dict[str, Any]:
    return {"id": number, "name": name or f"Task-{number}", "awaited_by": awaited_by}


def shown(*tasks: dict[str, Any]) -> list[str]:
    return [line.prefix + line.task["name"] + "!" * line.repeated for line in tree(tasks, FINE)]


def test_below_a_task_stands_what_it_awaits() -> None:
    assert shown(task(3, 2), task(2, 1), task(4, 1), task(1)) == ["Task-1", "├─ Task-2", "│  └─ Task-3", "└─ Task-4"]


def test_a_task_that_two_await_stands_in_full_once() -> None:
    assert shown(task(1), task(2), task(3, 1, 2), task(4, 3)) == [
        "Task-1",
        "└─ Task-3",
        "   └─ Task-4",
        "Task-2",
        "└─ Task-3!",
    ]


def test_a_circle_has_an_end() -> None:
    assert shown(task(1, 2), task(2, 1), task(3)) == ["Task-3", "Task-1", "└─ Task-2", "   └─ Task-1!"]
    assert shown(task(1, 1)) == ["Task-1", "└─ Task-1!"]


def test_a_chain_may_be_longer_than_the_stack() -> None:
    assert len(shown(task(0), *(task(number, number - 1) for number in range(1, 3000)))) == 3000


def test_a_deep_tree_does_not_push_names_off() -> None:
    """Issue 32."""
    lines = list(tree([task(0), *(task(number, number - 1) for number in range(1, 3000))], FINE))
    assert max(len(line.prefix) for line in lines) <= 33
    assert [line.prefix for line in lines[:3]] == ["", "└─ ", "   └─ "]
    assert lines[-1].prefix.startswith("…")
    assert lines[-1].prefix.endswith("└─ ")


def test_names_are_shortened_and_printable() -> None:
    assert shorten("name") == "name"
    assert shorten("\x1b[2J\n") == r"\x1b[2J\n"
    assert shorten("x" * 10**6, 5) == "xxxx…"
    assert shorten("\0" * 100, 9) == r"\x00\x00…"


def test_no_field_of_an_answer_controls_the_terminal() -> None:
    evil = "\x1b[2J"
    greeting = dict.fromkeys(("pid", "loop", "program", "python", "backend"), evil)
    tasks = [{**task(1, name=evil), "state": evil, "age": None, "coroutine": evil, "waits_for": evil, "stack": []}]
    thread = {"name": evil, "is_loop": True, "stack": [(evil, 1, evil)]}
    answer = {"running": True, "waiting": True, "left_out": evil, "tasks": tasks, "threads": [thread]}
    for lines in (ps_lines(greeting, answer, FINE), stacks_lines(greeting, answer)):
        assert [line for line in lines if not line.isprintable()] == []


def test_columns_are_fitted_to_a_terminal_the_widest_first() -> None:
    assert fit([10, 50, 30], 100) == [10, 50, 30]
    assert fit([10, 50, 30], 60) == [10, 25, 25]
    assert fit([10, 50, 30], 5) == [8, 8, 8]
    rows = [["TASK", "STATE"], ["n" * 100, "waiting"]]
    assert align(rows, 30, PLAIN.more) == ["TASK                   STATE", "n" * 20 + "~  waiting"]
    assert align(rows, None, FINE.more) == ["TASK" + " " * 98 + "STATE", "n" * 100 + "  waiting"]


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="descriptors have no path here")
def test_a_stack_reads_no_file_but_source() -> None:
    """Issue 32: a program may be read from /dev/stdin, which is another one where the command runs."""
    ours, theirs = os.pipe()
    try:
        os.write(theirs, b"secret\n")
        os.close(theirs)
        name = f"/dev/fd/{ours}"
        assert source_line(Place(name, 1, "main")) == ""
        assert list(stack_lines([(name, 1, "ma\x1bin")])) == [rf'    File "{name}", line 1, in ma\x1bin']
        assert os.read(ours, 100) == b"secret\n"
    finally:
        os.close(ours)


def source_of(file: Path, line: int = 1) -> list[str]:
    return list(stack_lines([(str(file), line, "main")]))[1:]


def test_a_stack_has_the_lines_of_source(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_bytes(b"# coding: latin-1 \x0c\r\n    name = '\xe9\x1b'\r\n")
    assert source_of(file, 2) == [r"      name = 'é\x1b'"]
    assert source_of(file, 3) == source_of(file, 0) == source_of(tmp_path / "absent") == []


@pytest.mark.parametrize("content", [b"# coding: none\n", b"# coding: hex\n", b"\xff\n"])
def test_a_file_that_is_not_source_has_no_lines(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "app.py").write_bytes(content)
    assert source_of(tmp_path / "app.py") == []


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "app.py", "wb") as file:
        file.write(b"pass\n")
        file.truncate((4 << 20) + 1)
    assert source_of(tmp_path / "app.py") == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are POSIX's")
def test_a_pipe_that_replaces_the_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "app.py")
    monkeypatch.setattr(os.path, "isfile", lambda path: True)
    assert source_of(tmp_path / "app.py") == []


def test_who_awaits_may_have_ended() -> None:
    assert shown(task(2, 99)) == ["Task-2"]


def test_numbers_in_names_sort_by_value() -> None:
    assert shown(task(10), task(9), task(1, name="a")) == ["a", "Task-9", "Task-10"]


def test_ages() -> None:
    assert [age_of(seconds) for seconds in (None, 1.25, 754, 7384)] == ["-", "1.2s", "12:34", "2:03:04"]
