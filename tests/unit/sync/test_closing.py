"""Ends of channels that are closed while somebody waits at them."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from loopcore.sync import Closed, oneshot, watch
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
