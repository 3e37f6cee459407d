"""`create_task`: whichever way its arguments come, and whoever takes its place."""

import asyncio
import contextvars
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from loopcore.kernel.scheduler import Scheduler
from tests.interpreter import INTERPRETED

Loop = asyncio.AbstractEventLoop
Call = Callable[..., Any]

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="current")


async def look() -> str:
    return variable.get()


def other_context() -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(variable.set, "other")
    return context


ANSWERED: dict[str, tuple[Call, str | None, str]] = {
    "alone": (lambda create, coro: create(coro), None, "current"),
    "name": (lambda create, coro: create(coro, name="mine"), "mine", "current"),
    "context": (lambda create, coro: create(coro, context=other_context()), None, "other"),
    "both": (lambda create, coro: create(coro, name="mine", context=other_context()), "mine", "other"),
    "both, turned round": (lambda create, coro: create(coro, context=other_context(), name="mine"), "mine", "other"),
    "None twice": (lambda create, coro: create(coro, name=None, context=None), None, "current"),
    "a name that is no string": (lambda create, coro: create(coro, name=5), "5", "current"),
    "a keyword made late": (lambda create, coro: create(coro, **{"".join(["na", "me"]): "mine"}), "mine", "current"),
    "by keyword": (lambda create, coro: create(coro=coro), None, "current"),
    "all by keyword": (lambda create, coro: create(name="mine", coro=coro, context=other_context()), "mine", "other"),
}

REFUSED: dict[str, Call] = {
    "nothing": lambda create, coro: create(),
    "two": lambda create, coro: create(coro, "mine"),
    "a name alone": lambda create, coro: create(name="mine"),
    "the coroutine twice": lambda create, coro: create(coro, coro=coro),
    "an unknown option": lambda create, coro: create(coro, colour="red"),
    "no coroutine": lambda create, coro: create(5),
    "a function": lambda create, coro: create(look, name="mine"),
}


def given_name(task: Any) -> str | None:
    name: str = task.get_name()
    return None if name.startswith("Task-") else name


@pytest.mark.parametrize("way", ANSWERED)
async def test_each_way_of_giving_the_arguments_is_understood(loop: Loop, way: str) -> None:
    call, name, seen = ANSWERED[way]
    task = call(loop.create_task, look())
    assert given_name(task) == name
    assert await task == seen


@pytest.mark.parametrize("way", REFUSED)
def test_what_is_wrong_is_a_type_error(loop: Loop, way: str) -> None:
    coro = look()
    with pytest.raises(TypeError):
        REFUSED[way](loop.create_task, coro)
    coro.close()
    assert not asyncio.all_tasks(loop)


def test_a_closed_loop_makes_no_task(loop: Loop) -> None:
    loop.close()
    coro = look()
    with pytest.raises(RuntimeError, match="closed"):
        loop.create_task(coro, name="mine")
    coro.close()


async def test_a_factory_hears_of_every_task(loop: Loop) -> None:
    heard: list[dict[str, Any]] = []

    def factory(loop: Loop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        heard.append({key: option for key, option in options.items() if key == "context" and option is not None})
        return asyncio.Task(coro, loop=loop, **options)

    context = other_context()
    loop.set_task_factory(factory)
    tasks = [loop.create_task(look()), loop.create_task(look(), context=context)]
    loop.set_task_factory(None)
    assert [await task for task in [*tasks, loop.create_task(look())]] == ["current", "other", "current"]
    assert heard == [{}, {"context": context}]


@pytest.mark.loopcore_only
def test_a_class_that_has_its_own_is_asked(loop: Loop) -> None:
    asked: list[str | None] = []

    class Asking(type(loop)):  # type: ignore[misc]
        def create_task(self, coro: Any, *, name: str | None = None, **options: Any) -> Any:
            asked.append(name)
            return super().create_task(coro, name=name, **options)

    own = Asking()
    try:
        assert own.run_until_complete(look()) == "current"
        assert own.run_until_complete(own.create_task(look(), name="mine", context=other_context())) == "other"
    finally:
        own.close()
    assert asked == [None, "mine"]


def test_the_signature_names_what_asyncio_takes() -> None:
    assert list(inspect.signature(Scheduler.create_task).parameters) == ["self", "coro", "name", "context", "kwargs"]
    assert "TypeError" in (Scheduler.create_task.__doc__ or "")


@pytest.mark.skipif(INTERPRETED, reason="a function in C asks for its own kind of loop")
def test_a_stranger_is_refused() -> None:
    coro = look()
    with pytest.raises(TypeError):
        Scheduler.create_task(object(), coro)  # type: ignore[arg-type]
    coro.close()
