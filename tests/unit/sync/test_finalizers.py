"""Values that are destroyed inside of a channel, and use it."""

import gc
import sys
import weakref
from dataclasses import dataclass
from typing import Any

import pytest

from loopcore.sync import Empty, Lagged, broadcast, mpmc


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
