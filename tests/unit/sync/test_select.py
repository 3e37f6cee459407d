"""select: one winner, and losers that took nothing."""

import asyncio
import gc
import inspect
import typing
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopcore.sync import Closed, Empty, JoinSet, Lagged, Mutex, Waker, broadcast, mpmc, oneshot, select, watch
from tests.unit.sync.conftest import FACTORIES
from tests.unit.sync.test_channels import cancelled, settle


async def test_the_first_that_is_ready_wins() -> None:
    first, one = mpmc.Channel[str](1)
    second, two = mpmc.Channel[str](1)
    second.try_send("two")
    assert await select(one.recv(), two.recv()) == (1, "two", ())
    waiting = asyncio.create_task(select(one.recv(), two.recv()))
    await settle()
    first.try_send("one")
    second.try_send("two")
    assert await waiting == (0, "one", ())
    assert two.try_recv() == "two"


async def test_an_operation_wins_against_tasks_that_end() -> None:
    ended: list[str] = []

    async def work(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    sender, receiver = mpmc.Channel[str](1)
    waiting = asyncio.create_task(select(work("a"), receiver.recv(), work("b")))
    await settle()
    sender.try_send("value")
    assert await waiting == (1, "value", ())
    assert ended == ["a", "b"]
    assert await select(work("never begun"), asyncio.sleep(0, "slept")) == (1, "slept", ())
    sender.try_send("at once")
    assert await select(work("not even a task"), receiver.recv()) == (1, "at once", ())
    assert ended == ["a", "b", "never begun"]


async def test_what_finished_in_the_same_moment_is_handed_over() -> None:
    gate = asyncio.Event()

    async def pass_through(name: str) -> str:
        await gate.wait()
        return name

    waiting = asyncio.create_task(select(pass_through("a"), pass_through("b")))
    await settle()
    gate.set()
    assert await waiting == (0, "a", ((1, "b"),))


async def test_a_cancelled_select_has_taken_nothing() -> None:
    sender, receiver = mpmc.Channel[str](1)
    waiting = asyncio.create_task(select(receiver.recv(), asyncio.Event().wait()))
    await settle()
    sender.try_send("value")  # woken, and then:
    assert await cancelled(waiting)
    assert receiver.try_recv() == "value"


async def test_a_select_cancelled_while_a_loser_ends_has_taken_nothing() -> None:
    sender, receiver = mpmc.Channel[str](1)
    at_end, may_end = asyncio.Event(), asyncio.Event()

    async def end_slowly() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            at_end.set()
            while not may_end.is_set():
                try:
                    await may_end.wait()
                except asyncio.CancelledError:
                    continue

    waiting = asyncio.create_task(select(receiver.recv(), end_slowly()))
    await settle()
    sender.try_send("value")
    await at_end.wait()
    waiting.cancel()
    await settle()
    assert not waiting.done()  # the loser has not ended
    may_end.set()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert receiver.try_recv() == "value"


async def test_every_kind_of_operation_can_be_selected() -> None:
    full, _ = mpmc.Channel[int](1)
    full.try_send(1)
    news, reader = broadcast.Channel[int](1)
    state, view = watch.Channel(0)
    answer, question = oneshot.Channel[int]()
    waker = Waker()
    branches: list[Callable[[], Any]] = [
        lambda: full.send(2),
        reader.recv,
        view.changed,
        question.recv,
        waker.park,
    ]
    triggers: list[Callable[[], Any]] = [
        _.try_recv,
        lambda: news.try_send(7),
        lambda: state.send(8),
        lambda: answer.send(9),
        waker.wake,
    ]
    for index in (4, 3, 2, 1, 0):
        waiting = asyncio.create_task(select(*(branch() for branch in branches[: index + 1])))
        await settle()
        triggers[index]()
        selected = await waiting
        assert (selected.branch, selected.value) == (index, [None, 7, 8, 9, None][index])
    assert _.try_recv() == 2


async def test_a_lost_lock_is_not_held() -> None:
    mutex = Mutex(1)

    async def lock() -> str:
        async with mutex:
            return "locked"

    async with mutex:
        assert (await select(lock(), asyncio.sleep(0))).branch == 1
    assert not mutex.locked()


async def test_a_select_that_is_dropped_gives_back() -> None:
    sender, receiver = mpmc.Channel[str](1)
    dropped: Any = select(receiver.recv(), receiver.recv())
    dropped.send(None)
    sender.try_send("value")
    dropped.close()
    del dropped
    gc.collect()
    assert receiver.try_recv() == "value"


@pytest.mark.parametrize("sent", ["after it has looked", "before it runs"])
async def test_a_select_that_is_woken_for_nothing_keeps_its_place(sent: str) -> None:
    setting, shared = watch.Channel(0)
    sender, receiver = mpmc.Channel[str](2)
    quicker = asyncio.create_task(shared.changed())
    waiting = asyncio.create_task(select(shared.changed(), receiver.recv()))
    await settle()
    later = asyncio.create_task(receiver.recv())
    await settle()
    setting.send(1)
    if sent == "after it has looked":
        await settle()
    sender.try_send("to the first in line")
    await settle()
    assert not later.done()
    assert await quicker == 1
    assert await waiting == (1, "to the first in line", ())
    await cancelled(later)


async def test_a_select_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one awaitable"):
        await select()


async def end_when(gate: asyncio.Event, at_end: asyncio.Event) -> None:
    """Go on after a first cancellation until `gate` is open."""
    try:
        await asyncio.Event().wait()
    finally:
        at_end.set()
        await gate.wait()


def shared_by_tasks(kind: str) -> tuple[Callable[[], Any], Callable[[], Any], Any]:
    """Return what brings a value to a receiver, what waits for it, and the value."""
    if kind == "broadcast":
        sender, receiver = broadcast.Channel[str](2)
        return lambda: sender.try_send("value"), receiver.recv, "value"
    if kind == "watch":
        state, view = watch.Channel("")
        return lambda: state.send("value"), view.changed, "value"
    waker = Waker()
    return waker.wake, waker.park, None


SHARED = pytest.mark.parametrize("kind", ["broadcast", "watch", "waker"])


@SHARED
async def test_tasks_that_share_a_receiver_keep_their_other_branches(kind: str) -> None:
    """One value goes to one of them; the other goes on waiting, and its time-out still counts."""
    bring, wait, value = shared_by_tasks(kind)
    timeouts = [asyncio.Event(), asyncio.Event()]
    tasks = [asyncio.create_task(select(wait(), timeout.wait())) for timeout in timeouts]
    await settle()
    bring()
    await settle()
    assert await tasks[0] == (0, value, ())
    assert not tasks[1].done()
    timeouts[1].set()
    await settle()
    assert tasks[1].done()
    assert tasks[1].result() == (1, True, ())


@SHARED
async def test_what_a_cancelled_select_was_to_have_goes_to_who_shares_the_receiver(kind: str) -> None:
    bring, wait, value = shared_by_tasks(kind)
    gate, at_end = asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(select(wait(), end_when(gate, at_end)))
    await settle()
    second = asyncio.create_task(select(wait(), asyncio.Event().wait()))
    await settle()
    bring()
    await at_end.wait()
    await settle()
    assert not second.done()  # the value is promised to the first, whose loser has not ended
    first.cancel()
    await asyncio.wait([first])
    assert first.cancelled()
    assert await second == (0, value, ())


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_who_shares_a_receiver_of_watch_waits_for_a_reserved_last_value(is_cancelled: bool) -> None:
    state, view = watch.Channel("")
    gate, at_end = asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(select(view.changed(), end_when(gate, at_end)))
    await settle()
    state.send("last")
    await at_end.wait()
    others = [asyncio.create_task(view.changed())]
    await settle()
    state.close()
    others.append(asyncio.create_task(view.changed()))
    selecting = asyncio.create_task(select(view.changed(), asyncio.Event().wait()))
    await settle()
    assert not any(task.done() for task in (*others, selecting))
    if is_cancelled:
        first.cancel()
        await asyncio.wait([first])
        await settle()
        assert others.pop(0).result() == "last"
    else:
        gate.set()
        assert await first == (0, "last", ())
    for task in (*others, selecting):
        with pytest.raises(Closed):
            await task
    with pytest.raises(Closed):
        await view.wait_for(lambda value: value == "other")


async def test_a_condition_that_was_met_decides() -> None:
    """The value changes back while the losers end: `select` does not wait for it a second time, without them."""
    state, view = watch.Channel(0)
    gate, at_end = asyncio.Event(), asyncio.Event()
    waiting = asyncio.create_task(select(view.wait_for(bool), end_when(gate, at_end)))
    await settle()
    state.send(5)
    await at_end.wait()
    state.send(0)
    gate.set()
    await settle()
    assert waiting.done()
    assert waiting.result() == (0, 5, ())


async def test_a_join_that_found_nothing_says_so_although_a_task_is_spawned_meanwhile() -> None:
    async with JoinSet[Any]() as tasks:
        gate, at_end = asyncio.Event(), asyncio.Event()
        may_run = asyncio.Event()
        tasks.spawn(may_run.wait())
        first = asyncio.create_task(tasks.join_next())
        await settle()
        second = asyncio.create_task(select(tasks.join_next(), end_when(gate, at_end)))
        await settle()
        may_run.set()
        await at_end.wait()
        tasks.spawn(asyncio.Event().wait())
        gate.set()
        await settle()
        assert (await first).result() is True
        assert second.done()
        assert isinstance(second.exception(), Empty)


async def test_a_set_forgets_a_join_that_found_nothing() -> None:
    tasks = JoinSet[None]()
    for _ in range(3):
        with pytest.raises(Empty):
            await select(tasks.join_next(), asyncio.Event().wait())
    assert not tasks._finished.found_empty


async def test_a_join_that_found_nothing_leaves_a_later_task_to_others() -> None:
    async with JoinSet[Any]() as tasks:
        gate, at_end = asyncio.Event(), asyncio.Event()
        loser = asyncio.create_task(end_when(gate, at_end))
        await settle()
        selecting = asyncio.create_task(select(tasks.join_next(), loser))
        await at_end.wait()
        later = tasks.spawn(asyncio.sleep(0))
        await later
        gate.set()
        with pytest.raises(Empty):
            await selecting
        assert tasks.try_join_next() is later


async def test_a_value_that_overtakes_is_counted_when_it_is_selected() -> None:
    sender, receiver = broadcast.Channel[int](1)
    sender.try_send(1)
    assert await select(sender.send(2), asyncio.Event().wait()) == (0, 1, ())
    with pytest.raises(Lagged) as lagged:
        receiver.try_recv()
    assert lagged.value.missed == 1
    assert receiver.try_recv() == 2


@settings(max_examples=60, deadline=None)
@given(data=st.data(), kind=st.sampled_from(sorted(FACTORIES)))
def test_nothing_is_lost_whatever_is_selected_and_cancelled(data: st.DataObject, kind: str) -> None:
    """Several tasks select from several channels, and are cancelled at random; in the end all values are there."""

    async def main() -> None:
        channels = [mpmc.Channel[int](2) for _ in range(3)]
        received: list[int] = []

        async def consume() -> None:
            while True:
                received.append((await select(*(receiver.recv() for _, receiver in channels))).value)

        tasks = [asyncio.create_task(consume()) for _ in range(3)]
        sent = 0
        for step in data.draw(st.lists(st.integers(0, 11), max_size=40)):
            if step < 6:
                sender = channels[step % 3].sender
                try:
                    sender.try_send(sent)
                except Exception:
                    await settle()
                else:
                    sent += 1
            elif step < 9:
                victim = tasks[step - 6]
                victim.cancel()
                tasks[step - 6] = asyncio.create_task(consume())
            else:
                await asyncio.sleep(0)
        await settle()
        assert sorted(received) == list(range(sent))
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    with asyncio.Runner(loop_factory=FACTORIES[kind]) as runner:
        runner.run(main())


def test_exactly_one_overload_fits_a_call() -> None:
    """Of several that fit, mypy makes Any."""

    def fits(overload: Callable[..., Any], count: int) -> bool:
        try:
            inspect.signature(overload).bind(*range(count))
        except TypeError:
            return False
        return True

    overloads = typing.get_overloads(select)
    assert len(overloads) >= 5
    for count in range(1, 8):
        assert sum(fits(overload, count) for overload in overloads) == 1
