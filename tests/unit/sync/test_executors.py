"""Wakers, block_on, spawn and JoinSet."""

import asyncio
import concurrent.futures
import copy
import gc
import inspect
import selectors
import signal
import threading
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from loopcore.sync import Empty, JoinSet, Waker, block_on, mpmc, park, spawn
from tests.unit.sync.conftest import PATIENCE
from tests.unit.sync.test_channels import cancelled, settle


async def test_a_wake_before_the_park_is_not_lost() -> None:
    waker = Waker()
    waker.wake()
    waker.clone().wake()  # two are one
    await waker.park()
    waiting = asyncio.create_task(waker.park())
    await settle()
    assert not waiting.done()
    copy.copy(waker).wake()
    await waiting
    assert (waker.clone() == waker, waker == Waker(), hash(waker.clone())) == (True, False, hash(waker))


async def test_a_cancelled_park_leaves_the_token() -> None:
    waker = Waker()
    waiting = asyncio.create_task(waker.park())
    await settle()
    waker.wake()
    assert await cancelled(waiting)
    await waker.park()


async def test_an_awaitable_of_ones_own_is_woken_from_a_thread() -> None:
    class Reading:
        """What a device has measured, awaited."""

        def __init__(self) -> None:
            self.value: int | None = None
            self.waker = Waker()
            self.thread = threading.Timer(0.05, self.measure)  # later than the first look
            self.thread.start()

        def measure(self) -> None:
            self.value = 42
            self.waker.wake()

        def __await__(self) -> Generator[Any, Any, int]:
            while self.value is None:
                yield from self.waker.park().__await__()
            return self.value

    reading = Reading()
    assert await reading == 42
    reading.thread.join()
    await park(lambda waker: waker.wake())


async def test_many_wakes_from_many_threads_lose_nothing() -> None:
    waker = Waker()
    counts = [0] * 4

    def count(index: int) -> None:
        for _ in range(500):
            counts[index] += 1
            waker.wake()

    threads = [threading.Thread(target=count, args=[index]) for index in range(4)]
    for thread in threads:
        thread.start()
    while sum(counts) < 2000:
        await waker.park()
    for thread in threads:
        thread.join()


class InterruptedSelector(selectors.SelectSelector):
    """Sleeps until a signal's handler has run, which does not end a wait (PEP 475); fails where it would sleep on."""

    def select(self, timeout: float | None = None) -> Any:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        signal.raise_signal(signal.SIGINT)
        ready = super().select(0)
        assert ready, "the loop sleeps on after the handler has run"
        return ready


class InterruptedLoop(asyncio.SelectorEventLoop):
    """Has one signal when it makes a future: after a waiter has found no token, and before it is known."""

    is_armed = False

    def create_future(self) -> "asyncio.Future[Any]":
        if self.is_armed:
            self.is_armed = False
            signal.raise_signal(signal.SIGINT)
        return super().create_future()


@pytest.fixture
def signalled() -> Iterator[Waker]:
    """A waker that a signal's handler wakes."""
    waker = Waker()
    before = signal.signal(signal.SIGINT, lambda *_: waker.wake())
    yield waker
    signal.signal(signal.SIGINT, before)


def test_a_signal_handler_wakes_a_loop_that_sleeps(signalled: Waker) -> None:
    loop = asyncio.SelectorEventLoop(InterruptedSelector())
    try:
        loop.run_until_complete(signalled.park())
    finally:
        loop.close()


async def test_a_wake_goes_through_the_loop() -> None:
    waker = Waker()
    operation = waker.park()
    future = operation.send(None)
    waker.wake()
    # A signal handler may come here, before a task has noted that it waits: of a future that is done by then it
    # would never hear.
    assert not future.done()
    await settle()
    assert future.done()
    with pytest.raises(StopIteration):
        operation.send(None)


def test_a_signal_handler_between_the_look_and_the_wait_is_not_lost(signalled: Waker) -> None:
    async def main() -> None:
        loop.is_armed = True
        parked = asyncio.create_task(signalled.park())
        await settle()
        assert parked.done()

    loop = InterruptedLoop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def test_block_on_runs_in_a_thread_without_a_loop() -> None:
    sender, receiver = mpmc.Channel[int](1, threadsafe=True)
    received: list[int] = []

    def consume() -> None:
        for _ in range(3):
            received.append(block_on(receiver.recv(), timeout=60))

    thread = threading.Thread(target=consume)
    thread.start()
    for number in range(3):
        block_on(sender.send(number))
    thread.join()
    assert received == [0, 1, 2]


def test_block_on_without_a_loop_gives_up_after_its_timeout() -> None:
    with pytest.raises(TimeoutError):
        block_on(asyncio.sleep(PATIENCE), timeout=0)


