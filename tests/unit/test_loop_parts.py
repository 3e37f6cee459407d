"""The parts of a loop: made when they are asked for, let go when it closes."""

import asyncio
import gc
import sys
import unittest.mock
import weakref
from collections.abc import Callable

import pytest

import loopcore

Loop = asyncio.AbstractEventLoop
Factory = Callable[[], Loop]


def test_a_subclass_may_set_what_is_named_like_a_part_before_the_loop_is_made(loopcore_factory: Factory) -> None:
    class Early(loopcore.EventLoop):
        def __init__(self) -> None:
            self._resolver = self._signals = mine
            super().__init__()

    mine = unittest.mock.Mock()
    loop = Early()
    assert (loop._resolver, loop._signals) == (mine, mine)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    mine.close.assert_called_once_with()


def test_a_part_that_was_set_before_the_loop_is_kept_when_its_constructor_is_tried_again() -> None:
    class Tries(loopcore.EventLoop):
        def __init__(self) -> None:
            self._resolver = mine
            with pytest.raises(loopcore.UsageError):
                super().__init__("no-such-backend")
            self._signals = mine
            super().__init__()

        __hash__ = None  # type: ignore[assignment]

    mine = unittest.mock.Mock()
    loop = Tries()
    assert (loop._resolver, loop._signals) == (mine, mine)
    loop.close()


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="references are not counted")
@pytest.mark.parametrize("backend", [None, "kqueue,iocp,poll,select"])
def test_closed_loop_goes_without_the_collector(loopcore_factory: Factory, backend: str | None) -> None:
    loop: Loop = loopcore_factory() if backend is None else loopcore.EventLoop(backend)
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(loop.getaddrinfo("127.0.0.1", 80))
    loop.call_later(1000, print)
    loop.close()
    watch = weakref.ref(loop)
    gc.disable()
    try:
        del loop
        assert watch() is None
    finally:
        gc.enable()


@pytest.mark.loopcore_only
def test_a_plugin_of_an_unclosed_loop_is_told_which_loop_it_leaves() -> None:
    told = []

    class Fails:
        @loopcore.hookimpl
        def loopcore_loop_closing(self, loop: object) -> None:
            raise ValueError("no")

        @loopcore.hookimpl
        def loopcore_plugin_unregistered(self, loop: object, plugin: object) -> None:
            told.append(type(loop))

    kept = [loopcore.new_event_loop(plugins=[Fails()])]

    def drop() -> None:
        kept.clear()
        gc.collect()

    with pytest.warns(ResourceWarning, match=r"^unclosed event loop <"):
        drop()
    assert told == [loopcore.EventLoop]


@pytest.mark.loopcore_only
def test_parts_of_a_closed_loop_can_still_be_asked(loop: Loop) -> None:
    loop.set_exception_handler(handler := lambda *_: None)
    loop.close()
    assert loop.get_exception_handler() is handler
    assert loop.remove_signal_handler(10) is False
    with pytest.raises(RuntimeError, match=r"^Event loop is closed$"):
        loop.run_in_executor(None, print)
