"""select: errors reach who can do something about them, and results that are lost do not go unsaid."""

import asyncio
from typing import Any

import pytest

from loopcore.sync import Closed, JoinSet, mpmc, select
from tests.unit.sync.test_channels import cancelled, settle


@pytest.mark.reports_errors
async def test_the_error_of_a_loser_is_reported() -> None:
    reported: list[Any] = []

    async def fail() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while it was cancelled")

    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["exception"]))
    assert (await select(fail(), asyncio.sleep(0))).branch == 1
    assert [str(error) for error in reported] == ["while it was cancelled"]


@pytest.mark.reports_errors
@pytest.mark.parametrize("how", ["the winner raises", "it is cancelled"])
async def test_the_error_of_a_loser_is_reported_also_if_nobody_wins(how: str) -> None:
    reported: list[Any] = []

    async def fail(text: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError(text)

    async def raise_at_once() -> None:
        raise LookupError

    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["exception"]))
    winner = raise_at_once() if how == "the winner raises" else asyncio.Event().wait()
    waiting = asyncio.create_task(select(fail("one"), winner, fail("two")))
    if how == "the winner raises":
        with pytest.raises(LookupError):
            await waiting
    else:
        await settle()
        assert await cancelled(waiting)
    assert sorted(str(error) for error in reported) == ["one", "two"]


async def test_the_error_of_the_winner_notes_results_that_are_lost() -> None:
    gate = asyncio.Event()

    async def fail() -> None:
        await gate.wait()
        raise ValueError("mine")

    async def finish() -> str:
        await gate.wait()
        return "x" * 1000

    waiting = asyncio.create_task(select(fail(), finish(), asyncio.Event().wait()))
    await settle()
    gate.set()
    with pytest.raises(ValueError, match="mine") as caught:
        await waiting
    (note,) = caught.value.__notes__
    assert note.startswith("select(): branch 1 had finished, too, and its result is lost: 'xxx")
    assert len(note) < 120


async def test_a_cancelled_winner_notes_results_that_are_lost() -> None:
    loop = asyncio.get_running_loop()
    gone, there = loop.create_future(), loop.create_future()
    gone.cancel()
    there.set_result("mine")
    with pytest.raises(asyncio.CancelledError) as caught:
        await select(gone, there)
    assert caught.value.__notes__ == ["select(): branch 1 had finished, too, and its result is lost: 'mine'"]


async def test_a_future_that_is_there_twice_is_not_reported() -> None:
    failed = asyncio.get_running_loop().create_future()
    failed.set_exception(ValueError("mine"))
    with pytest.raises(ValueError, match="mine"):
        await select(failed, failed)


async def test_the_error_of_the_winner_is_raised() -> None:
    async def fail() -> None:
        raise ValueError("mine")

    sender, receiver = mpmc.Channel[str](1)
    with pytest.raises(ValueError, match="mine"):
        await select(receiver.recv(), fail())
    sender.close()
    with pytest.raises(Closed):
        await select(receiver.recv(), asyncio.Event().wait())


async def test_an_operation_is_selected_once() -> None:
    sender, receiver = mpmc.Channel[str](1)
    used, twice, awaited = receiver.recv(), receiver.recv(), receiver.recv()
    sender.try_send("value")
    assert await used == "value"
    task = asyncio.create_task(awaited)
    await settle()
    for operations in ([used], [twice, twice], [awaited]):
        with pytest.raises(RuntimeError, match="cannot reuse what has been awaited already"):
            await select(*operations)
    sender.try_send("for the one who waits")
    assert await task == "for the one who waits"


async def test_an_operation_beside_one_that_is_refused_was_not_forgotten() -> None:
    sender, receiver = mpmc.Channel[str](1)
    used = receiver.recv()
    sender.try_send("value")
    assert await used == "value"
    with pytest.raises(RuntimeError, match="cannot reuse what has been awaited already"):
        await select(used, receiver.recv())  # a warning would fail the test


async def test_a_task_cannot_wait_for_itself() -> None:
    tasks: JoinSet[None] = JoinSet()

    async def shut_down() -> None:
        await tasks.shutdown()

    me = asyncio.current_task()
    assert me is not None
    with pytest.raises(RuntimeError, match="the task that calls it"):  # and the others do not warn
        await select(mpmc.Channel[int](1)[1].recv(), me, asyncio.Event().wait())
    member = tasks.spawn(shut_down())
    with pytest.raises(RuntimeError, match="the end of the set"):
        await member
    assert not me.cancelling()
    await tasks.shutdown()


async def test_tasks_that_wait_for_each_other_cancel_each_other_once() -> None:
    tasks: JoinSet[None] = JoinSet()
    requests = []

    async def shut_down_in_a_task() -> None:
        await asyncio.create_task(tasks.shutdown())

    member = tasks.spawn(shut_down_in_a_task())
    await settle()
    for _ in range(3):
        requests.append(member.cancelling())
        await settle()
    assert requests == requests[:1] * 3
    (shutdown,) = {*asyncio.all_tasks()} - {member, asyncio.current_task()}
    tasks._finished.running.clear()
    member.cancel()
    with pytest.raises(asyncio.CancelledError):
        await shutdown
