"""What belongs to one loop and is used in another one: an error with both places, at the first wrong use."""

import asyncio
import gc
import re
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import loopcore
from loopcore.sync import Closed, JoinSet, Mutex, block_on, broadcast, mpmc, oneshot, select, watch
from tests.unit.sync.conftest import Run
from tests.unit.sync.test_channels import settle

PATIENCE = 30


def here() -> str:
    """Return `file:line` of the caller's next line."""
    frame = sys._getframe(1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno + 1}"


def both(first: str, second: str) -> str:
    """Return a pattern for the error that shows where the object was first used, and where it is used now."""
    return f"first used it at {re.escape(first)}, and it is now used at {re.escape(second)}"


class Beside:
    """A loop that runs in another thread until the block ends."""

    def __init__(self, factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.SelectorEventLoop) -> None:
        self.loop = factory()

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        """Return what `main` returns there."""
        return asyncio.run_coroutine_threadsafe(main, self.loop).result(PATIENCE)

    def __enter__(self) -> "Beside":
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


def test_the_error_names_both_places(run: Run) -> None:
    sender, receiver = mpmc.Channel[int](2)
    places = []

    async def first() -> None:
        places.append(here())
        await sender.send(1)

    async def second() -> None:
        places.append(here())
        await receiver.recv()

    with Beside() as other:
        other.run(first())
        with pytest.raises(RuntimeError, match="belongs to another event loop") as caught:
            run(second())
    assert re.search(both(*places), str(caught.value))
    assert "create it with threadsafe=True" in str(caught.value)
    assert receiver.try_recv() == 1, "the loop is closed: the value is still there"


def test_a_send_that_would_wake_a_task_in_another_thread_is_refused(run: Run) -> None:
    """Without this the receiver would sleep on: its loop does not learn that it was woken."""
    sender, receiver = mpmc.Channel[int](2)
    waiting = threading.Event()

    async def wait() -> int:
        asyncio.get_running_loop().call_soon(waiting.set)
        return await receiver.recv()

    async def send() -> None:
        sender.try_send(1)

    with Beside() as other:
        job = asyncio.run_coroutine_threadsafe(wait(), other.loop)
        assert waiting.wait(PATIENCE)
        with pytest.raises(RuntimeError, match="belongs to another event loop"):
            run(send())
        with pytest.raises(RuntimeError, match="without a running loop"):
            sender.try_send(2)
        other.loop.call_soon_threadsafe(sender.try_send, 3)
        assert job.result(PATIENCE) == 3


def test_what_a_dropped_task_holds_is_released_whichever_thread_collects_it(run: Run) -> None:
    mutex = Mutex(0)
    sender, receiver = mpmc.Channel[int](1)

    async def hold() -> None:
        async with mutex:
            with sender:
                await asyncio.get_running_loop().create_future()

    async def main() -> None:
        task = asyncio.create_task(hold())
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        await settle()
        assert mutex.locked()
        del task
        collector = threading.Thread(target=gc.collect)
        collector.start()
        collector.join()
        await settle()
        assert not mutex.locked()
        with pytest.raises(Closed):
            receiver.try_recv()

    run(main())


async def use_mpmc(ends: Any) -> None:
    ends.sender.try_send(1)


async def use_broadcast(ends: Any) -> None:
    await ends.sender.send(1)


async def read_broadcast(ends: Any) -> None:
    ends.receiver.try_recv()


async def use_oneshot(ends: Any) -> None:
    ends.sender.send(1)


async def close(ends: Any) -> None:
    ends.receiver.close()


async def use_watch(ends: Any) -> None:
    ends.sender.send(1)


async def look(ends: Any) -> None:
    ends.receiver.get()


async def iterate(ends: Any) -> None:
    async for _ in ends.receiver:
        pass


async def race(ends: Any) -> None:
    await select(ends.receiver.recv(), asyncio.sleep(PATIENCE))


async def lock(mutex: Any) -> None:
    async with mutex:
        pass


async def spawn(tasks: Any) -> None:
    work = asyncio.sleep(0)
    try:
        tasks.spawn(work)
    finally:
        work.close()


async def join(tasks: Any) -> None:
    await tasks.join_next()


USES: list[tuple[Callable[[], Any], Callable[[Any], Coroutine[Any, Any, None]]]] = [
    (lambda: mpmc.Channel[int](2), use_mpmc),
    (lambda: mpmc.Channel[int](2), close),
    (lambda: mpmc.Channel[int](2), iterate),
    (lambda: mpmc.Channel[int](2), race),
    (lambda: broadcast.Channel[int](2), use_broadcast),
    (lambda: broadcast.Channel[int](2), read_broadcast),
    (lambda: oneshot.Channel[int](), use_oneshot),
    (lambda: oneshot.Channel[int](), race),
    (lambda: watch.Channel(0), use_watch),
    (lambda: watch.Channel(0), look),
    (lambda: Mutex(0), lock),
    (lambda: JoinSet[int](), spawn),
    (lambda: JoinSet[int](), join),
]


