"""The tree of `loopcore ps`, and how durations and names are written."""

from typing import Any

from loopcore_plugins.inspect.listing import FINE, age_of, tree


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


def test_who_awaits_may_have_ended() -> None:
    assert shown(task(2, 99)) == ["Task-2"]


def test_numbers_in_names_sort_by_value() -> None:
    assert shown(task(10), task(9), task(1, name="a")) == ["a", "Task-9", "Task-10"]


def test_ages() -> None:
    assert [age_of(seconds) for seconds in (None, 1.25, 754, 7384)] == ["-", "1.2s", "12:34", "2:03:04"]
