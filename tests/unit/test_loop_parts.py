"""The parts of a loop: made when they are asked for, let go when it closes."""

import asyncio
import gc
import sys
import sysconfig
import unittest.mock
import weakref
from collections.abc import Callable

import pytest

import loopcore

Loop = asyncio.AbstractEventLoop
Factory = Callable[[], Loop]


@pytest.mark.loopcore_only
def test_part_is_made_once(loop: Loop) -> None:
    assert loop._endpoints is loop._endpoints  # type: ignore[attr-defined]


@pytest.mark.loopcore_only
def test_a_loop_that_runs_callbacks_and_closes_makes_no_part_that_it_does_not_use(loop: Loop) -> None:
    loop.call_soon(loop.stop)
    loop.run_forever()
    made = set(loop._parts)  # type: ignore[attr-defined]
    loop.close()
    unused = {"_children", "_endpoints", "_executors", "_origins", "_resolver", "_sockops"}
    assert made.isdisjoint(unused)
    assert unused.isdisjoint(loop._parts)  # type: ignore[attr-defined]


@pytest.mark.loopcore_only
def test_a_loop_that_has_made_its_parts_has_no_attribute_but_what_a_program_sets(loop: Loop) -> None:
    loop.run_until_complete(loop.getaddrinfo("127.0.0.1", 80))
    loop.run_until_complete(loop.run_in_executor(None, int))
    assert vars(loop) == {}
    loop.note = 1  # type: ignore[attr-defined]
    assert vars(loop) == {"note": 1}


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 13) or bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="the interpreter cannot be asked without making the dict, which costs nothing from Python 3.14 on",
)
def test_a_loop_that_calls_callbacks_of_futures_is_made_no_dict(loopcore_factory: Factory) -> None:
    loop = loopcore_factory()
    future = loop.create_future()
    future.add_done_callback(lambda future: loop.stop())
    loop.call_soon(future.set_result, None)
    before = sum(type(referent) is dict for referent in gc.get_referents(loop))
    loop.run_forever()
    assert sum(type(referent) is dict for referent in gc.get_referents(loop)) == before
    assert vars(loop) == {}
    assert sum(type(referent) is dict for referent in gc.get_referents(loop)) == before + 1
    loop.close()


@pytest.mark.loopcore_only
def test_a_part_can_be_replaced(loop: Loop) -> None:
    loop._resolver = part = object()  # type: ignore[attr-defined]
    assert loop._resolver is part  # type: ignore[attr-defined]


@pytest.mark.loopcore_only
@pytest.mark.parametrize("name", ["_resolver", "_signals", "_transports"])
def test_a_part_that_was_replaced_is_back_when_the_replacement_is_deleted(loop: Loop, name: str) -> None:
    own = getattr(loop, name)
    with unittest.mock.patch.object(loop, name, replacement := object()):
        assert getattr(loop, name) is replacement
        with unittest.mock.patch.object(loop, name, other := object()):
            assert getattr(loop, name) is other
        assert getattr(loop, name) is replacement
    assert getattr(loop, name) is own


@pytest.mark.loopcore_only
@pytest.mark.skipif(sys.implementation.name != "cpython", reason="references are not counted")
def test_what_replaced_a_part_is_let_go_of_when_the_part_is_set_back(loop: Loop) -> None:
    class Replacement:
        pass

    own = loop._resolver  # type: ignore[attr-defined]
    loop._resolver = replacement = Replacement()  # type: ignore[attr-defined]
    loop._resolver = other = Replacement()  # type: ignore[attr-defined]
    reference, another = weakref.ref(replacement), weakref.ref(other)
    loop._resolver = own  # type: ignore[attr-defined]
    del replacement, other
    assert (reference(), another()) == (None, None)
    with unittest.mock.patch.object(loop, "_resolver", object()):
        loop._resolver = loop._resolver  # type: ignore[attr-defined]
    assert loop._resolver is own  # type: ignore[attr-defined]


@pytest.mark.loopcore_only
def test_a_part_that_is_deleted_is_made_anew(loop: Loop) -> None:
    own = loop._resolver  # type: ignore[attr-defined]
    del loop._resolver  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="_resolver"):
        del loop._resolver  # type: ignore[attr-defined]
    assert loop.run_until_complete(loop.getaddrinfo("127.0.0.1", 80))
    assert loop._resolver is not own  # type: ignore[attr-defined]


@pytest.mark.loopcore_only
def test_a_loop_closes_a_part_of_its_own_beside_what_replaced_it(loop: Loop) -> None:
    loop.run_until_complete(loop.run_in_executor(None, int))
    own = loop._executors  # type: ignore[attr-defined]
    replacement = loop._executors = unittest.mock.Mock()  # type: ignore[attr-defined]
    loop.close()
    replacement.close.assert_called_once_with()
    with pytest.raises(RuntimeError, match="shutdown"):
        own.run(None, int)


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