async def test_block_on_hands_over_to_the_loop_of_another_thread() -> None:
    async def where() -> int:
        return threading.get_ident()

    loop = asyncio.get_running_loop()
    assert await loop.run_in_executor(None, lambda: block_on(where(), loop=loop)) == threading.get_ident()
    with pytest.raises(TimeoutError):
        await loop.run_in_executor(None, lambda: block_on(asyncio.Event().wait(), loop=loop, timeout=0))
    with pytest.raises(RuntimeError, match="use `await` here"):
        block_on(where())


async def test_a_block_on_that_is_interrupted_cancels_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, cancelled = asyncio.get_running_loop(), asyncio.Event()
    begun = threading.Event()

    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    def interrupt(*_: object) -> None:
        begun.wait(PATIENCE)
        raise KeyboardInterrupt

    def call() -> None:
        with pytest.raises(KeyboardInterrupt):
            block_on(wait(), loop=loop)

    monkeypatch.setattr(concurrent.futures, "wait", interrupt)
    calling = loop.run_in_executor(None, call)
    await cancelled.wait()
    await calling


def test_block_on_ends_with_its_loop(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()

    async def close_soon() -> None:
        loop.call_later(0.01, loop.stop)
        await asyncio.Event().wait()

    def run() -> None:
        loop.run_forever()
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    with pytest.raises(RuntimeError, match="closed before"):
        block_on(close_soon(), loop=loop)
    thread.join()
    assert not caplog.records


def test_block_on_leaves_nothing_that_was_never_awaited_if_its_loop_never_runs() -> None:
    async def never() -> None:
        raise AssertionError("this ran")

    loop = asyncio.new_event_loop()
    closing = threading.Timer(0.05, loop.close)
    closing.start()
    coroutine = never()
    with pytest.raises(RuntimeError, match="closed"):
        block_on(coroutine, loop=loop)
    closing.join()
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


def test_block_on_of_a_closed_loop_leaves_nothing_that_was_never_awaited() -> None:
    async def never() -> None:
        raise AssertionError("this ran")

    loop = asyncio.new_event_loop()
    loop.close()
    coroutine = never()
    with pytest.raises(RuntimeError, match="closed"):
        block_on(coroutine, loop=loop)
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


async def test_a_spawned_task_is_kept_alive() -> None:
    ended: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()  # to which nobody else refers
        finally:
            ended.append(True)

    spawn(work())
    await settle()
    gc.collect()
    assert not ended


async def test_spawned_tasks_have_the_name_that_they_are_given() -> None:
    assert spawn(asyncio.sleep(0), name="spawned").get_name() == "spawned"
    async with JoinSet[None]() as tasks:
        assert tasks.spawn(asyncio.sleep(0), name="in a set").get_name() == "in a set"


async def test_tasks_are_joined_as_they_end() -> None:
    gates = [asyncio.Event() for _ in range(4)]

    async def work(number: int) -> int:
        await gates[number].wait()
        if number == 1:
            raise ValueError(number)
        return number

    async with JoinSet[int]() as tasks:
        for number in range(4):
            tasks.spawn(work(number))
        assert tasks.try_join_next() is None
        order = [2, 0, 1, 3]
        for number in order:
            gates[number].set()
            await settle()
        joined = [task async for task in tasks]
        assert [task.result() for task in joined if not task.exception()] == [2, 0, 3]
        assert str(joined[2].exception()) == "1"
        with pytest.raises(Empty):
            await tasks.join_next()


async def test_who_leaves_a_join_set_cancels_what_runs() -> None:
    async with JoinSet[Any]() as tasks:
        endless = [tasks.spawn(asyncio.Event().wait()) for _ in range(3)]
        await settle()
    assert all(task.cancelled() for task in endless)
    assert len(tasks) == 0


async def test_who_leaves_a_join_set_forgets_a_task_that_has_just_ended() -> None:
    async with JoinSet[Any]() as tasks:
        ending = tasks.spawn(asyncio.get_running_loop().create_future())
        await settle()
        ending.cancel()
        while not ending.done():
            await asyncio.sleep(0)
    assert len(tasks) == 0


async def test_a_cancelled_join_has_joined_none() -> None:
    async with JoinSet[str]() as tasks:
        gate = asyncio.Event()

        async def work() -> str:
            await gate.wait()
            return "result"

        tasks.spawn(work())
        first, second = asyncio.create_task(tasks.join_next()), asyncio.create_task(tasks.join_next())
        await settle()
        gate.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).result() == "result"
        assert await cancelled(first)


async def test_those_who_wait_for_a_task_too_many_are_told() -> None:
    async with JoinSet[int]() as tasks:
        tasks.spawn(asyncio.sleep(0, 1))
        joins = [asyncio.create_task(tasks.join_next()) for _ in range(2)]
        assert (await joins[0]).result() == 1
        with pytest.raises(Empty):
            await joins[1]
