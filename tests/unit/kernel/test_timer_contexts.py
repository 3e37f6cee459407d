"""Timers that are set in the same context: each runs in a copy of its own, whoever they share one with until then."""

import asyncio
import gc
import weakref
from contextvars import Context, ContextVar, copy_context
from typing import Any

Loop = asyncio.AbstractEventLoop


variable: ContextVar[Any] = ContextVar("variable", default="none")


async def test_what_one_timer_sets_no_other_sees(loop: Loop) -> None:
    seen: list[Any] = []

    def look_and_set(value: str) -> None:
        seen.append(variable.get())
        variable.set(value)

    due = loop.time()
    for number in range(3):
        loop.call_at(due + number * 1e-6, look_and_set, f"timer {number}")
    variable.set("task")
    for number in range(3):
        loop.call_at(due + 1e-5 + number * 1e-6, look_and_set, f"later timer {number}")
    await asyncio.sleep(0.001)
    assert variable.get() == "task"
    assert seen == ["none"] * 3 + ["task"] * 3


async def test_a_timer_sees_what_was_set_when_it_was_set(loop: Loop) -> None:
    seen: list[Any] = []
    token = variable.set(1)
    loop.call_later(0, lambda: seen.append(variable.get()))
    variable.set(2)
    loop.call_later(0, lambda: seen.append(variable.get()))
    variable.reset(token)
    loop.call_later(0, lambda: seen.append(variable.get()))
    copy_context().run(lambda: (variable.set(3), loop.call_later(0, lambda: seen.append(variable.get()))))
    await asyncio.sleep(0.001)
    assert seen == [1, 2, "none", 3]


async def test_a_token_belongs_to_the_timer_that_made_it(loop: Loop) -> None:
    reports: list[Any] = []
    tokens: list[Any] = []
    loop.set_exception_handler(lambda _, context: reports.append(context["exception"]))
    due = loop.time()
    loop.call_at(due, lambda: tokens.append(variable.set("one")))
    loop.call_at(due + 1e-6, lambda: variable.reset(tokens[0]))
    await asyncio.sleep(0.001)
    assert [type(error) for error in reports] == [ValueError]
    assert "different Context" in str(reports[0])


def test_no_two_timers_have_one_context(loop: Loop) -> None:
    timers: list[Any] = [loop.call_later(60, print) for _ in range(3)]
    contexts = [timer._context for timer in timers]
    assert len({id(context) for context in contexts}) == 3
    assert [timer._context for timer in timers] == contexts
    contexts[0].run(variable.set, "mine")
    assert [context.get(variable) for context in contexts] == ["mine", None, None]
    for timer in timers:
        timer.cancel()
    assert timers[1]._context is contexts[1]


async def test_a_context_that_is_given_is_the_one(loop: Loop) -> None:
    mine = copy_context()
    timer: Any = loop.call_later(0, variable.set, "set", context=mine)
    assert timer._context is mine
    await asyncio.sleep(0.001)
    assert mine[variable] == "set"


def test_a_timer_that_runs_inside_another_has_its_own_context(loop: Any) -> None:
    seen: list[Any] = []

    def look() -> None:
        seen.append(variable.get())
        variable.set("inner")

    def enter() -> None:
        variable.set("outer")
        timers[1]._run()
        seen.append(variable.get())

    timers = [loop.call_later(60, enter), loop.call_later(60, look)]
    timers[0]._run()
    assert seen == ["none", "outer"]
    for timer in timers:
        timer.cancel()


class Value:
    """Something that can be watched."""


def test_what_a_variable_held_goes_with_the_timer(loop: Loop) -> None:
    held = Value()
    watched = weakref.ref(held)

    def keep(value: Value) -> None:
        variable.set(value)
        loop.call_later(0, int)

    Context().run(keep, held)
    del held
    loop.run_until_complete(asyncio.sleep(0.001))
    loop.run_until_complete(asyncio.sleep(0.001))
    gc.collect()
    assert watched() is None


class SetsATimer:
    """Its end sets another timer."""

    def __init__(self, loop: Loop, log: list[str]) -> None:
        self._loop = loop
        self._log = log

    def __del__(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_later(0, self._log.append, "set by a finalizer")


def test_a_finalizer_of_a_variable_may_set_a_timer(loop: Loop) -> None:
    log: list[str] = []

    def set_one() -> None:
        variable.set(SetsATimer(loop, log))
        loop.call_later(60, print).cancel()

    async def main() -> None:
        for _ in range(70):  # enough for the cancelled ones to be dropped
            Context().run(set_one)
        for _ in range(3):
            await asyncio.sleep(0.001)

    loop.run_until_complete(main())
    loop.run_until_complete(asyncio.sleep(0.001))
    assert log
    assert set(log) == {"set by a finalizer"}
    gc.collect()
    loop.run_until_complete(asyncio.sleep(0.001))
