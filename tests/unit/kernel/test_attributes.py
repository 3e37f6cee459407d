"""Attributes that a program puts on futures and tasks of its own accord; asyncio's own loop is the oracle.

Libraries keep their notes there (proxy.py numbers its tasks), and mocks replace methods.
"""

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from loopcore.kernel.future import Future
from loopcore.kernel.task import Task
from loopcore.kernel.task_makers import ClassTasks

Loop = asyncio.AbstractEventLoop
Make = Callable[[Loop], Any]


async def nothing() -> None:
    """The coroutine of a task that is only looked at."""


def make_future(loop: Loop) -> Any:
    return loop.create_future()


def make_task(loop: Loop) -> Any:
    return loop.create_task(nothing())


class Marker:
    """Something that a weak reference can point to."""


@pytest.fixture(params=[make_future, make_task], ids=["future", "task"])
def owner(loop: Loop, request: pytest.FixtureRequest) -> Any:
    made = request.param(loop)
    yield made
    made.cancel()
    loop.run_until_complete(asyncio.wait([made]))


def test_an_attribute_is_kept_and_taken_back(owner: Any) -> None:
    owner.work_id = 7
    assert owner.work_id == 7
    owner.work_id = 8
    assert owner.work_id == 8
    del owner.work_id
    with pytest.raises(AttributeError, match="work_id"):
        owner.work_id
    with pytest.raises(AttributeError, match="work_id"):
        del owner.work_id


@pytest.fixture
def own_classes(loop: Any) -> None:
    """Have the loop make futures and tasks of loopcore's classes, in the pure build, too (docs/adr/0002)."""
    loop._tasks = ClassTasks(Future, Task)


@pytest.mark.loopcore_only  # asyncio's C classes keep theirs out of sight
def test_the_attributes_are_in_a_dict_of_the_usual_kind(own_classes: None, owner: Any) -> None:
    assert vars(owner) == {}
    owner.work_id = 7
    assert vars(owner) == {"work_id": 7}
    assert "work_id" in dir(owner)
    vars(owner)["_state"] = "mine"
    assert owner._state == "PENDING"
    owner.__dict__ = {"other": 1}
    assert owner.other == 1
    assert not hasattr(owner, "work_id")
    with pytest.raises(TypeError):
        owner.__dict__ = 3


def test_an_attribute_hides_a_method_but_no_property(owner: Any) -> None:
    owner.done = lambda: "asked"
    assert owner.done() == "asked"
    del owner.done
    assert owner.done() is False
    with pytest.raises(AttributeError):
        owner._state = "mine"


@pytest.mark.parametrize("make", [make_future, make_task], ids=["future", "task"])
def test_what_is_kept_lives_as_long_as_its_owner(loop: Loop, make: Make) -> None:
    async def main() -> "weakref.ref[Marker]":
        owner = make(loop)
        owner.marker = Marker()
        reference = weakref.ref(owner.marker)
        assert reference() is not None
        owner.cancel()
        await asyncio.wait([owner])
        return reference

    reference = loop.run_until_complete(main())
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("make", [make_future, make_task], ids=["future", "task"])
def test_a_cycle_through_an_attribute_is_collected(loop: Loop, make: Make) -> None:
    async def main() -> "weakref.ref[Any]":
        owner = make(loop)
        owner.itself = owner
        reference = weakref.ref(owner)
        owner.cancel()
        await asyncio.wait([owner])
        return reference

    reference = loop.run_until_complete(main())
    gc.collect()
    assert reference() is None


@pytest.mark.reports_errors
@pytest.mark.loopcore_only
@pytest.mark.usefixtures("own_classes")
def test_the_report_of_a_lost_exception_still_finds_the_attributes(loop: Loop) -> None:
    seen: list[Any] = []
    loop.set_exception_handler(lambda loop, context: seen.append(vars(context["future"]).copy()))
    future: Any = loop.create_future()
    future.set_exception(ValueError("nobody asks"))
    future.work_id = 7
    del future
    gc.collect()
    assert seen == [{"work_id": 7}]


def with_dict(base: Any) -> Any:
    class Sub(base):  # type: ignore[misc]
        kind = "class attribute"

    return Sub


def with_slots(base: Any) -> Any:
    class Sub(base):  # type: ignore[misc]
        __slots__ = ("slot",)
        kind = "class attribute"

    return Sub


@pytest.mark.parametrize("derive", [with_dict, with_slots])
def test_subclasses_keep_attributes_the_same_way(loop: Loop, derive: Callable[[Any], Any]) -> None:
    async def main() -> "weakref.ref[Any]":
        owner = derive(type(asyncio.current_task()))(nothing(), loop=loop)
        owner.work_id = 7
        owner.slot = owner
        assert owner.work_id == 7
        assert owner.kind == "class attribute"
        owner.kind = "own"
        assert owner.kind == "own"
        await owner
        return weakref.ref(owner)

    reference = loop.run_until_complete(main())
    gc.collect()
    assert reference() is None


def test_handles_take_none(loop: Loop) -> None:
    for handle in (loop.call_soon(print), loop.call_later(60, print)):
        handle.cancel()
        with pytest.raises(AttributeError):
            handle.work_id = 7  # type: ignore[attr-defined]
