"""Threads that post to loops: everything arrives, once, in the order of each thread, and no loop sleeps on it."""

import asyncio
import concurrent.futures
import contextlib
import sys
import threading
from collections import defaultdict
from typing import Any

import pytest

from tests.threads.loops import HAS_GIL, LOOPS, PATIENCE, ROUNDS, Factory, Others, Threads, bounded, each, together

POSTS = 1000 * ROUNDS
POSTERS = 4
threads_cancel = pytest.mark.skipif(
    HAS_GIL and sys.version_info < (3, 14), reason="with a GIL, threads may cancel from Python 3.14 on"
)


def test_all_posts_arrive_in_the_order_of_each_thread(factory: Factory) -> None:
    arrived: list[dict[int, list[int]]] = [defaultdict(list) for _ in range(LOOPS)]
    complete = [threading.Event() for _ in range(LOOPS)]
    left = [POSTS * POSTERS] * LOOPS

    def note(loop: int, poster: int, number: int) -> None:
        arrived[loop][poster].append(number)
        left[loop] -= 1
        if not left[loop]:
            complete[loop].set()

    with Others(factory) as others:

        def post(poster: int) -> None:
            for number in range(POSTS):
                for loop in range(LOOPS):
                    others.loops[loop].call_soon_threadsafe(note, loop, poster, number)

        with Threads() as threads:
            for poster in range(POSTERS):
                threads.start(post, poster)
        for event in complete:
            assert event.wait(PATIENCE)
    assert arrived == [{poster: list(range(POSTS)) for poster in range(POSTERS)}] * LOOPS


def test_loops_that_only_wake_each_other_never_sleep_on(factory: Factory) -> None:
    """One post at a time: a single wake-up that is lost ends this."""
    with Others(factory, 2) as others:
        done = threading.Event()

        def hit(left: int) -> None:
            if left:
                others.loops[left % 2].call_soon_threadsafe(hit, left - 1)
            else:
                done.set()

        others.loops[0].call_soon_threadsafe(hit, 2000 * ROUNDS)
        assert done.wait(PATIENCE)


def test_coroutines_of_many_threads_return_to_them(factory: Factory) -> None:
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        if number % 10 == 9:
            raise ValueError(number)
        return 2 * number

    with Others(factory) as others:

        def ask(thread: int) -> None:
            for number in range(50 * ROUNDS):
                job = asyncio.run_coroutine_threadsafe(double(number), others.loops[(thread + number) % LOOPS])
                if number % 10 == 9:
                    with pytest.raises(ValueError, match=str(number)):
                        job.result(PATIENCE)
                else:
                    assert job.result(PATIENCE) == 2 * number

        with Threads() as threads:
            for thread in range(POSTERS):
                threads.start(ask, thread)


def test_coroutines_are_cancelled_from_the_thread_that_asked(factory: Factory) -> None:
    ended: list[int] = []

    async def sleep(number: int, begun: threading.Event) -> None:
        try:
            begun.set()
            await asyncio.sleep(3600)
        finally:
            ended.append(number)

    with Others(factory) as others:

        def ask(thread: int) -> None:
            for number in range(30 * ROUNDS):
                begun = threading.Event()
                job = asyncio.run_coroutine_threadsafe(sleep(number, begun), others.loops[(thread + number) % LOOPS])
                if number % 2:
                    assert begun.wait(PATIENCE)  # otherwise it is cancelled before it begins, or as it does
                job.cancel()
                with pytest.raises(concurrent.futures.CancelledError):
                    job.result(PATIENCE)

        with Threads() as threads:
            for thread in range(POSTERS):
                threads.start(ask, thread)
        for loop in range(LOOPS):
            others.run(loop, settled())
    assert len([number for number in ended if number % 2]) == POSTERS * 15 * ROUNDS


