"""spawn_blocking: threads for what blocks, bounded."""

import asyncio
import contextvars
import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from typing import Any

import pytest

from loopcore.sync import limit_blocking, spawn_blocking
from tests.unit.sync.conftest import PATIENCE, Run
from tests.unit.sync.test_channels import cancelled, settle


async def test_a_function_runs_in_a_thread_with_the_context_of_its_caller() -> None:
    variable = contextvars.ContextVar[str]("variable", default="default")
    variable.set("mine")
    assert await spawn_blocking(variable.get) == "mine"
    assert await spawn_blocking(threading.get_ident) != threading.get_ident()
    assert await spawn_blocking(sorted, [2, 1], reverse=True) == [2, 1]
    with pytest.raises(ZeroDivisionError):
        await spawn_blocking(divmod, 1, 0)


async def test_what_is_called_may_have_any_attributes() -> None:
    class Ticket:
        def claim(self) -> None:
            raise AssertionError("this is not asked")

    limit_blocking(1)
    assert isinstance(await spawn_blocking(Ticket), Ticket)
    assert await spawn_blocking(int) == 0  # the only permit has come back


async def test_calls_beyond_the_limit_wait_for_their_turn() -> None:
    release = threading.Event()
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        release.wait()
        return number

    limit_blocking(2)
    calls = [asyncio.create_task(spawn_blocking(work, number)) for number in range(5)]
    await settle()
    assert len(begun) <= 2
    gone = calls.pop(3)
    assert await cancelled(gone)  # it waited for its turn: it is never called
    release.set()
    assert await asyncio.gather(*calls) == [0, 1, 2, 4]
    assert sorted(begun) == [0, 1, 2, 4]


async def test_what_runs_counts_until_it_ends_although_it_was_cancelled() -> None:
    release, started = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        release.wait()

    class Executor(ThreadPoolExecutor):
        def submit(self, *args: Any, **kwargs: Any) -> Any:
            submitted.append(args)
            return super().submit(*args, **kwargs)

    submitted: list[object] = []
    asyncio.get_running_loop().set_default_executor(Executor())
    limit_blocking(1)
    first = asyncio.create_task(spawn_blocking(work))
    await asyncio.to_thread(started.wait)
    assert await cancelled(first)
    submitted.clear()
    second = asyncio.create_task(spawn_blocking(int, "7"))
    await settle()
    release.set()
    assert not submitted
    assert await second == 7


async def test_the_end_of_an_iterator_is_an_error_and_no_hang() -> None:
    call = asyncio.create_task(spawn_blocking(next, iter(())))
    done, _ = await asyncio.wait([call], timeout=30)
    assert done
    with pytest.raises(RuntimeError, match="StopIteration") as raised:
        call.result()
    assert isinstance(raised.value.__cause__, StopIteration)


async def test_a_call_that_an_executor_drops_gives_its_permit_back() -> None:
    ready = threading.Event()

    def fail() -> None:
        ready.wait()
        raise RuntimeError("no thread can be used")

    executor = ThreadPoolExecutor(1, initializer=fail)
    asyncio.get_running_loop().set_default_executor(executor)
    limit_blocking(1)
    call = asyncio.create_task(spawn_blocking(int))
    await settle()
    ready.set()
    for each in (call, asyncio.create_task(spawn_blocking(int))):
        with pytest.raises(BrokenExecutor):
            await asyncio.wait_for(each, 30)


async def test_a_call_that_an_executor_refuses_gives_its_permit_back() -> None:
    limit_blocking(1)
    await asyncio.get_running_loop().shutdown_default_executor()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="shutdown"):
            await asyncio.wait_for(spawn_blocking(int), PATIENCE)


def test_a_loop_that_is_closed_is_not_kept_alive(run: Run) -> None:
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def main() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        limit_blocking(1)
        await asyncio.gather(*(spawn_blocking(int) for _ in range(3)))  # so that some have waited

    run(main())
    gc.collect()
    assert loops[0]() is None


def test_a_loop_that_was_closed_while_a_call_waited_is_let_go_by_the_next(
    run: Run, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []
    ready = threading.Event()
    executor = ThreadPoolExecutor(1)

    async def leave() -> None:
        loop = asyncio.get_running_loop()
        loops.append(weakref.ref(loop))
        loop.set_default_executor(executor)
        limit_blocking(1)
        for _ in range(2):
            asyncio.create_task(spawn_blocking(ready.wait))._log_destroy_pending = False  # type: ignore[attr-defined]
        await settle()

    async def call() -> None:
        await spawn_blocking(int)

    loop = loop_factory()
    loop.run_until_complete(leave())
    loop.close()
    ready.set()
    executor.shutdown()
    del loop
    run(call())
    gc.collect()
    assert loops[0]() is None


async def test_a_limit_is_one_at_least() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        limit_blocking(0)
    with pytest.raises(TypeError):
        limit_blocking(2.5)  # type: ignore[arg-type]
