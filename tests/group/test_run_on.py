"""Calls on a member's loop."""

import sys
from collections.abc import Callable, Iterator
from pickle import PicklingError

import pytest

from loopcore import UsageError
from loopcore.group import LoopGroup, MemberFailedError
from tests.group import mains
from tests.group.mains import PATIENCE

Make = Callable[..., LoopGroup]


@pytest.fixture
def group(make_group: Make) -> Iterator[LoopGroup]:
    with make_group(mains.only_waits) as group:
        yield group


def test_a_function_runs_on_the_loop_that_was_named(group: LoopGroup) -> None:
    assert [group.run_on(index, mains.index).result(PATIENCE) for index in (0, 1)] == [0, 1]
    assert group.run_on(group.members[1], mains.index).result(PATIENCE) == 1


def test_a_coroutine_function_is_awaited(group: LoopGroup) -> None:
    assert group.run_on(1, mains.index_later).result(PATIENCE) == 1


def test_an_exception_comes_back(group: LoopGroup) -> None:
    with pytest.raises(LookupError, match="nothing here"):
        group.run_on(0, mains.raises).result(PATIENCE)


def test_cancelling_the_future_cancels_the_call(group: LoopGroup) -> None:
    call = group.run_on(0, mains.never)
    assert call.cancel()
    assert group.run_on(0, mains.index).result(PATIENCE) == 0


def test_a_member_calls_another(group: LoopGroup) -> None:
    assert group.run_on(0, mains.asks, 1).result(PATIENCE) == 1


def test_the_end_of_a_member_fails_its_calls(group: LoopGroup) -> None:
    call = group.run_on(0, mains.never)
    group.stop()
    with pytest.raises(MemberFailedError):
        call.result(PATIENCE)
    with pytest.raises(UsageError, match="this one is ended"):
        group.run_on(0, mains.index)


@pytest.mark.skipif(sys.platform == "win32", reason="members are threads on Windows")
def test_a_call_is_answered_although_it_ends_the_process() -> None:
    with LoopGroup(mains.fails_when_told, loops=1, kind="processes") as group:
        group.run_on(0, mains.delay_answers).result(PATIENCE)
        group.run_on(0, mains.fail).result(PATIENCE)


def test_a_member_that_does_not_exist_is_refused(group: LoopGroup) -> None:
    with pytest.raises(UsageError, match="members 0 to 1"):
        group.run_on(2, mains.index)


def test_a_coroutine_is_taken_by_threads_and_refused_by_processes(group: LoopGroup) -> None:
    coroutine = mains.index_later()
    if group.kind == "threads":
        assert group.run_on(1, coroutine).result(PATIENCE) == 1
    else:
        with pytest.raises(UsageError, match="pass its function"):
            group.run_on(1, coroutine)
        coroutine.close()


def test_what_cannot_be_pickled_is_said(group: LoopGroup) -> None:
    call = group.run_on(0, mains.unpicklable)
    if group.kind == "threads":
        call.result(PATIENCE)
    else:
        with pytest.raises(TypeError, match="cannot pickle"):
            call.result(PATIENCE)
        with pytest.raises((AttributeError, PicklingError), match="lambda"):
            group.run_on(0, lambda: None).result(PATIENCE)
