"""Groups of both kinds. The tests of a kind run where that kind does; every group is stopped after its test."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from loopcore.group import LoopGroup

KINDS = ["threads", "processes"] if sys.platform != "win32" else ["threads"]


@pytest.fixture(autouse=True)
def _no_tracker() -> Iterator[None]:
    """End the resource tracker of multiprocessing, a child that would outlive the test: others count children."""
    yield
    if sys.platform != "win32":
        from multiprocessing import resource_tracker

        resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make_group(kind: str) -> Iterator[Callable[..., LoopGroup]]:
    made: list[LoopGroup] = []

    def make(main: Any, **options: Any) -> LoopGroup:
        group = LoopGroup(main, **{"loops": 2, "kind": kind, **options})
        made.append(group)
        return group

    yield make
    for group in made:
        group.stop()
