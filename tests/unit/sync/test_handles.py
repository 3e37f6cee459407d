"""Handles that two threads use at once, and what a channel may hold."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from loopcore.sync import Closed, broadcast, mpmc, oneshot, watch


class ContendedLock:
    """A channel's lock that another thread gets first: it does the acts in `before`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.before: list[Callable[[], object]] = []

    def __enter__(self) -> None:
        if self.before:
            self.before.pop()()
        self.lock.acquire()

    def __exit__(self, *error: object) -> None:
        self.lock.release()


@pytest.fixture
def lock(monkeypatch: pytest.MonkeyPatch) -> ContendedLock:
    lock = ContendedLock()
    for module in (broadcast, mpmc, oneshot, watch):
        monkeypatch.setattr(module, "new_lock", lambda threadsafe: lock)
    return lock


def test_of_two_threads_that_send_a_oneshot_one_succeeds(lock: ContendedLock) -> None:
    sender, receiver = oneshot.Channel[str]()
    lock.before.append(lambda: sender.send("first"))
    with pytest.raises(Closed):
        sender.send("second")
    assert receiver.try_recv() == "first"


@pytest.mark.parametrize(
    "channel", [lambda: mpmc.Channel[int](1), lambda: broadcast.Channel[int](1), lambda: watch.Channel(0)]
)
def test_a_handle_that_is_closed_meanwhile_has_no_clone(
    lock: ContendedLock, channel: Callable[[], tuple[Any, Any]]
) -> None:
    for end in channel():
        lock.before.append(end.close)
        with pytest.raises(Closed):
            end.clone()


@pytest.mark.parametrize("channel", [mpmc.Channel, broadcast.Channel])
def test_a_capacity_is_a_number_of_values(channel: Callable[[Any], object]) -> None:
    for wrong in (2.5, float("inf"), "3", None):
        with pytest.raises(TypeError, match="capacity is a number of values"):
            channel(wrong)
    for wrong in (0, -1, 2**70):
        with pytest.raises(ValueError, match="1 value or more"):
            channel(wrong)
