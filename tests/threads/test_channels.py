"""loopcore.sync between loops in threads, and threads without a loop: nothing is lost, doubled or out of order."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from loopcore.sync import (
    Closed,
    Mutex,
    Waker,
    block_on,
    broadcast,
    limit_blocking,
    mpmc,
    oneshot,
    select,
    spawn_blocking,
    watch,
)
from tests.threads.loops import LOOPS, PATIENCE, ROUNDS, Factory, Others, Threads, each, together

VALUES = 300 * ROUNDS


def test_mpmc_between_many_loops(factory: Factory) -> None:
    sender, receiver = mpmc.Channel[tuple[int, int]](5, threadsafe=True)
    senders = [sender, *[sender.clone() for _ in range(LOOPS - 1)]]

    def produce(name: int) -> Callable[[], Coroutine[Any, Any, list[Any]]]:
        async def main() -> list[Any]:
            with senders[name]:
                for number in range(VALUES):
                    await senders[name].send((name, number))
            return []

        return main

    async def consume() -> list[tuple[int, int]]:
        return [value async for value in receiver]

    *_, first, second = together(factory, *map(produce, range(LOOPS)), consume, consume)
    assert sorted(first + second) == [(name, number) for name in range(LOOPS) for number in range(VALUES)]
    for received in (first, second):
        for name in range(LOOPS):
            assert (own := [number for by, number in received if by == name]) == sorted(own)


def test_mpmc_with_receivers_that_give_up(factory: Factory) -> None:
    """A receive that is cancelled, or loses a `select`, takes nothing away."""
    sender, receiver = mpmc.Channel[int](2, threadsafe=True)

    async def produce() -> list[int]:
        with sender:
            for number in range(VALUES):
                await sender.send(number)
        return []

    async def consume() -> list[int]:
        got = []
        while True:
            receiving = asyncio.create_task(receiver.recv())
            await asyncio.sleep(0)
            receiving.cancel()
            try:
                got.append(await receiving)
            except asyncio.CancelledError:
                pass
            except Closed:
                return got
            try:
                selected = await select(receiver.recv(), asyncio.sleep(0, "nothing"))
            except Closed:
                return got
            if selected.branch == 0:
                got.append(selected.value)

    _, first, second = together(factory, produce, consume, consume)
    assert sorted(first + second) == list(range(VALUES))


def test_broadcast_to_all_loops(factory: Factory) -> None:
    sender, first = broadcast.Channel[int](8, overflow="wait", threadsafe=True)
    receivers = [first, *[sender.subscribe() for _ in range(LOOPS - 1)]]

    def consume(which: int) -> Callable[[], Coroutine[Any, Any, list[int]]]:
        async def main() -> list[int]:
            return [value async for value in receivers[which]]

        return main

    async def produce() -> list[int]:
        with sender:
            for number in range(VALUES):
                await sender.send(number)
                assert 0 <= sender.receivers <= LOOPS
        return []

    *seen, _ = together(factory, *map(consume, range(LOOPS)), produce)
    assert seen == [list(range(VALUES))] * LOOPS


def test_requests_with_a_oneshot_for_each_answer(factory: Factory) -> None:
    requests, serve = mpmc.Channel[tuple[int, oneshot.Sender[int]]](4, threadsafe=True)
    clones = [requests, *[requests.clone() for _ in range(LOOPS - 2)]]

    async def server() -> None:
        async for number, answer in serve:
            if number % 7 == 6:
                answer.close()
            else:
                answer.send(2 * number)

    def client(which: int) -> Callable[[], Coroutine[Any, Any, None]]:
        async def main() -> None:
            with clones[which]:
                for number in range(VALUES):
                    answer, question = oneshot.Channel[int](threadsafe=True)
                    await clones[which].send((number, answer))
                    try:
                        assert await question == 2 * number
                    except Closed:
                        assert number % 7 == 6

        return main

    together(factory, server, *map(client, range(LOOPS - 1)))


def test_the_last_value_of_a_watch_is_seen_by_all(factory: Factory) -> None:
    sender, first = watch.Channel(0, threadsafe=True)
    views = [first, *[sender.subscribe() for _ in range(LOOPS - 1)]]

    def look(which: int) -> Callable[[], Coroutine[Any, Any, None]]:
        async def main() -> None:
            last = 0
            async for value in views[which]:
                assert value > last
                last = value
                assert sender.get() >= value
            assert last == VALUES

        return main

    async def change() -> None:
        with sender:
            for number in range(VALUES):
                sender.send(number + 1)
                if number % 10 == 0:
                    await asyncio.sleep(0)

    together(factory, *map(look, range(LOOPS)), change)


def test_a_mutex_excludes_the_tasks_of_all_loops(factory: Factory) -> None:
    mutex, inside = Mutex(0, threadsafe=True), 0

    async def add(number: int) -> None:
        async def count() -> None:
            nonlocal inside
            for _ in range(20 * ROUNDS):
                async with mutex as guard:
                    inside += 1
                    before = guard.value
                    await asyncio.sleep(0)
                    guard.value = before + 1
                    assert inside == 1
                    inside -= 1
                mutex.locked()

        await asyncio.gather(count(), count())

    each(factory, add)

    async def look() -> int:
        async with mutex as guard:
            return guard.value

    assert block_on(look()) == LOOPS * 2 * 20 * ROUNDS


def test_no_wake_of_a_waker_is_lost(factory: Factory) -> None:
    """Two loops and a thread without one pass a turn on; each parks until it is its turn."""
    wakers, turn, turns = [Waker() for _ in range(3)], 0, 100 * ROUNDS

    async def play(me: int) -> None:
        nonlocal turn
        for _ in range(turns):
            while turn % 3 != me:
                await wakers[me].park()
            turn += 1
            wakers[turn % 3].wake()

    with Others(factory, 2) as others, Threads() as threads:
        threads.start(lambda: block_on(play(2), timeout=PATIENCE))
        jobs = [asyncio.run_coroutine_threadsafe(play(me), others.loops[me]) for me in range(2)]
        for job in jobs:
            job.result(PATIENCE)
    assert turn == 3 * turns


def test_wakes_of_many_threads(factory: Factory) -> None:
    waker, count = Waker(), 0
    lock = threading.Lock()

    async def park() -> None:
        while count < 4 * VALUES:
            await waker.park()

    def wake() -> None:
        nonlocal count
        for _ in range(VALUES):
            with lock:
                count += 1
            waker.clone().wake()

    with Others(factory, 1) as others:
        job = asyncio.run_coroutine_threadsafe(park(), others.loops[0])
        with Threads() as threads:
            for _ in range(4):
                threads.start(wake)
        job.result(PATIENCE)


def test_block_on_of_many_threads(factory: Factory) -> None:
    sender, receiver = mpmc.Channel[int](3, threadsafe=True)

    async def answer(number: int) -> int:
        await asyncio.sleep(0)
        return -number

    with Others(factory) as others:

        def ask(thread: int) -> None:
            for number in range(20 * ROUNDS):
                assert (
                    block_on(answer(number), loop=others.loops[(thread + number) % LOOPS], timeout=PATIENCE) == -number
                )
            block_on(sender.send(thread), loop=others.loops[0], timeout=PATIENCE)

        with Threads() as threads:
            for thread in range(3):
                threads.start(ask, thread)
    assert sorted(receiver.try_recv() for _ in range(3)) == [0, 1, 2]


def test_blocking_calls_of_several_loops_keep_to_their_limits(factory: Factory) -> None:
    async def main(number: int) -> None:
        limit_blocking(number + 1)
        running, most, lock = 0, 0, threading.Lock()

        def call(which: int) -> int:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            with lock:
                running -= 1
            return which

        calls = 30 * ROUNDS
        assert await asyncio.gather(*[spawn_blocking(call, which) for which in range(calls)]) == list(range(calls))
        assert most <= number + 1

    each(factory, main)


def test_a_channel_that_closes_while_all_loops_use_it(factory: Factory) -> None:
    for _ in range(5 * ROUNDS):
        sender, receiver = mpmc.Channel[int](1, threadsafe=True)
        senders = [sender.clone() for _ in range(LOOPS)]

        async def produce(which: int, senders: Any = senders) -> int:
            sent = 0
            try:
                while True:
                    await senders[which].send(sent)
                    sent += 1
            except Closed:
                return sent

        def end(receiver: Any = receiver) -> None:
            for _ in range(50):
                block_on(receiver.recv())
            receiver.close()

        with Threads() as threads:
            threads.start(end)
            assert 50 <= sum(each(factory, produce)) <= 51
        for each_sender in (sender, *senders):
            each_sender.close()
