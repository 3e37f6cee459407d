"""`loopcore._native.interpreter`: its functions in C, and the same in Python."""

import contextvars
import threading
import time
from collections.abc import Generator
from types import ModuleType
from typing import Any

import pytest

from loopcore._native import interpreter
from loopcore.testing import native_functions

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="current")


class Plain:
    """The same as native_functions.Step and Stop, by the Python module."""

    class Step:
        def __init__(self, coro: Any) -> None:
            self._coro = coro
            self._how = 2

        def step(self, thrown: Any, context: Any) -> tuple[int, Any]:
            outcome = interpreter.advance(self, thrown, context)
            return self._how, outcome

    class Stop:
        def __init__(self, value: Any) -> None:
            self.value = value

        def __await__(self) -> Any:
            return self

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> Any:
            interpreter.stop_with(self.value)
            raise StopIteration

    call_in_context = staticmethod(interpreter.call_in_context)
    is_method = staticmethod(interpreter.is_method)


each = pytest.mark.parametrize("functions", [native_functions, Plain], ids=["this build", "Python"])
Functions = ModuleType | type[Plain]

RETURNED, RAISED, YIELDED = interpreter.RETURNED, interpreter.RAISED, interpreter.YIELDED


class Yields:
    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield "yielded")


async def steps() -> str:
    variable.set("changed")
    try:
        await Yields()
    except KeyError:
        await Yields()
    return "returned"


def other_context() -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(variable.set, "other")
    return context


@each
def test_a_coroutine_is_advanced_to_its_result(functions: Functions) -> None:
    context = other_context()
    step = functions.Step(steps())
    assert step.step(None, context) == (YIELDED, "yielded")
    assert context[variable] == "changed"
    assert variable.get() == "current"
    assert step.step(KeyError(), context) == (YIELDED, "yielded")
    assert step.step(None, context) == (RETURNED, "returned")


@each
def test_what_a_coroutine_raises_is_returned_with_its_traceback(functions: Functions) -> None:
    step = functions.Step(steps())
    step.step(None, other_context())
    error = ValueError("thrown")
    how, raised = step.step(error, other_context())
    assert (how, raised) == (RAISED, error)
    names = []
    trace = error.__traceback__
    while trace is not None:
        names.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert names[-2:] == ["steps", "__await__"]


@each
def test_a_coroutine_that_ends_when_it_is_thrown_into_has_a_result(functions: Functions) -> None:
    async def catches() -> str:
        try:
            await Yields()
        except KeyError:
            return "caught"
        return "not reached"

    step = functions.Step(catches())
    step.step(None, None)
    assert step.step(KeyError(), None) == (RETURNED, "caught")


@each
def test_a_generator_and_an_object_with_send_are_coroutines_too(functions: Functions) -> None:
    class Sends:
        def send(self, value: Any) -> Any:
            raise StopIteration("sent")

    def generator() -> Generator[Any, Any, Any]:
        yield 1
        return 2

    step = functions.Step(generator())
    assert [step.step(None, None), step.step(None, None)] == [(YIELDED, 1), (RETURNED, 2)]
    assert functions.Step(Sends()).step(None, None) == (RETURNED, "sent")


@each
def test_a_context_that_is_entered_already_is_an_error(functions: Functions) -> None:
    context = contextvars.copy_context()
    coro = steps()
    how, error = context.run(functions.Step(coro).step, None, context)
    assert how == RAISED
    assert "cannot enter context" in str(error)
    assert "cannot enter context" in str(context.run(functions.call_in_context, context, print, ()))
    coro.close()


@each
def test_a_call_in_a_context_returns_what_it_raised(functions: Functions) -> None:
    seen: list[Any] = []

    def look(*args: Any) -> None:
        seen.append((variable.get(), args))

    assert functions.call_in_context(other_context(), look, (1, 2)) is None
    assert seen == [("other", (1, 2))]
    assert isinstance(functions.call_in_context(other_context(), int, ("x",)), ValueError)
    assert isinstance(functions.call_in_context(other_context(), look, None), TypeError)
    assert isinstance(functions.call_in_context(other_context(), None, ()), TypeError)
    assert isinstance(functions.call_in_context(other_context(), exit, ()), SystemExit)


@each
@pytest.mark.parametrize("value", [None, "value", (), (1, 2), ValueError("kept"), StopIteration(3)], ids=repr)
def test_an_iterator_ends_with_a_value(functions: Functions, value: Any) -> None:
    async def wait() -> Any:
        return await functions.Stop(value)

    assert functions.Step(wait()).step(None, None) == (RETURNED, value)
    with pytest.raises(StopIteration) as caught:
        next(functions.Stop(value))
    assert caught.value.value is value


def test_clocks_and_numbers_are_pythons() -> None:
    before = time.monotonic(), time.monotonic_ns()
    seconds, ns, half = native_functions.clocks()
    assert before[0] <= seconds <= time.monotonic()
    assert before[1] <= ns <= time.monotonic_ns()
    assert half == interpreter.to_ns(1.5) == 1_500_000_000
    what = object()
    assert native_functions.numbers(what) == (interpreter.identity(what), threading.get_ident())


def test_a_copy_of_the_context_is_a_copy() -> None:
    variable.set("mine")
    copied = native_functions.copy_context()
    assert copied[variable] == "mine"
    copied.run(variable.set, "changed")
    assert variable.get() == "mine"


@each
def test_method_is_told_by_its_function_and_its_owner(functions: Functions) -> None:
    one, other = Yields(), Yields()
    assert functions.is_method(one.__await__, Yields.__await__, one)
    assert not functions.is_method(other.__await__, Yields.__await__, one)
    assert not functions.is_method(one.__await__, Yields.__init__, one)
    assert not functions.is_method(None, Yields.__await__, one)
    assert not functions.is_method([].append, list.append, one)
