"""Posting from other threads while the loop runs, stops and is closed: each callback once, in order, and none lost.

Bounded by counts, never by time. Meant for free-threaded Pythons and right on all: there several threads are inside
`call_soon_threadsafe` at the same instant, elsewhere between any two of its steps.
"""

import asyncio
import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from loopcore import hookimpl
from loopcore.kernel import inbox
from loopcore.kernel.flags import HAS_GIL
from loopcore.kernel.limits import POSTS_BEFORE_YIELD

Loop = asyncio.AbstractEventLoop
WRITERS = 6
POSTS = 200
ROUNDS = 8


def in_threads(*functions: Callable[[], None]) -> list[threading.Thread]:
    """Start each function in a thread of its own, all past one barrier."""
    start = threading.Barrier(len(functions))

    def released(function: Callable[[], None]) -> None:
        start.wait()
        function()

    threads = [threading.Thread(target=released, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    return threads


def test_posts_of_many_threads_run_once_each_and_in_the_order_of_their_thread(loop: Loop) -> None:
    ran: list[list[int]] = [[] for _ in range(WRITERS)]
    left = WRITERS

    def end() -> None:
        nonlocal left
        left -= 1
        if not left:
            loop.stop()

    def writer(mine: list[int]) -> Callable[[], None]:
        def post() -> None:
            for number in range(POSTS):
                loop.call_soon_threadsafe(mine.append, number)
            loop.call_soon_threadsafe(end)

        return post

    threads = in_threads(*map(writer, ran))
    loop.run_forever()
    for thread in threads:
        thread.join()
    assert ran == [list(range(POSTS))] * WRITERS


@pytest.mark.loopcore_only
@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="nobody waits for a GIL")
def test_a_flood_of_posts_lets_the_loop_run_although_nobody_takes_the_gil_from_the_thread(loop: Loop) -> None:
    ran: list[int] = []
    ran_at_the_end: list[int] = []
    posts = 40 * POSTS_BEFORE_YIELD
    runs = threading.Event()
    loop.call_soon(runs.set)

    def flood() -> None:
        runs.wait()
        for number in range(posts):
            loop.call_soon_threadsafe(ran.append, number)
        ran_at_the_end.append(len(ran))
        loop.call_soon_threadsafe(loop.stop)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)
    try:
        (thread,) = in_threads(flood)
        loop.run_forever()
        thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert ran == list(range(posts))
    assert ran_at_the_end[0] >= POSTS_BEFORE_YIELD


