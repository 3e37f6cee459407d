"""Handles that are part of a reference cycle are collected, whatever has become of them."""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from loopcore.kernel.scheduler import Scheduler
from loopcore.testing import ScriptedBackend


class Keeper:
    """An object that keeps the handle of its own method: a cycle as soon as nobody else needs it."""

    handle: Any = None

    def __init__(self, behave: Callable[[], object] = int) -> None:
        self.behave = behave

    def method(self) -> None:
        self.behave()


@pytest.fixture
def reactor() -> Iterator[Scheduler]:
    reactor = Scheduler(ScriptedBackend())
    yield reactor
    reactor._close_scheduler()


class OpenReactor(Scheduler):
    """One whose instances take attributes, as loops do."""


def run(reactor: Scheduler, first: Callable[[], object]) -> None:
    """Run `first` in one tick, what it scheduled in the next, and stop."""

    def begin() -> None:
        first()
        reactor.call_soon(reactor._stop_ticks)

    reactor.call_soon(begin)
    reactor._run_ticks()


def keep_one(reactor: Scheduler, behave: Callable[[], object] = int) -> Keeper:
    keeper = Keeper(behave)
    keeper.handle = reactor.call_soon(keeper.method)
    return keeper


def assert_goes(keepers: list[Any]) -> None:
    """All that are in the list go, as soon as the collector looks."""
    watched = [weakref.ref(keeper) for keeper in keepers]
    assert watched
    keepers.clear()
    gc.collect()
    assert [reference() for reference in watched] == [None] * len(watched)


def test_one_of_a_loop_that_does_not_run_goes_with_its_cycle(reactor: Scheduler) -> None:
    keepers = [keep_one(reactor)]
    reactor.tick()
    assert_goes(keepers)


def test_one_that_has_run_and_is_kept_goes_with_its_cycle(reactor: Scheduler) -> None:
    keepers: list[Any] = []
    run(reactor, lambda: keepers.extend(keep_one(reactor) for _ in range(3)))
    assert_goes(keepers)


def test_one_that_was_cancelled_goes_with_its_cycle(reactor: Scheduler) -> None:
    keepers: list[Any] = []

    def begin() -> None:
        keepers.append(keep_one(reactor))
        keepers[0].handle.cancel()

    run(reactor, begin)
    assert_goes(keepers)


def test_cycles_go_while_the_loop_runs(reactor: Scheduler) -> None:
    keepers: list[Any] = []

    def look() -> None:
        assert_goes(keepers)
        keepers.append("looked")

    def begin() -> None:
        keepers.append(keep_one(reactor))
        reactor.call_soon(look)

    run(reactor, begin)
    assert keepers == ["looked"]


def run_that_leaves(keepers: list[Any], count: int) -> Scheduler:
    reactor = Scheduler(ScriptedBackend())

    def begin() -> None:
        keepers.extend(keep_one(reactor) for _ in range(count))
        reactor._stop_ticks()

    reactor.call_soon(begin)
    reactor._run_ticks()
    return reactor


def test_handles_that_a_run_leaves_behind_go_with_the_loop() -> None:
    keepers: list[Any] = []
    watched = weakref.ref(run_that_leaves(keepers, 100))
    assert_goes(keepers)
    assert watched() is None


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_those_of_an_interrupted_run_go_with_their_cycles(reactor: Scheduler, error: type[BaseException]) -> None:
    keepers: list[Any] = []

    def interrupt() -> None:
        raise error

    def begin() -> None:
        keepers.extend([keep_one(reactor), keep_one(reactor, interrupt), keep_one(reactor)])

    with pytest.raises(error):
        run(reactor, begin)
    run(reactor, int)
    assert_goes(keepers)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_one_whose_report_ends_the_run_goes_with_its_cycle(error: type[BaseException]) -> None:
    reactor = OpenReactor(ScriptedBackend())
    keepers: list[Any] = []

    def report(context: Any) -> None:
        raise error

    reactor.call_exception_handler = report  # type: ignore[method-assign]
    with pytest.raises(error):
        run(reactor, lambda: keepers.append(keep_one(reactor, lambda: int("no number"))))
    assert_goes(keepers)
    reactor._close_scheduler()


def test_one_that_is_watched_when_it_runs_goes_with_its_cycle(reactor: Scheduler) -> None:
    keepers: list[Any] = []

    def begin() -> None:
        keepers.append(keep_one(reactor))
        reactor.set_debug(True)

    run(reactor, begin)
    assert_goes(keepers)


def test_those_taken_out_of_the_queue_go_with_their_cycles(reactor: Scheduler) -> None:
    keepers: list[Any] = []

    def begin() -> None:
        keepers.extend(keep_one(reactor) for _ in range(3))
        assert reactor._ready.pop() is keepers[0].handle
        assert reactor._ready.take() == [keeper.handle for keeper in keepers[1:]]

    run(reactor, begin)
    assert_goes(keepers)


def test_those_dropped_from_the_queue_go_with_their_cycles(reactor: Scheduler) -> None:
    keepers: list[Any] = []

    def begin() -> None:
        keepers.extend(keep_one(reactor) for _ in range(3))
        reactor._ready.clear()

    run(reactor, begin)
    assert_goes(keepers)


def post_from_a_thread(reactor: Scheduler, keepers: list[Any]) -> None:
    def post() -> None:
        keeper = Keeper()
        keeper.handle = reactor.call_soon_threadsafe(keeper.method)
        keepers.append(keeper)

    thread = threading.Thread(target=post)
    thread.start()
    thread.join()


def test_posts_that_a_run_leaves_behind_go_with_their_cycles(reactor: Scheduler) -> None:
    keepers: list[Any] = []

    def begin() -> None:
        post_from_a_thread(reactor, keepers)
        reactor._stop_ticks()

    reactor.call_soon(begin)
    reactor._run_ticks()
    run(reactor, int)
    assert_goes(keepers)


def test_posts_to_a_loop_that_rests_go_with_their_cycles(reactor: Scheduler) -> None:
    keepers: list[Any] = []
    post_from_a_thread(reactor, keepers)
    run(reactor, int)
    assert_goes(keepers)


def test_one_that_outlives_its_loop_goes_with_its_cycle() -> None:
    keepers: list[Any] = []
    run_that_leaves(keepers, 1)._close_scheduler()
    assert keepers[0].handle.cancelled()
    assert_goes(keepers)


def test_those_of_a_tick_inside_a_callback_go_with_their_cycles(reactor: Scheduler) -> None:
    keepers: list[Any] = []

    def begin() -> None:
        keepers.append(keep_one(reactor))
        reactor.tick()
        keepers.append(keep_one(reactor))

    run(reactor, begin)
    assert_goes(keepers)
