"""The surface of the loop: asyncio's methods, all of them, with asyncio's parameters."""

import asyncio
import inspect

import pytest

import loopcore

METHODS = [name for name, value in vars(asyncio.AbstractEventLoop).items() if inspect.isfunction(value)]


@pytest.mark.parametrize("name", [name for name in METHODS if not name.startswith("_")])
def test_every_method_of_asyncio_is_there(name: str) -> None:
    assert getattr(loopcore.EventLoop, name) is not getattr(asyncio.AbstractEventLoop, name)


def parameters_of(owner: type, name: str) -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(getattr(owner, name)).parameters)
    del found["self"]  # positional only where the method is compiled
    return found


@pytest.mark.parametrize("name", [name for name in METHODS if not name.startswith("_")])
def test_parameters_are_those_of_asyncio_and_newer_ones(name: str) -> None:
    theirs = parameters_of(asyncio.SelectorEventLoop, name)
    ours = parameters_of(loopcore.EventLoop, name)
    common = [parameter for parameter in ours if parameter in theirs]
    assert [*theirs] == common or "kwargs" in theirs
    for parameter in common:
        assert ours[parameter].kind == theirs[parameter].kind
        assert ours[parameter].default == theirs[parameter].default, parameter
    for extra in ours.keys() - theirs.keys():
        newer = ours[extra]
        assert newer.kind in (newer.KEYWORD_ONLY, newer.VAR_KEYWORD) or newer.default is None


def test_no_method_overrides_the_scheduler_by_accident() -> None:
    shared = {name for name in vars(loopcore.EventLoop) if hasattr(loopcore.EventLoop.__mro__[1], name)}
    plumbing = {name for name in shared if name.startswith("__")}
    assert shared - plumbing == {"set_debug", "call_exception_handler"}