async def settled() -> None:
    """Wait for all other tasks of this loop."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_handle_that_another_thread_cancels_runs_at_most_once(factory: Factory, is_late: bool) -> None:
    """The thread cancels at once, or while the loop runs the callbacks before it, or the callback itself."""
    runs = [[0] * (300 * ROUNDS) for _ in range(LOOPS)]

    def run(loop: int, number: int) -> None:
        runs[loop][number] += 1

    with Others(factory) as others:

        def post(loop: int) -> None:
            posted = []
            for number in range(300 * ROUNDS):
                posted.append(others.loops[loop].call_soon_threadsafe(run, loop, number))
                if not is_late:
                    posted[-1].cancel()
            for handle in posted:
                handle.cancel()
                assert handle.cancelled()

        with Threads() as threads:
            for loop in range(LOOPS):
                threads.start(post, loop)
        for loop in range(LOOPS):
            others.run(loop, asyncio.sleep(0))
    assert all(count <= 1 for counts in runs for count in counts)


@threads_cancel
def test_a_cancelled_handle_does_not_run_any_more_when_cancel_returns(factory: Factory) -> None:
    """Not even when it was running as another thread cancelled it: `cancel` waits (gh-126083)."""
    with Others(factory) as others:

        def post(loop: int) -> None:
            for _ in range(100 * ROUNDS):
                running, steps = threading.Event(), [0]

                def run(running: threading.Event = running, steps: list[int] = steps) -> None:
                    running.set()
                    for _ in range(50):
                        steps[0] += 1

                handle = others.loops[loop].call_soon_threadsafe(run)
                assert running.wait(PATIENCE)
                handle.cancel()
                assert steps == [50]

        with Threads() as threads:
            for loop in range(LOOPS):
                threads.start(post, loop)


def test_a_post_to_a_loop_that_closes_is_refused_or_dropped_but_never_hangs(factory: Factory) -> None:
    for _ in range(5 * ROUNDS):
        ran: list[int] = []
        loop = factory()
        begun = threading.Event()

        def post(loop: asyncio.AbstractEventLoop = loop, begun: threading.Event = begun, ran: Any = ran) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                for number in range(1000):
                    loop.call_soon_threadsafe(ran.append, number)
                    begun.set()

        with Threads() as threads:
            threads.start(post)
            threads.start(post)
            loop.call_soon(lambda begun=begun: begun.wait(PATIENCE))
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()
        assert ran
        with pytest.raises(RuntimeError, match="closed"):
            loop.call_soon_threadsafe(int)


def test_futures_are_completed_across_loops(factory: Factory) -> None:
    """Each loop waits for a future that its neighbour completes, by a post to it."""
    places: list[tuple[Any, Any]] = [(None, None)] * LOOPS
    barrier = threading.Barrier(LOOPS)

    async def main(number: int) -> None:
        loop = asyncio.get_running_loop()
        for turn in range(50 * ROUNDS):
            future = loop.create_future()
            places[number] = loop, future
            await loop.run_in_executor(None, barrier.wait, PATIENCE)
            other, theirs = places[(number + 1) % LOOPS]
            other.call_soon_threadsafe(theirs.set_result, (number, turn))
            assert await future == ((number - 1) % LOOPS, turn)
            await loop.run_in_executor(None, barrier.wait, PATIENCE)

    each(factory, main)


def test_timers_and_posts_mix(factory: Factory) -> None:
    """A loop that sleeps towards a timer is woken by a post, and sleeps on for the rest."""
    with Others(factory) as others:

        async def sleep() -> None:
            for _ in range(20 * ROUNDS):
                await asyncio.sleep(0.001)

        def post() -> None:
            for number in range(200 * ROUNDS):
                others.loops[number % LOOPS].call_soon_threadsafe(int)

        with Threads() as threads:
            sleeping = [asyncio.run_coroutine_threadsafe(bounded(sleep()), loop) for loop in others.loops]
            threads.start(post)
        for job in sleeping:
            job.result(PATIENCE)


def test_wrapped_futures_of_a_pool_reach_their_loops(factory: Factory) -> None:
    """`wrap_future`: a concurrent future that all loops wait for at the same time."""
    for _ in range(20 * ROUNDS):
        shared: concurrent.futures.Future[int] = concurrent.futures.Future()
        entered = threading.Barrier(LOOPS + 1)

        async def main(shared: Any = shared, entered: threading.Barrier = entered) -> int:
            future = asyncio.wrap_future(shared)
            await asyncio.get_running_loop().run_in_executor(None, entered.wait, PATIENCE)
            return await future

        async def complete(shared: Any = shared, entered: threading.Barrier = entered) -> int:
            await asyncio.get_running_loop().run_in_executor(None, entered.wait, PATIENCE)
            shared.set_result(7)
            return 7

        assert together(factory, *[main] * LOOPS, complete) == [7] * (LOOPS + 1)
