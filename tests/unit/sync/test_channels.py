"""Channels between tasks: what programs see of them."""

import asyncio
import gc
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from loopcore.sync import Closed, Empty, Full, Lagged, Mutex, broadcast, mpmc, oneshot, watch


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(5):
        await asyncio.sleep(0)


async def cancelled(task: "asyncio.Task[Any]") -> bool:
    task.cancel()
    await asyncio.wait([task])
    return task.cancelled()


async def test_a_full_mpmc_channel_holds_senders_up() -> None:
    sender, receiver = mpmc.Channel[int](2)
    sent: list[int] = []

    async def produce() -> None:
        with sender:
            for value in range(6):
                await sender.send(value)
                sent.append(value)

    producer = asyncio.create_task(produce())
    await settle()
    assert sent == [0, 1]
    assert [value async for value in receiver] == [0, 1, 2, 3, 4, 5]
    await producer


async def test_an_operation_is_a_coroutine_for_a_task() -> None:
    sender, receiver = mpmc.Channel[str](1)
    task = asyncio.create_task(receiver.recv())
    await settle()
    await asyncio.wait_for(sender.send("value"), 30)
    assert await task == "value"


async def test_an_operation_is_used_once() -> None:
    sender, receiver = mpmc.Channel[str](2)
    sender.try_send("value")
    once = receiver.recv()
    assert await once == "value"
    with pytest.raises(RuntimeError, match="call the method again"):
        await once


async def test_a_value_survives_the_task_that_it_woke() -> None:
    sender, receiver = mpmc.Channel[str](1)
    first, second = asyncio.create_task(receiver.recv()), asyncio.create_task(receiver.recv())
    await settle()
    sender.try_send("value")
    assert await cancelled(first)
    assert await second == "value"


async def test_a_value_is_not_reserved_for_a_task_that_was_cancelled_before() -> None:
    sender, receiver = mpmc.Channel[str](1)
    first = asyncio.create_task(receiver.recv())
    await settle()
    first.cancel()
    sender.try_send("value")
    assert receiver.try_recv() == "value"
    assert await cancelled(first)


async def test_a_value_survives_a_dropped_task() -> None:
    sender, receiver = mpmc.Channel[str](1)
    dropped: Any = receiver.recv()
    dropped.send(None)
    second = asyncio.create_task(receiver.recv())
    await settle()
    sender.try_send("value")
    del dropped
    gc.collect()
    assert await second == "value"


async def test_a_send_that_is_cancelled_has_sent_nothing() -> None:
    sender, receiver = mpmc.Channel[str](1)
    sender.try_send("first")
    waiting = asyncio.create_task(sender.send("second"))
    await settle()
    assert receiver.try_recv() == "first"
    assert await cancelled(waiting)  # it was woken by then
    with pytest.raises(Empty):
        receiver.try_recv()
    sender.try_send("third")


async def test_who_comes_late_takes_nothing_from_who_waits() -> None:
    sender, receiver = mpmc.Channel[str](1)
    waiting = asyncio.create_task(receiver.recv())
    await settle()
    sender.try_send("value")
    with pytest.raises(Empty):
        receiver.try_recv()
    assert await waiting == "value"


async def test_a_closed_channel_gives_out_what_it_holds() -> None:
    sender, receiver = mpmc.Channel[int](5)
    another = sender.clone()
    sender.try_send(1)
    another.try_send(2)
    sender.close()
    with pytest.raises(Closed):
        sender.try_send(3)
    another.try_send(4)
    another.close()
    assert [value async for value in receiver] == [1, 2, 4]
    with pytest.raises(Closed):
        await receiver.recv()


async def test_a_closed_handle_takes_nothing_away_from_its_clones() -> None:
    sender, receiver = mpmc.Channel[int](1)
    closed = receiver.clone()
    closed.close()
    sender.try_send(1)
    with pytest.raises(Closed):
        closed.try_recv()
    with pytest.raises(Closed):
        await closed.recv()
    assert [value async for value in closed] == []
    assert receiver.try_recv() == 1


async def test_senders_learn_that_the_receiver_has_gone() -> None:
    sender, receiver = mpmc.Channel[int](1)
    sender.try_send(1)
    waiting = asyncio.create_task(sender.send(2))
    await settle()
    receiver.close()
    with pytest.raises(Closed):
        await waiting


