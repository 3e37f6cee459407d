"""Signatures: loopcore's methods have asyncio's parameters, of their kind, in their order, with their defaults."""

import inspect
from typing import Any

import pytest

from tests.compatibility.surface import (
    HIDDEN,
    NEWER,
    OWNERS,
    attribute_names,
    exists_here,
    parameters,
    running_surface,
    surface,
)

METHODS = sorted({method for method, _ in running_surface()} - {f"EventLoop.{each}" for each in attribute_names()})


@pytest.mark.parametrize("method", METHODS)
def test_parameters_are_those_of_asyncio(method: str) -> None:
    owner, name = method.split(".")
    theirs, ours, _ = OWNERS[owner]
    found = parameters(ours, name)
    if name == "__init__" and [*found] == ["args", "kwargs"]:
        pytest.skip("a compiled constructor shows no signature; test_futures.py passes its parameters")
    newer = {parameter for where, parameter in (*NEWER, *HIDDEN) if where == method}
    wanted = parameters(theirs[0], name)
    assert [each for each in found if each in wanted or each not in newer] == [*wanted]
    for each, parameter in wanted.items():
        assert found[each].default == parameter.default
        assert found[each].kind in kinds(theirs, name, each)


def kinds(classes: tuple[type, ...], name: str, parameter: str) -> set[Any]:
    """The kinds that a parameter has in asyncio: its Python and its C classes differ in a few."""
    found = set()
    for cls in classes:
        try:
            of_class = parameters(cls, name)
        except ValueError:  # a C method that shows no signature
            continue
        found |= {value.kind for each, value in of_class.items() if each == parameter}
    return found


@pytest.mark.parametrize("method", METHODS)
def test_coroutine_functions_are_those_of_asyncio(method: str) -> None:
    owner, name = method.split(".")
    theirs, ours, _ = OWNERS[owner]
    found, wanted = (inspect.iscoroutinefunction(getattr(cls, name, None)) for cls in (ours, theirs[0]))
    assert found == wanted


def test_what_is_new_is_new() -> None:
    """The Pythons in NEWER are right as far as the running one can tell."""
    running = running_surface()
    assert {key for key in NEWER if (key in running) != exists_here(surface()[key])} == set()
