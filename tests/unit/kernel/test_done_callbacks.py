"""Callbacks of futures that are done, and what is seen while tasks come and go: as in asyncio, however it is called."""

import asyncio
import contextvars
import gc
import weakref
from contextvars import copy_context
from functools import partial
from typing import Any

import pytest

import loopcore
from loopcore.kernel.future import Future
from loopcore.loop import EventLoop

Loop = asyncio.AbstractEventLoop


def test_a_class_that_overrides_call_soon_has_the_callbacks_of_its_futures() -> None:
    class Recording(EventLoop):
        def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
            scheduled.append(callback)
            return super().call_soon(callback, *args, context=context)

    scheduled: list[Any] = []
    called: list[Any] = []
    loop = Recording()
    future = loop.create_future()
    future.add_done_callback(called.append)

    async def main() -> None:
        future.set_result(1)
        await asyncio.sleep(0)

    loop.run_until_complete(main())
    loop.close()
    assert called == [future]
    assert called.append in scheduled


async def test_each_callback_has_its_own_context_and_runs_in_order(loop: Loop) -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)
    seen: list[tuple[str, int]] = []
    future = loop.create_future()
    for number in (1, 2, 3):
        variable.set(number)
        future.add_done_callback(lambda _: seen.append(("callback", variable.get())))
    variable.set(4)
    future.set_result(None)
    loop.call_soon(lambda: seen.append(("later", variable.get())))
    variable.set(5)
    await asyncio.sleep(0)
    assert seen == [("callback", 1), ("callback", 2), ("callback", 3), ("later", 4)]


async def test_a_callback_that_fails_is_reported_with_its_handle_and_others_run(loop: Loop) -> None:
    reports: list[dict[str, Any]] = []
    called: list[Any] = []
    loop.set_exception_handler(lambda _, context: reports.append(context))

    def fail(_: Any) -> None:
        raise ValueError("of the callback")

    future = loop.create_future()
    future.add_done_callback(fail)
    future.add_done_callback(called.append)
    future.cancel()
    await asyncio.sleep(0)
    assert len(called) == 1
    assert [str(report["exception"]) for report in reports] == ["of the callback"]
    assert isinstance(reports[0]["handle"], asyncio.Handle)
    assert "fail" in reports[0]["message"]
    assert reports[0]["exception"].__context__ is None


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_a_callback_ends_the_run_and_what_follows_it_stays(loop: Loop, error: type[BaseException]) -> None:
    called: list[str] = []

    def fail() -> None:
        raise error

    loop.call_soon(fail)
    loop.call_soon(called.append, "after")
    with pytest.raises(error):
        loop.run_forever()
    assert called == []
    loop.run_until_complete(asyncio.sleep(0))
    assert called == ["after"]


def test_a_handle_is_not_cancelled_because_another_was() -> None:
    loop = loopcore.new_event_loop()
    called: list[int] = []

    async def main() -> None:
        for _ in range(3):  # handles that have run are used again
            loop.call_soon(called.append, 0).cancel()
            await asyncio.sleep(0)
            handle = loop.call_soon(called.append, 1)
            assert not handle.cancelled()
            del handle
            await asyncio.sleep(0)

    loop.run_until_complete(main())
    loop.close()
    assert called == [1, 1, 1]