async def test_a_slow_receiver_is_told_what_it_missed() -> None:
    sender, slow = broadcast.Channel[int](3)
    fast = sender.subscribe()
    for value in range(5):
        assert sender.try_send(value) == 2
        assert await fast.recv() == value
    sender.close()
    with pytest.raises(Lagged) as lagged:
        await slow.recv()
    assert lagged.value.missed == 2
    assert [value async for value in slow] == [2, 3, 4]
    assert slow.missed == 2


async def test_a_slow_receiver_that_is_closed_takes_nothing_from_the_others() -> None:
    sender, receiver = broadcast.Channel[int](2)
    other = sender.subscribe()
    for value in range(3):
        sender.try_send(value)
    receiver.close()
    with pytest.raises(Lagged):
        other.try_recv()
    assert [other.try_recv(), other.try_recv()] == [1, 2]


async def test_a_receiver_of_broadcast_that_is_closed_gives_its_wait_up() -> None:
    sender, receiver = broadcast.Channel[int](1)
    waiting = asyncio.create_task(receiver.recv())
    await settle()
    receiver.close()
    await settle()
    assert waiting.done()
    with pytest.raises(Closed):
        await waiting
    sender.close()


async def test_gaps_are_yielded_where_they_are() -> None:
    sender, receiver = broadcast.Channel[int](2)
    for value in range(5):
        sender.try_send(value)
    sender.close()
    seen = [item async for item in receiver.with_gaps()]
    assert isinstance(seen[0], Lagged)
    assert (seen[0].missed, seen[1:]) == (3, [3, 4])


async def test_a_waiting_broadcast_loses_nothing() -> None:
    async def collect(receiver: broadcast.Receiver[int]) -> list[int]:
        return [value async for value in receiver]

    sender, receiver = broadcast.Channel[int](2, overflow="wait")

    async def produce() -> None:
        with sender:
            for value in range(7):
                assert await sender.send(value) == 2

    another = sender.subscribe()
    producer = asyncio.create_task(produce())
    await settle()
    with pytest.raises(Full):
        sender.try_send(9)
    reader = asyncio.create_task(collect(another))
    assert [value async for value in receiver] == list(range(7)) == await reader
    await producer


async def test_a_receiver_that_leaves_makes_room() -> None:
    sender, receiver = broadcast.Channel[int](1, overflow="wait")
    sender.try_send(1)
    waiting = asyncio.create_task(sender.send(2))
    await settle()
    receiver.close()
    assert await waiting == 0


async def test_watch_shows_the_latest_value_only() -> None:
    sender, receiver = watch.Channel(0)
    waiting = asyncio.create_task(receiver.changed())
    await settle()
    sender.send(1)
    sender.modify(lambda value: value + 1)
    assert await waiting == 2
    assert not receiver.has_changed()
    over_five = asyncio.create_task(receiver.wait_for(lambda value: value > 5))
    for value in range(3, 9):
        sender.send(value)
        await settle()
    assert await over_five == 6
    sender.close()
    assert [value async for value in receiver] == [8]


async def test_a_value_that_a_receiver_of_watch_looked_at_is_seen() -> None:
    sender, receiver = watch.Channel("first")
    sender.send("second")
    assert receiver.has_changed()
    assert receiver.get() == "second"
    assert not receiver.has_changed()


async def test_a_closed_sender_of_oneshot_does_not_wait_to_be_abandoned() -> None:
    sender, receiver = oneshot.Channel[int]()
    sender.close()
    receiver.close()
    with pytest.raises(Closed, match="this handle"):
        sender.abandoned()


async def test_oneshot_brings_one_value() -> None:
    sender, receiver = oneshot.Channel[int]()
    waiting = asyncio.create_task(receiver.recv())
    await settle()
    sender.send(42)
    assert (await waiting, await receiver, receiver.try_recv()) == (42, 42, 42)
    with pytest.raises(Closed):
        sender.send(43)


async def test_oneshot_ends_without_a_value() -> None:
    sender, receiver = oneshot.Channel[int]()
    waiting = asyncio.create_task(receiver.recv())
    await settle()
    sender.close()
    with pytest.raises(Closed):
        await waiting
    unwanted, gone = oneshot.Channel[int]()
    abandoned = asyncio.create_task(unwanted.abandoned())
    await settle()
    gone.close()
    await abandoned
    with pytest.raises(Closed):
        unwanted.send(1)
    sent, _kept = oneshot.Channel[int]()
    sent.send(1)
    with pytest.raises(Closed):
        await sent.abandoned()


