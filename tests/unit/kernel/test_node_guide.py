"""The programs of Node's guide, with Node itself as the oracle where it is installed, and with its recorded answers."""

from typing import Any

import pytest

from tests.docs import node_page
from tests.unit.kernel.node_guide import NODE, PROGRAMS, Guided, run_in_node, run_on

by_title = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.title)


@pytest.mark.loopcore_only
@by_title
def test_the_order_is_the_recorded_one(loop: Any, program: Guided) -> None:
    assert run_on(loop, program) == node_page.recorded()[program.title]


@pytest.mark.skipif(NODE is None, reason="the oracle, node, is not on PATH")
@by_title
def test_the_recorded_order_is_nodes(program: Guided) -> None:
    assert node_page.recorded()[program.title] == run_in_node(program)


def test_the_page_shows_every_program() -> None:
    assert list(node_page.recorded()) == [program.title for program in PROGRAMS]
