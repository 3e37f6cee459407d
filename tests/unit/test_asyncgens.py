"""Asynchronous generators: closed by the loop when they are dropped, or with it."""

import asyncio
import gc
import sys
from collections.abc import AsyncGenerator
from typing import Any

import pytest

Loop = asyncio.AbstractEventLoop


async def numbers(log: list[str]) -> AsyncGenerator[int, None]:
    try:
        while True:
            yield 1
    finally:
        await asyncio.sleep(0)
        log.append("closed")


@pytest.mark.covers("EventLoop.shutdown_asyncgens")
def test_shutdown_asyncgens_closes_those_still_alive(loop: Loop) -> None:
    log: list[str] = []
    kept: list[Any] = []

    async def main() -> None:
        generator = numbers(log)
        kept.append(generator)
        await anext(generator)

    loop.run_until_complete(main())
    assert log == []
    loop.run_until_complete(loop.shutdown_asyncgens())
    assert log == ["closed"]


async def test_dropped_generator_is_closed_by_the_loop() -> None:
    log: list[str] = []
    generator = numbers(log)
    await anext(generator)
    del generator
    gc.collect()
    for _ in range(5):
        await asyncio.sleep(0)
    assert log == ["closed"]


async def test_generator_dropped_in_another_thread_is_closed_by_the_loop(loop: Loop) -> None:
    log: list[str] = []
    kept = [numbers(log)]
    await anext(kept[0])
    loop.set_debug(True)  # a call in the wrong thread is an error
    await asyncio.to_thread(kept.clear)
    for _ in range(5):
        await asyncio.sleep(0)
    assert log == ["closed"]


def test_generator_dropped_after_the_loop_was_closed_is_left_alone(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    unraisable: list[Any] = []
    kept = [numbers(log)]

    async def main() -> None:
        await anext(kept[0])

    loop.run_until_complete(main())
    loop.close()
    monkeypatch.setattr(sys, "unraisablehook", lambda error: unraisable.append(error.exc_value))
    kept.clear()
    gc.collect()
    assert (log, unraisable) == ([], [])


def test_generator_that_fails_to_close_is_reported(loop: Loop) -> None:
    faults: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: faults.append(context))

    async def bad() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            raise ZeroDivisionError

    async def main() -> None:
        kept.append(bad())
        await anext(kept[0])

    kept: list[Any] = []
    loop.run_until_complete(main())
    loop.run_until_complete(loop.shutdown_asyncgens())
    (fault,) = faults
    assert fault["message"] == f"an error occurred during closing of asynchronous generator {kept[0]!r}"
    assert fault["asyncgen"] is kept[0]
    assert isinstance(fault["exception"], ZeroDivisionError)


def test_generator_started_after_the_shutdown_warns(loop: Loop) -> None:
    log: list[str] = []

    async def main() -> None:
        generator = numbers(log)
        with pytest.warns(ResourceWarning, match=r"was scheduled after loop\.shutdown_asyncgens\(\) call$"):
            await anext(generator)
        await generator.aclose()

    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(main())


def test_hooks_of_generators_are_restored(loop: Loop) -> None:
    before = sys.get_asyncgen_hooks()
    loop.run_until_complete(asyncio.sleep(0))
    assert sys.get_asyncgen_hooks() == before