async def test_what_a_task_has_returned_goes_while_no_task_is_the_current_one(loop: Loop) -> None:
    seen: list[Any] = []

    class Result:
        def __del__(self) -> None:
            seen.append(asyncio.current_task(loop))

    async def give() -> Result:
        return Result()

    loop.create_task(give())
    loop.create_task(asyncio.sleep(0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert seen == [None]


async def test_a_task_that_is_done_is_gone_before_another_steps_and_before_a_callback(loop: Loop) -> None:
    known: list[Any] = []
    seen: list[tuple[bool, Any]] = []

    def look() -> None:
        current = asyncio.current_task(loop)
        seen.append((known[-1]() is None, current and current.get_name()))

    async def step() -> None:
        look()

    async def nothing() -> None:
        pass

    known.append(weakref.ref(loop.create_task(nothing())))
    loop.create_task(step(), name="step")
    loop.call_soon(look)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert seen == [(True, "step"), (True, None)]


async def test_a_call_soon_that_is_set_on_one_loop_has_the_callbacks_of_its_futures(loop: Any) -> None:
    scheduled: list[Any] = []
    called: list[Any] = []

    def record(callback: Any, *args: Any, context: Any = None) -> Any:
        scheduled.append(callback)
        return type(loop).call_soon(loop, callback, *args, context=context)

    async def finish_one(callback: Any) -> None:
        future = loop.create_future()
        future.add_done_callback(callback)
        future.set_result(None)
        await asyncio.sleep(0)

    await finish_one(called.append)
    loop.call_soon = record
    await finish_one(called.append)
    assert scheduled.count(called.append) == 1
    del loop.call_soon
    await finish_one(called.append)
    assert scheduled.count(called.append) == 1
    assert len(called) == 3
    with pytest.raises(AttributeError):
        del loop.call_soon


# What is collected meanwhile: up to Python 3.11 a collection may come with any allocation, also within a call.


class Collected:
    """Garbage whose finalizer calls something."""

    finalizer: Any = None

    def __del__(self) -> None:
        self.finalizer()


def collecting_within(call: Any, argument: Any, finalizer: Any) -> None:
    """Call `call(argument)`, with whose first allocation, if any, `finalizer` comes. Neither may be a lambda's call."""
    threshold = gc.get_threshold()
    held: list[Any] = [[copy_context() for _ in range(600)], [(i,) for i in range(3000)]]
    gc.collect()
    gc.disable()
    garbage = Collected()  # without arguments: their tuple would be free to be used again
    garbage.finalizer = finalizer
    garbage.me = garbage  # type: ignore[attr-defined]
    del garbage
    gc.set_threshold(1)
    held.append([(argument,), (argument,)])
    gc.enable()
    try:
        call(argument)
    finally:
        gc.set_threshold(*threshold)
        held.clear()
        gc.collect()


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_finalizer_that_takes_back_another_callback_does_not_double_the_first(
    loop: Any, replaced: bool
) -> None:
    called: list[Any] = []
    future = loop.create_future()
    future.add_done_callback(called.append)
    if replaced:
        call_soon = loop.call_soon
        loop.call_soon = lambda *args, **options: call_soon(*args, **options)
    collecting_within(future.set_result, None, partial(future.remove_done_callback, print))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(called) == 1


@pytest.mark.parametrize("before", [0, 1, 2])
async def test_a_callback_is_called_if_a_finalizer_finishes_the_future_while_it_is_added(
    loop: Any, before: int
) -> None:
    called: list[Any] = []
    future = loop.create_future()
    for _ in range(before):
        future.add_done_callback(lambda _: called.append("before"))
    last = partial(called.append, "last")
    collecting_within(future.add_done_callback, lambda _: last(), partial(future.set_result, None))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert called == ["before"] * before + ["last"]


@pytest.mark.parametrize("before", [0, 1, 2])
async def test_a_callback_with_a_context_is_called_if_a_finalizer_finishes_the_future_while_it_is_added(
    loop: Any, before: int
) -> None:
    called: list[Any] = []
    future: Any = Future(loop=loop)  # asyncio's own, also of the pure build, loses it
    for _ in range(before):
        future.add_done_callback(called.append)
    add, last, context = future.add_done_callback, called.append, copy_context()
    collecting_within(lambda _: add(last, context=context), None, partial(future.set_result, None))
    if not future.done():
        future.set_result(None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(called) == before + 1


@pytest.mark.parametrize("before", [1, 2])
async def test_a_callback_is_called_if_a_finalizer_finishes_the_future_while_another_is_taken_back(
    loop: Any, before: int
) -> None:
    called: list[Any] = []
    future = loop.create_future()
    for _ in range(before):
        future.add_done_callback(called.append)
    collecting_within(future.remove_done_callback, print, partial(future.set_result, None))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(called) == before


async def test_a_comparison_may_finish_the_future(loop: Any) -> None:
    called: list[Any] = []

    class Callback:
        future: Any = None

        def __call__(self, future: Any) -> None:
            called.append(future)

        def __eq__(self, other: object) -> bool:
            self.future.set_result(None)
            return True

        __hash__ = None  # type: ignore[assignment]

    callback = Callback()
    callback.future = future = loop.create_future()
    future.add_done_callback(callback)
    future.add_done_callback(called.append)
    future.remove_done_callback(print)
    await asyncio.sleep(0)
    assert called == [future, future]
    assert future._callbacks is None


@pytest.mark.parametrize("end", ["set_result", "set_exception", "cancel"])
def test_a_future_that_a_task_waits_for_cannot_end_on_a_closed_loop(loop: asyncio.AbstractEventLoop, end: str) -> None:
    """The task would never wake (issue 32)."""

    async def wait() -> None:
        await future

    future = loop.create_future()
    task = loop.create_task(wait())
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    arguments = {"set_result": (1,), "set_exception": (OSError(),), "cancel": ()}[end]
    with pytest.raises(RuntimeError, match=r"^Event loop is closed$"):
        getattr(future, end)(*arguments)
    assert future.done()
    if end == "set_exception":
        assert isinstance(future.exception(), OSError)
    task.get_coro().close()  # type: ignore[union-attr]


async def test_an_exception_class_whose_constructor_finishes_the_future_is_refused(loop: Loop) -> None:
    class Finishes(Exception):
        def __init__(self) -> None:
            future.set_result(1)

    future = loop.create_future()
    with pytest.raises(asyncio.InvalidStateError):
        future.set_exception(Finishes)
    assert await future == 1