@pytest.mark.loopcore_only
def test_posts_of_the_own_thread_and_to_a_loop_that_does_not_run_never_sleep(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def post() -> None:
        for _ in range(2 * POSTS_BEFORE_YIELD):
            loop.call_soon_threadsafe(ran.append, 1)

    ran: list[int] = []
    slept: list[float] = []
    monkeypatch.setattr(inbox, "sleep", slept.append)
    post()
    loop.call_soon(post)
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert len(ran) == 4 * POSTS_BEFORE_YIELD
    assert not slept


@pytest.mark.loopcore_only
@pytest.mark.parametrize("closes", [False, True])
def test_what_a_thread_posts_before_it_gives_way_is_run_later_or_cancelled_if_the_loop_ends_meanwhile(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, closes: bool
) -> None:
    ran: list[int] = []
    handles: list[asyncio.Handle] = []
    refused: list[RuntimeError] = []
    runs, sleeps, ended = threading.Event(), threading.Event(), threading.Event()

    def sleep(seconds: float) -> None:
        sleeps.set()
        assert ended.wait(30)

    def flood() -> None:
        runs.wait()
        try:
            for number in range(POSTS_BEFORE_YIELD):
                handles.append(loop.call_soon_threadsafe(ran.append, number))
        except RuntimeError as exc:
            refused.append(exc)

    def stop_while_it_sleeps() -> None:
        runs.set()
        assert sleeps.wait(30)
        loop.stop()

    monkeypatch.setattr(inbox, "sleep", sleep)
    (thread,) = in_threads(flood)
    loop.call_soon(stop_while_it_sleeps)
    loop.run_forever()
    if closes:
        loop.close()
    ended.set()
    thread.join()
    if closes:
        assert len(refused) == 1  # the last one, whose handle nobody has
        assert all(handle.cancelled() for handle in handles)
    else:
        loop.call_soon(loop.stop)
        loop.run_forever()
    assert ran == ([] if closes else list(range(POSTS_BEFORE_YIELD)))


def test_threads_that_hand_a_turn_round_are_never_left_waiting(loop: Loop) -> None:
    """One post at a time, each to a loop that has nothing else to do: a lost wake would hang here."""
    turns = [threading.Event() for _ in range(WRITERS)]
    rounds = 100

    def member(number: int) -> Callable[[], None]:
        def take_turns() -> None:
            for _ in range(rounds):
                turns[number].wait()
                turns[number].clear()
                loop.call_soon_threadsafe(turns[(number + 1) % WRITERS].set)
            if number == WRITERS - 1:
                loop.call_soon_threadsafe(loop.stop)

        return take_turns

    threads = in_threads(*map(member, range(WRITERS)))
    turns[0].set()
    loop.run_forever()
    for thread in threads:
        thread.join()
    assert turns[0].is_set()  # handed on by the last one, and by nobody else
    assert not any(turn.is_set() for turn in turns[1:])


@pytest.mark.loopcore_only  # asyncio drops what comes between its look and the closing, and says nothing
def test_a_post_to_a_loop_that_is_being_closed_runs_or_is_refused_or_cancelled(loop_factory: Any) -> None:
    for _ in range(ROUNDS):
        loop = loop_factory()
        ran: list[list[int]] = [[] for _ in range(WRITERS)]
        handles: list[list[Any]] = [[] for _ in range(WRITERS)]
        refused = [0] * WRITERS

        def writer(
            number: int, loop: Loop = loop, ran: Any = ran, handles: Any = handles, refused: Any = refused
        ) -> Any:
            def post() -> None:
                for post in range(POSTS):
                    try:
                        handles[number].append(loop.call_soon_threadsafe(ran[number].append, post))
                    except RuntimeError:
                        refused[number] += 1
                        return

            return post

        def owner(loop: Loop = loop, ran: Any = ran) -> None:
            while not any(ran):  # at least one post has come through
                loop.call_soon(loop.stop)
                loop.run_forever()
            loop.close()

        for thread in in_threads(owner, *map(writer, range(WRITERS))):
            thread.join()
        for mine, own, refusals in zip(ran, handles, refused, strict=True):
            cancelled = [handle.cancelled() for handle in own]
            assert mine == [post for post, gone in enumerate(cancelled) if not gone]
            assert refusals or len(own) == POSTS


@pytest.mark.loopcore_only
def test_what_was_ready_when_the_loop_was_closed_says_that_it_will_not_run(loop: Loop) -> None:
    handles = [loop.call_soon(print), loop.call_soon_threadsafe(print)]
    thread = threading.Thread(target=lambda: handles.append(loop.call_soon_threadsafe(print)))
    thread.start()
    thread.join()
    loop.close()
    assert [handle.cancelled() for handle in handles] == [True, True, True]


@pytest.mark.loopcore_only
def test_loops_of_several_threads_post_to_each_other(loop_factory: Any) -> None:
    loops = [loop_factory() for _ in range(4)]
    counts = [0] * len(loops)
    hops = 100

    def arrive(place: int, left: int) -> None:
        counts[place] += 1
        after = (place + 1) % len(loops)
        if left:
            loops[after].call_soon_threadsafe(arrive, after, left - 1)
        else:
            for loop in loops:
                loop.call_soon_threadsafe(loop.stop)

    loops[0].call_soon_threadsafe(arrive, 0, hops * len(loops) - 1)
    for thread in in_threads(*(loop.run_forever for loop in loops)):
        thread.join()
    assert counts == [hops] * len(loops)


async def test_order_on_the_own_thread_does_not_depend_on_who_names_threads(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []
    # As gevent does, whose greenlets are threads to the program and are not to compiled code.
    monkeypatch.setattr(threading, "get_ident", lambda: 1)
    loop.call_soon_threadsafe(ran.append, 1)
    loop.call_soon(ran.append, 2)
    for _ in range(3):
        await asyncio.sleep(0)
    assert ran == [1, 2]


def test_posts_that_grow_the_queue_while_the_loop_takes_from_it_all_run_in_order(loop: Loop) -> None:
    """Threads that change places at every step, and a collector that finalizes in the middle of them."""
    ran: list[list[int]] = [[] for _ in range(WRITERS + 1)]
    left = WRITERS

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            finalized.append(1)

    finalized: list[int] = []

    def end() -> None:
        nonlocal left
        left -= 1
        if not left:
            loop.stop()

    def writer(mine: list[int]) -> Callable[[], None]:
        def post() -> None:
            for number in range(POSTS):
                Cycle()
                loop.call_soon_threadsafe(mine.append, number)
            loop.call_soon_threadsafe(end)

        return post

    def chain(number: int) -> None:
        ran[WRITERS].append(number)
        if number < POSTS:
            loop.call_soon(chain, number + 1)

    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(5)
    try:
        loop.call_soon(chain, 0)
        threads = in_threads(*map(writer, ran[:WRITERS]))
        loop.run_forever()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*threshold)
    while ran[WRITERS][-1] < POSTS:
        loop.run_until_complete(asyncio.sleep(0))
    assert ran == [*[list(range(POSTS))] * WRITERS, list(range(POSTS + 1))]
    gc.collect()
    assert len(finalized) == WRITERS * POSTS


def test_what_is_posted_to_a_loop_that_runs_does_not_overtake_what_was_posted_before(loop: Loop) -> None:
    ran: list[int] = []

    def post(*numbers: int) -> None:
        for number in numbers:
            loop.call_soon_threadsafe(ran.append, number)

    def first() -> None:
        (thread,) = in_threads(lambda: post(2, 3))
        thread.join()
        loop.call_soon(loop.stop)

    (thread,) = in_threads(lambda: post(0, 1))
    thread.join()
    loop.call_soon(first)
    loop.run_forever()
    assert ran == [0, 1, 2, 3]


@pytest.mark.loopcore_only
def test_a_post_that_a_loop_has_no_time_for_is_cancelled_when_it_is_closed(loop: Loop) -> None:
    handles: list[asyncio.Handle] = []

    def stop() -> None:
        (thread,) = in_threads(lambda: handles.append(loop.call_soon_threadsafe(print)))
        thread.join()
        loop.stop()

    loop.call_soon(stop)
    loop.run_forever()
    loop.close()
    assert handles[0].cancelled()


@pytest.mark.loopcore_only
@pytest.mark.parametrize("way", ["push raises", "taken out"])
def test_what_is_posted_while_an_order_gives_back_does_not_overtake(loop: Any, way: str) -> None:
    ran: list[int] = []

    def note(number: int) -> None:
        ran.append(number)
        if len(ran) == 4:
            loop.stop()

    def post(*numbers: int) -> None:
        (thread,) = in_threads(lambda: [loop.call_soon_threadsafe(note, number) for number in numbers] and None)
        thread.join()

    class Order:
        def __init__(self) -> None:
            self.entries: list[Any] = []

        def push(self, runnable: Any) -> None:
            if way == "push raises":
                post(3)
                raise ValueError("no")
            self.entries.append(runnable)

        def pop(self) -> Any:
            if len(self.entries) == 3:
                post(3)
            return self.entries.pop(0) if self.entries else None

    class Plugin:
        @hookimpl
        def loopcore_make_ready_queue(self) -> Order:
            return Order()

    def first() -> None:
        loop.probes.register(plugin)
        if way == "taken out":
            loop.call_soon(loop.probes.unregister, plugin)
        post(0, 1, 2)

    plugin = Plugin()
    loop.call_soon(first)
    loop.run_forever()
    assert ran == [0, 1, 2, 3]


@pytest.mark.skipif(
    HAS_GIL and sys.version_info < (3, 14),
    reason="before Python 3.14 and with a GIL handles are cancelled in the loop's thread only",
)
@pytest.mark.parametrize("method", ["cancel", "cancelled"])
def test_a_thread_that_asks_for_a_callback_that_runs_is_answered_after_it(loop: Loop, method: str) -> None:
    """Issue 33: the program may then free what the callback uses. In its own callback a handle answers at once."""
    began, asked, ended = threading.Event(), threading.Event(), threading.Event()
    seen: list[Any] = []
    handles: list[asyncio.Handle] = []

    def callback() -> None:
        began.set()
        asked.wait()
        handles[0].cancel()
        seen.append("callback")
        ended.set()

    def post() -> None:
        handles.append(loop.call_soon_threadsafe(callback))
        began.wait()
        asked.set()
        seen.append(getattr(handles[0], method)())
        assert ended.is_set()
        loop.call_soon_threadsafe(loop.stop)

    thread = threading.Thread(target=post)
    thread.start()
    loop.run_forever()
    thread.join()
    assert seen == ["callback", None if method == "cancel" else True]


def test_a_callback_that_was_cancelled_in_another_thread_before_it_began_never_runs(loop: Loop) -> None:
    ran: list[int] = []
    cancelled = threading.Event()

    def post() -> None:
        loop.call_soon_threadsafe(ran.append, 1).cancel()
        cancelled.set()
        loop.call_soon_threadsafe(loop.stop)

    loop.call_soon(cancelled.wait)
    thread = threading.Thread(target=post)
    thread.start()
    loop.run_forever()
    thread.join()
    assert ran == []