async def begin(subject: Any) -> None:
    """Use it in this loop, and leave nothing behind."""
    if isinstance(subject, JoinSet):
        subject.spawn(asyncio.sleep(0))
        await subject.join_next()
    elif isinstance(subject, Mutex):
        await lock(subject)
    elif hasattr(subject.sender, "subscribe"):
        subject.sender.subscribe().close()
    else:
        subject.receiver.clone().close() if hasattr(subject.receiver, "clone") else await select(
            subject.receiver.recv(), asyncio.sleep(0)
        )


@pytest.mark.parametrize(("make", "use"), USES)
def test_every_use_in_another_loop_raises(
    run: Run, make: Callable[[], Any], use: Callable[[Any], Coroutine[Any, Any, None]]
) -> None:
    subject = make()
    with Beside() as other:
        other.run(begin(subject))
        with pytest.raises(RuntimeError, match=r"another event loop.*test_binding.py:\d+.*test_binding.py:\d+"):
            run(use(subject))


def test_looking_is_allowed_anywhere(run: Run) -> None:
    queue, hub, state, mutex = mpmc.Channel[int](2), broadcast.Channel[int](2), watch.Channel(0), Mutex(0)

    async def look() -> None:
        repr([queue, hub, state, mutex])
        assert not mutex.locked()
        assert len(queue.receiver) == len(hub.receiver) == hub.sender.dropped == hub.receiver.missed == 0
        assert hub.sender.receivers == state.sender.receivers == 1
        assert state.sender.get() == 0
        assert not state.receiver.has_changed()

    with Beside() as other:
        for subject in (queue, hub, state, mutex):
            other.run(begin(subject))
        run(look())


def test_the_next_loop_takes_over_from_one_that_was_closed(run: Run) -> None:
    sender, receiver = mpmc.Channel[int](2)
    run(sender.send(1))
    run(sender.send(2))
    assert run(receiver.recv()) == 1


def test_between_the_runs_of_a_loop_no_loop_is_needed(run: Run) -> None:
    sender, receiver = mpmc.Channel[int](2)
    with asyncio.Runner() as runner:
        task = runner.get_loop().create_task(receiver.recv())
        runner.run(asyncio.sleep(0))
        sender.try_send(1)

        async def result() -> int:
            return await task

        assert runner.run(result()) == 1


@pytest.mark.parametrize("kind", [mpmc.Channel[int], broadcast.Channel[int]])
def test_with_threadsafe_every_loop_may_use_it(run: Run, kind: Callable[..., Any]) -> None:
    sender, receiver = kind(2, threadsafe=True)
    with Beside() as other:
        for number in range(10):
            other.run(sender.send(number))
            assert run(receiver.recv()) == number
            sender.try_send(number)
            assert other.run(receiver.recv()) == number


@pytest.mark.parametrize("debug", [False, True])
def test_a_future_of_another_loop_is_refused_and_in_debug_mode_with_both_places(debug: bool) -> None:
    places: list[str] = []

    async def make() -> "asyncio.Future[None]":
        asyncio.get_running_loop().set_debug(debug)
        places.append(here())
        return asyncio.get_running_loop().create_future()

    async def wait(future: "asyncio.Future[None]") -> None:
        places.append(here())
        await future

    with Beside(loopcore.new_event_loop) as other:
        future = other.run(make())
        with pytest.raises(RuntimeError, match="attached to a different loop") as caught:
            loopcore.run(wait(future))
        other.loop.call_soon_threadsafe(future.cancel)
    assert (f"created at {places[0]}" in str(caught.value)) == debug
    assert f"wait() running at {places[1]}" in str(caught.value)


def test_a_lock_of_asyncio_is_refused_when_it_has_to_wait(run: Run) -> None:
    """Not before: asyncio does not look at the loop of a lock that is free."""
    lock = asyncio.Lock()

    async def hold() -> None:
        async with lock, asyncio.timeout(0):
            async with lock:  # waits, which binds it
                pass

    async def wait() -> None:
        await lock.acquire()
        await lock.acquire()

    with Beside() as other:
        with pytest.raises(TimeoutError):
            other.run(hold())
        with pytest.raises(RuntimeError, match="is bound to a different event loop"):
            run(wait())


def test_threads_without_a_loop_may_share_what_no_loop_has_used() -> None:
    sender, receiver = mpmc.Channel[int](10)
    with ThreadPoolExecutor(2) as pool:
        pool.submit(sender.try_send, 1).result(PATIENCE)
        assert pool.submit(receiver.try_recv).result(PATIENCE) == 1
    assert block_on(sender.send(2)) is None
    assert block_on(receiver.recv()) == 2