async def test_a_mutex_gives_its_value_to_one_task_at_a_time() -> None:
    mutex = Mutex(0)
    turns: list[str] = []

    async def add(name: str) -> None:
        async with mutex as guard:
            value = guard.value
            await asyncio.sleep(0)
            guard.value = value + 1
            turns.append(name)
        with pytest.raises(RuntimeError, match="inside `async with`"):
            guard.value = 9

    await asyncio.gather(*(add(name) for name in "abcde"))
    async with mutex as guard:
        assert (guard.value, turns) == (5, list("abcde"))


async def test_a_write_that_misses_the_value_of_a_mutex_is_an_error() -> None:
    mutex: Any = Mutex(0)
    with pytest.raises(TypeError):
        async with mutex as count:
            count += 1
    with pytest.raises(AttributeError):
        async with mutex as count:
            count.valeu = 1
    assert not mutex.locked()
    async with mutex as count:
        count.value += 1
    async with mutex as count:
        assert count.value == 1


async def test_the_guard_of_an_earlier_turn_gives_no_access_in_a_later_one() -> None:
    mutex = Mutex("first")
    async with mutex as earlier:
        pass
    async with mutex as later:
        later.value = "second"
        with pytest.raises(RuntimeError, match="inside `async with`"):
            earlier.value


async def test_a_mutex_is_not_locked_if_there_is_no_memory_for_its_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Any:
        raise MemoryError

    monkeypatch.setattr("loopcore.sync.mutex.Guard", fail)
    mutex = Mutex(0)
    with pytest.raises(MemoryError):
        await mutex.__aenter__()
    assert not mutex.locked()


async def test_a_turn_is_passed_on_by_who_is_cancelled() -> None:
    mutex = Mutex([1])

    async def use() -> int:
        async with mutex as guard:
            return guard.value[0]

    async with mutex:
        first, second = asyncio.create_task(use()), asyncio.create_task(use())
        await settle()
    assert await cancelled(first)
    assert await second == 1


def let_go(ends: list[Any]) -> None:
    """Drop what may be the last references, and collect where nobody counts them."""
    ends.clear()
    gc.collect()


@pytest.mark.parametrize(
    "make", [lambda: mpmc.Channel[int](1), lambda: broadcast.Channel[int](1), lambda: oneshot.Channel[int]()]
)
async def test_a_sender_that_is_dropped_while_somebody_waits_is_warned_of(make: Callable[[], Any]) -> None:
    sender, receiver = make()
    ends = [sender]
    del sender
    waiting = asyncio.create_task(receiver.recv())
    await settle()
    with pytest.warns(ResourceWarning, match=r"dropped without close\(\)"):
        let_go(ends)
    assert await cancelled(waiting)


async def test_a_receiver_of_oneshot_that_is_dropped_while_a_sender_waits_is_warned_of() -> None:
    sender, receiver = oneshot.Channel[int]()
    ends = [receiver]
    del receiver
    waiting = asyncio.create_task(sender.abandoned())
    await settle()
    with pytest.warns(ResourceWarning, match=r"dropped without close\(\)"):
        let_go(ends)
    assert await cancelled(waiting)


async def test_an_end_of_oneshot_whose_own_wait_goes_on_is_dropped_silently() -> None:
    sender, receiver = oneshot.Channel[int]()
    other, kept = oneshot.Channel[int]()
    ends: list[Any] = [receiver, other]
    value, abandoned = asyncio.create_task(receiver.recv()), asyncio.create_task(other.abandoned())
    del receiver, other
    await settle()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        let_go(ends)
    assert caught == []
    sender.send(1)
    kept.close()
    assert await value == 1
    await abandoned


def test_a_channel_that_nobody_waits_for_is_dropped_silently() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mpmc.Channel[int](1)
        broadcast.Channel[int](1).sender.try_send(1)
        gc.collect()


def test_a_local_channel_is_of_one_loop() -> None:
    sender, receiver = mpmc.Channel[int](1)
    first, second = asyncio.SelectorEventLoop(), asyncio.SelectorEventLoop()
    try:
        waiting = first.create_task(receiver.recv())
        first.run_until_complete(asyncio.sleep(0))
        with pytest.raises(RuntimeError, match="threadsafe=True"):
            second.run_until_complete(receiver.recv())
        sender.try_send(1)
        assert first.run_until_complete(waiting) == 1
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize("make", [mpmc.Channel, broadcast.Channel])
def test_a_channel_holds_one_value_at_least(make: Any) -> None:
    with pytest.raises(ValueError, match="1 value or more"):
        make(0)


def test_an_unknown_overflow_is_refused() -> None:
    with pytest.raises(ValueError, match="lag, wait, drop_new"):
        broadcast.Channel[int](1, overflow="block")  # type: ignore[arg-type]
