"""Finalizers that use a channel while it destroys a value, or while a task begins to wait at it."""

import asyncio
import gc
import sys
import weakref
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from loopcore.sync import Closed, Empty, Lagged, broadcast, mpmc, oneshot, watch
from tests.unit.sync.test_channels import settle


@dataclass
class Legacy:
    """A value that sends another one when it is destroyed."""

    sender: broadcast.Sender[Any]
    heir: str

    def __del__(self) -> None:
        self.sender.try_send(self.heir)


@pytest.mark.parametrize("threadsafe", [False, True])
def test_what_an_overwritten_value_sends_comes_behind(threadsafe: bool) -> None:
    sender, receiver = broadcast.Channel[Any](3, threadsafe=threadsafe)
    sender.try_send(Legacy(sender, "heir"))
    for number in range(3):
        sender.try_send(number)
    gc.collect()  # where objects are not destroyed at once
    with pytest.raises(Lagged, match="2 values"):
        receiver.try_recv()
    assert [receiver.try_recv() for _ in range(3)] == [1, 2, "heir"]
    with pytest.raises(Empty):
        receiver.try_recv()


def test_what_forgotten_values_send_is_kept() -> None:
    sender, receiver = broadcast.Channel[Any](3)
    slow = receiver.clone()
    for heir in ("first", "second", "third"):
        sender.try_send(Legacy(sender, heir))
    for _ in range(3):
        receiver.try_recv()
    slow.close()  # nobody is due any more: all three are forgotten
    gc.collect()
    assert [receiver.try_recv() for _ in range(3)] == ["first", "second", "third"]
    with pytest.raises(Empty):
        receiver.try_recv()


class Value:
    """What can be referred to weakly."""


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="objects are not destroyed at once here")
@pytest.mark.parametrize("make", [mpmc.Channel, broadcast.Channel])
def test_a_channel_that_is_dropped_frees_its_values_at_once(make: Any) -> None:
    sender, receiver = make(3)
    value = Value()
    reference = weakref.ref(value)
    sender.try_send(value)
    gc.disable()
    try:
        del value, sender, receiver
        assert reference() is None
    finally:
        gc.enable()


class Finalized:
    """Calls a function when the collector finds it; nothing else frees it."""

    def __init__(self, function: Callable[[], object]) -> None:
        self.function = function
        self.itself = self

    def __del__(self) -> None:
        self.function()


class CollectingLoop(asyncio.SelectorEventLoop):
    """Collects whenever a future is made: the collector may run at any allocation."""

    def create_future(self) -> "asyncio.Future[Any]":
        gc.collect()
        return super().create_future()


Kind = Callable[[bool], tuple[Callable[[], object], Callable[[], Coroutine[Any, Any, Any]], Any]]


def oneshot_value(threadsafe: bool) -> Any:
    sender, receiver = oneshot.Channel[int](threadsafe=threadsafe)
    return lambda: sender.send(1), receiver.recv, 1


def oneshot_abandoned(threadsafe: bool) -> Any:
    sender, receiver = oneshot.Channel[int](threadsafe=threadsafe)
    return receiver.close, sender.abandoned, None


def watch_value(threadsafe: bool) -> Any:
    sender, receiver = watch.Channel(0, threadsafe=threadsafe)
    return lambda: sender.send(1), receiver.changed, 1


def watch_condition(threadsafe: bool) -> Any:
    sender, receiver = watch.Channel(0, threadsafe=threadsafe)
    return lambda: sender.send(1), lambda: receiver.wait_for(bool), 1


def watch_closed(threadsafe: bool) -> Any:
    sender, receiver = watch.Channel(0, threadsafe=threadsafe)
    return sender.close, receiver.changed, Closed


def broadcast_value(threadsafe: bool) -> Any:
    sender, receiver = broadcast.Channel[int](1, threadsafe=threadsafe)
    return lambda: sender.try_send(1), receiver.recv, 1


def broadcast_receiver_closed(threadsafe: bool) -> Any:
    sender, receiver = broadcast.Channel[int](1, threadsafe=threadsafe)
    return lambda: (receiver.close(), sender), receiver.recv, Closed


def broadcast_sender_closed(threadsafe: bool) -> Any:
    sender, receiver = broadcast.Channel[int](1, overflow="wait", threadsafe=threadsafe)
    sender.try_send(1)
    return lambda: (sender.close(), receiver), lambda: sender.send(2), Closed


def mpmc_value(threadsafe: bool) -> Any:
    sender, receiver = mpmc.Channel[int](1, threadsafe=threadsafe)
    return lambda: sender.try_send(1), receiver.recv, 1


def mpmc_sender_closed(threadsafe: bool) -> Any:
    sender, receiver = mpmc.Channel[int](1, threadsafe=threadsafe)
    return sender.close, receiver.recv, Closed


def mpmc_receiver_closed(threadsafe: bool) -> Any:
    sender, receiver = mpmc.Channel[int](1, threadsafe=threadsafe)
    sender.try_send(1)
    return receiver.close, lambda: sender.send(2), Closed


KINDS = [
    oneshot_value,
    oneshot_abandoned,
    watch_value,
    watch_condition,
    watch_closed,
    broadcast_value,
    broadcast_receiver_closed,
    broadcast_sender_closed,
    mpmc_value,
    mpmc_sender_closed,
    mpmc_receiver_closed,
]


@pytest.mark.parametrize("threadsafe", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_finalizer_does_while_a_task_begins_to_wait_is_seen(kind: Kind, threadsafe: bool) -> None:
    async def main() -> None:
        act, wait, expected = kind(threadsafe)
        Finalized(act)
        waiting = asyncio.create_task(wait())
        await settle()
        assert waiting.done()
        if expected is Closed:
            with pytest.raises(Closed):
                waiting.result()
        else:
            assert waiting.result() == expected

    with asyncio.Runner(loop_factory=CollectingLoop) as runner:
        runner.run(main())


async def test_a_condition_is_checked_once_for_each_value() -> None:
    sender, receiver = watch.Channel(0)
    checked: list[int] = []

    def is_two(value: int) -> bool:
        checked.append(value)
        return value == 2

    waiting = asyncio.create_task(receiver.wait_for(is_two))
    for value in (1, 2):
        await settle()
        sender.send(value)
    assert await waiting == 2
    assert checked == [0, 1, 2]
