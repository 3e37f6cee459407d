"""Ends of channels that are closed while somebody waits at them."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from loopcore.sync import Closed, mpmc, oneshot, select, watch
from tests.coroutines import bounded
from tests.unit.sync.test_channels import settle


@pytest.mark.parametrize("end", [lambda sender: sender.send(1), lambda sender: sender.close()], ids=["sent", "closed"])
async def test_who_waits_to_be_abandoned_hears_that_the_sender_is_closed(end: Callable[[Any], None]) -> None:
    sender, receiver = oneshot.Channel[int]()
    waiting = asyncio.create_task(sender.abandoned())
    await settle()
    end(sender)
    with pytest.raises(Closed):
        await waiting
    receiver.close()


async def test_a_closed_receiver_of_watch_sees_nothing_more() -> None:
    sender, receiver = watch.Channel(0)
    waiting = asyncio.create_task(receiver.changed())
    await settle()
    receiver.close()
    sender.send(1)
    with pytest.raises(Closed):
        await waiting
    with pytest.raises(Closed):
        await receiver.changed()
    sender.close()


def left_in_a_closed_loop(loop: Any, waiting: Any) -> Any:
    """Return a task that waits in `loop`, which is closed."""
    task = loop.create_task(waiting)
    task._log_destroy_pending = False
    loop.run_until_complete(settle())
    loop.close()
    return task


@pytest.mark.parametrize("count", [1, 2])
def test_a_task_left_in_a_closed_loop_keeps_no_other_from_waking(loop_factory: Callable[[], Any], count: int) -> None:
    sender, receiver = watch.Channel(0)
    _kept = left_in_a_closed_loop(loop_factory(), receiver.changed())

    async def main() -> None:
        waiting = [asyncio.create_task(sender.subscribe().changed()) for _ in range(count)]
        await settle()
        sender.send(1)
        await asyncio.gather(*waiting)

    loop = loop_factory()
    loop.run_until_complete(bounded(main()))
    loop.close()


def test_a_value_is_not_reserved_for_a_task_left_in_a_closed_loop(loop_factory: Callable[[], Any]) -> None:
    sender, receiver = mpmc.Channel[int](1)
    _kept = left_in_a_closed_loop(loop_factory(), receiver.recv())

    async def main() -> int:
        await sender.send(1)
        return await receiver.recv()

    loop = loop_factory()
    assert loop.run_until_complete(bounded(main())) == 1
    loop.close()


def test_a_task_left_in_a_closed_loop_takes_no_value_of_a_second_channel(loop_factory: Callable[[], Any]) -> None:
    channels = [mpmc.Channel[int](1) for _ in range(2)]
    _kept = left_in_a_closed_loop(loop_factory(), select(*(receiver.recv() for _, receiver in channels)))

    async def main() -> list[int]:
        got = []
        for number, (sender, receiver) in enumerate(channels):
            await sender.send(number)
            got.append(await receiver.recv())
        return got

    loop = loop_factory()
    assert loop.run_until_complete(bounded(main())) == [0, 1]
    loop.close()
