"""Handles that two threads use at once, and what a channel may hold."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from loopcore.sync import Closed, broadcast, mpmc, oneshot, watch


class Barger:
    """Another thread that is quicker: does `act` just before a method of `module` has the lock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: ModuleType, act: Callable[[], object]) -> None:
        self.acts = [act]
        self.guard = module.guard
        monkeypatch.setattr(module, "guard", self)

    def __call__(self, guarded: Any) -> Any:
        if self.acts:
            self.acts.pop()()
        return self.guard(guarded)


def test_of_two_threads_that_send_a_oneshot_one_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    sender, receiver = oneshot.Channel[str](threadsafe=True)
    Barger(monkeypatch, oneshot, lambda: sender.send("first"))
    with pytest.raises(Closed):
        sender.send("second")
    assert receiver.try_recv() == "first"


@pytest.mark.parametrize(
    ("module", "ends"),
    [
        (mpmc, mpmc.Channel[int](1, threadsafe=True)),
        (broadcast, broadcast.Channel[int](1, threadsafe=True)),
        (watch, watch.Channel(0, threadsafe=True)),
    ],
)
def test_a_handle_that_is_closed_meanwhile_has_no_clone(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, ends: tuple[Any, Any]
) -> None:
    for end in ends:
        Barger(monkeypatch, module, end.close)
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
