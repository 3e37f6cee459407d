"""The table of methods and parameters is complete, proved by tests, and the page is what it gives."""

import asyncio
import contextlib
import socket

import pytest

from tests.compatibility import marks, table
from tests.compatibility.marks import Evidence, collected
from tests.compatibility.surface import running_surface, surface


@pytest.fixture(scope="module")
def evidence() -> list[Evidence]:
    return collected()


def test_every_entry_has_a_test_that_runs_on_asyncio_too(evidence: list[Evidence]) -> None:
    proved = {entry for each in evidence if each.on_asyncio and not each.why for entry in each.entries}
    assert [key for key in surface() if key not in proved] == []


def test_no_test_names_what_is_no_entry(evidence: list[Evidence]) -> None:
    known = {*surface()}
    assert [each for each in evidence if not known.issuperset(each.entries)] == []


def test_what_is_said_to_be_the_same_runs_on_asyncio(evidence: list[Evidence]) -> None:
    assert [each.test for each in evidence if not each.why and not each.on_asyncio] == []


def test_asyncio_has_nothing_that_is_not_in_the_table() -> None:
    assert [key for key in running_surface() if key not in surface()] == []
    assert {method for method, _ in running_surface()} - table.listed() == set()


def test_the_page_is_up_to_date(evidence: list[Evidence]) -> None:
    page = (marks.ROOT / table.PAGE).read_text(encoding="utf-8")
    assert page == table.page(evidence), "run python -m tests.compatibility.table"


def test_the_tests_of_the_tools_exist() -> None:
    for *_, test in table.TOOLS:
        path, name = test.split("::")
        assert f"def {name}(" in (marks.ROOT / path).read_text(encoding="utf-8")


def test_the_page_says_what_it_is_given() -> None:
    said = table.page([Evidence("tests/a.py::test_b", (("EventLoop.stop", ""),), "", True)])
    assert "| `stop()` |  | same | [b](../../tests/a.py) |" in said
    said = table.page([Evidence("tests/a.py::test_b", (("EventLoop.call_at", "args"),), "of a reason", False)])
    assert "| `EventLoop.call_at(args)` | of a reason | [b](../../tests/a.py) |" in said
    assert "| &emsp;`args` |  | differs | [b](../../tests/a.py) |" in said


def test_a_mark_must_be_readable() -> None:
    assert [*marks.entries_named("Server.close")] == [("Server.close", "")]
    assert [*marks.entries_named("Task.cancel(msg, 'x')")] == [
        ("Task.cancel", ""),
        ("Task.cancel", "msg"),
        ("Task.cancel", "'x'"),
    ]
    with pytest.raises(ValueError, match="is not of the form"):
        [*marks.entries_named("close")]


@pytest.mark.parametrize(
    ("entry", "kept"),
    [("EventLoop.add_reader", True), ("EventLoop.add_reader(args)", False), ("EventLoop.add_writer", False)],
)
def test_a_mark_holds_the_test_to_it(
    request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop, entry: str, kept: bool
) -> None:
    near, far = socket.socketpair()
    request.node.add_marker(pytest.mark.covers(entry))
    with near, far, contextlib.ExitStack() as stack:
        if not kept:
            stack.enter_context(pytest.raises(pytest.fail.Exception, match="name what it does not call"))
        with marks.kept_promises(request.node):
            loop.add_reader(near, print)
        loop.remove_reader(near)
