"""Callbacks that are scheduled in one context: each runs in a copy of its own, whoever they share one with before."""

import asyncio
import gc
import weakref
from contextvars import Context, ContextVar, Token, copy_context
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loopcore

Loop = asyncio.AbstractEventLoop
Program = list[tuple[Any, ...]]

VARIABLES: list[ContextVar[Any]] = [ContextVar(f"variable {number}", default="none") for number in range(2)]
variable = VARIABLES[0]


# Random programs, against asyncio's own loop


def programs() -> st.SearchStrategy[Program]:
    places, values = st.integers(0, 1), st.integers(0, 2)
    simple = st.one_of(
        st.tuples(st.just("set"), places, values),
        st.tuples(st.just("get"), places),
        st.tuples(st.sampled_from(["reset", "copy", "ask", "cancel", "fail", "finish"])),
    )
    ways = st.sampled_from(["soon", "keep", "in_copy", "inside", "threadsafe", "done", "pending", "task"])
    return st.recursive(
        st.lists(simple, max_size=3),
        lambda inner: st.lists(st.one_of(simple, st.tuples(ways, inner)), max_size=6),
        max_leaves=25,
    )


class Run:
    """One program on one loop, and everything that it could see."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.log: list[Any] = []
        self.handles: list[Any] = []
        self.futures: list[Any] = []
        self.copies: list[Context] = []
        self.tokens: list[tuple[int, Token[Any]]] = []
        self.names = 0

    def of(self, program: Program) -> list[Any]:
        self.loop.set_exception_handler(self.report)
        Context().run(self.loop.call_soon, self.play, self.name(), program)
        self.loop.run_until_complete(asyncio.sleep(0))
        while self.futures:
            self.do_finish()
        for _ in range(12):  # deeper than any program is
            self.loop.run_until_complete(asyncio.sleep(0))
        self.log.append([self.shown(handle._context) for handle in self.handles])
        self.log.append([self.shown(context) for context in self.copies])
        assert len({id(handle._context) for handle in self.handles}) == len(self.handles)
        return self.log

    def name(self) -> int:
        self.names += 1
        return self.names

    def shown(self, context: Context) -> list[Any]:
        return [context.get(one) for one in VARIABLES]

    def report(self, loop: Loop, context: dict[str, Any]) -> None:
        handle: Any = context.get("handle")
        self.log.append((type(context["exception"]).__name__, None if handle is None else self.shown(handle._context)))

    def play(self, name: int, program: Program, *_: Any) -> None:
        self.log.append((name, [one.get() for one in VARIABLES]))
        for what, *rest in program:
            getattr(self, f"do_{what}")(*rest)
        self.log.append((name, [one.get() for one in VARIABLES]))

    def do_set(self, place: int, value: int) -> None:
        self.tokens.append((place, VARIABLES[place].set(value)))

    def do_get(self, place: int) -> None:
        self.log.append(VARIABLES[place].get())

    def do_reset(self) -> None:
        if self.tokens:
            place, token = self.tokens.pop()
            VARIABLES[place].reset(token)  # which fails in another context, and is reported

    def do_copy(self) -> None:
        self.copies.append(copy_context())

    def do_ask(self) -> None:
        self.log.append([self.shown(handle._context) for handle in self.handles])
        contexts = [context for future in self.futures for _, context in future._callbacks or ()]
        self.log.append([self.shown(context) for context in contexts])
        assert len({id(context) for context in contexts}) == len(contexts)

    def do_cancel(self) -> None:
        if self.handles:
            self.handles[-1].cancel()

    def do_fail(self) -> None:
        raise ZeroDivisionError

    def do_soon(self, program: Program) -> None:
        self.loop.call_soon(self.play, self.name(), program)

    def do_keep(self, program: Program) -> None:
        self.handles.append(self.loop.call_soon(self.play, self.name(), program))

    def do_in_copy(self, program: Program) -> None:
        self.loop.call_soon(self.play, self.name(), program, context=copy_context())

    def do_inside(self, program: Program) -> None:
        copy_context().run(self.play, self.name(), program)

    def do_threadsafe(self, program: Program) -> None:
        self.loop.call_soon_threadsafe(self.play, self.name(), program)

    def do_done(self, program: Program) -> None:
        future = self.loop.create_future()
        name = self.name()
        future.add_done_callback(lambda _: self.play(name, program))
        future.set_result(None)

    def do_pending(self, program: Program) -> None:
        name = self.name()
        self.futures.append(self.loop.create_future())
        self.futures[-1].add_done_callback(lambda _: self.play(name, program))
        if name % 3 == 0:
            self.futures[-1].add_done_callback(lambda _: self.play(name, []))

    def do_finish(self) -> None:
        if self.futures:
            self.futures.pop(0).set_result(None)

    def do_task(self, program: Program) -> None:
        async def step() -> None:
            try:
                self.play(name, program)
            except (ZeroDivisionError, ValueError, RuntimeError) as error:
                self.log.append(type(error).__name__)

        name = self.name()
        self.copies.append(copy_context())
        self.loop.create_task(step())


def test_a_program_sees_what_it_sees_on_asyncios_loop(loop: Loop) -> None:
    oracle = asyncio.SelectorEventLoop()

    @settings(max_examples=60, deadline=None, database=None)
    @given(programs())
    def compare(program: Program) -> None:
        assert Run(loop).of(program) == Run(oracle).of(program)

    try:
        compare()
    finally:
        oracle.close()


# One by one


async def test_what_one_callback_sets_no_other_sees(loop: Loop) -> None:
    seen: list[Any] = []

    def look_and_set(value: int) -> None:
        seen.append(variable.get())
        variable.set(value)

    for number in range(100):
        loop.call_soon(look_and_set, number)
    await asyncio.sleep(0)
    assert seen == ["none"] * 100


async def test_a_context_that_is_kept_is_not_given_to_the_next(loop: Loop) -> None:
    """A token refers to the context that it was made in; so does whoever asks a handle for its own."""
    tokens: list[Any] = []

    def set_and_reset() -> None:
        tokens.append(variable.set("set"))

    reports: list[Any] = []
    loop.set_exception_handler(lambda _, context: reports.append(context["exception"]))
    loop.call_soon(set_and_reset)
    loop.call_soon(lambda: variable.reset(tokens[0]))
    loop.call_soon(lambda: variable.get())
    await asyncio.sleep(0)
    assert [type(error) for error in reports] == [ValueError]


async def test_a_handle_has_the_context_that_its_callback_ran_in(loop: Loop) -> None:
    handles: list[Any] = [loop.call_soon(variable.set, number) for number in range(3)]
    await asyncio.sleep(0)
    assert [handle._context[variable] for handle in handles] == [0, 1, 2]


async def test_the_context_of_a_callback_that_failed_is_its_own(loop: Loop) -> None:
    shown: list[Any] = []

    def fail(value: int) -> None:
        variable.set(value)
        raise ZeroDivisionError

    loop.set_exception_handler(lambda _, context: shown.append(context["handle"]._context[variable]))
    for number in range(3):
        loop.call_soon(fail, number)
    loop.call_soon(lambda: shown.append(variable.get()))
    await asyncio.sleep(0)
    assert shown == [0, 1, 2, "none"]


class Value:
    """Something that can be watched."""


async def test_what_a_variable_held_goes_with_the_tick(loop: Loop) -> None:
    def schedule(value: Value) -> None:
        variable.set(value)
        for _ in range(3):
            loop.call_soon(int)

    held = Value()
    watched = weakref.ref(held)
    Context().run(schedule, held)
    del held
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gc.collect()
    assert watched() is None


@pytest.mark.loopcore_only
async def test_what_a_variable_held_goes_with_the_tick_that_a_plugin_may_end(loop: Any) -> None:
    class Budget:
        callbacks = seconds = None

    class Budgets:
        @loopcore.hookimpl
        def loopcore_make_tick_budget(self, loop: Loop) -> Budget:
            return Budget()

    loop.probes.register(Budgets(), "budgets")
    await test_what_a_variable_held_goes_with_the_tick(loop)


async def test_callbacks_that_set_variables_in_a_row_leave_none_alive(loop: Loop) -> None:
    """A chain in which every context is another, and the loop never waits."""
    watched: list[Any] = []

    def step(left: int) -> None:
        value = Value()
        watched.append(weakref.ref(value))
        variable.set(value)
        if left:
            loop.call_soon(step, left - 1)

    loop.call_soon(step, 10)
    for _ in range(11):
        await asyncio.sleep(0)
    gc.collect()
    assert sum(reference() is not None for reference in watched) <= 1
    await asyncio.sleep(0)
    gc.collect()
    assert not any(reference() for reference in watched)


def test_a_run_leaves_no_variable_alive(loop: Loop) -> None:
    def schedule(value: Value) -> None:
        variable.set(value)
        loop.call_soon(loop.stop)

    held = Value()
    watched = weakref.ref(held)

    async def main(value: Value) -> None:
        Context().run(schedule, value)

    task = loop.create_task(main(held))
    del held
    loop.run_forever()
    assert task.done()
    del task
    gc.collect()
    assert watched() is None


class SchedulesAtItsEnd:
    """A value whose finalizer schedules a callback."""

    def __init__(self, loop: Loop, log: list[str]) -> None:
        self._loop = loop
        self._log = log

    def __del__(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon(self._log.append, "scheduled by a finalizer")


def test_a_finalizer_of_a_variable_may_schedule(loop: Loop) -> None:
    log: list[str] = []

    def schedule() -> None:
        variable.set(SchedulesAtItsEnd(loop, log))
        loop.call_soon(int)

    async def main() -> None:
        for _ in range(10):
            Context().run(schedule)
            await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        await asyncio.sleep(0)

    loop.run_until_complete(main())
    gc.collect()
    loop.run_until_complete(asyncio.sleep(0))
    assert log == ["scheduled by a finalizer"] * 10


# Done callbacks


def removing_another(loop: Any, future: Any) -> None:
    assert future.remove_done_callback(print) == 0


def replacing_call_soon(loop: Any, future: Any) -> None:
    original = loop.call_soon
    loop.call_soon = lambda *args, **options: original(*args, **options)


def in_debug_mode(loop: Any, future: Any) -> None:
    loop.set_debug(True)


def adding_another(loop: Any, future: Any) -> None:
    future.add_done_callback(lambda _: variable.set("another's"))


@pytest.mark.parametrize("between", [removing_another, replacing_call_soon, in_debug_mode, adding_another])
async def test_a_done_callback_has_its_own_context_whatever_comes_between(loop: Any, between: Any) -> None:
    seen: list[Any] = []

    def look_and_set(future: Any) -> None:
        seen.append((future.result(), variable.get()))
        variable.set(f"of {future.result()}")

    variable.set("outer")
    futures = [loop.create_future() for _ in range(3)]
    for future in futures:
        future.add_done_callback(look_and_set)
    between(loop, futures[1])
    variable.set("later")
    for number, future in enumerate(futures):
        future.set_result(number)
    await asyncio.sleep(0)
    assert seen == [(0, "outer"), (1, "outer"), (2, "outer")]
