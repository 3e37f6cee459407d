"""Errors that come out of loopcore.sync are freed with their last reference: nothing of ours refers to them."""

import asyncio
import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from loopcore.sync import block_on, select
from tests.unit.sync.conftest import Run

pytestmark = pytest.mark.skipif(sys.implementation.name != "cpython", reason="objects are not destroyed at once here")


class OwnError(Exception):
    """An error that can be referred to weakly."""


async def fail_by_itself() -> None:
    raise OwnError


def fails_as_a_future() -> "asyncio.Future[None]":
    future = asyncio.get_running_loop().create_future()
    future.set_exception(OwnError())
    return future


@pytest.mark.parametrize("make", [fail_by_itself, fails_as_a_future])
def test_the_error_of_a_winner_is_freed_at_once(run: Run, make: Callable[[], Any]) -> None:
    async def main() -> "weakref.ref[OwnError]":
        try:
            await select(asyncio.Event().wait(), make())
        except OwnError as error:
            return weakref.ref(error)
        raise AssertionError("nothing was raised")

    gc.disable()
    try:
        assert run(main())() is None
    finally:
        gc.enable()


def test_the_error_that_block_on_raises_is_freed_at_once(run: Run) -> None:
    async def fail() -> None:
        raise OwnError

    def wait(loop: asyncio.AbstractEventLoop) -> "weakref.ref[OwnError]":
        try:
            block_on(fail(), loop=loop)
        except OwnError as error:
            return weakref.ref(error)
        raise AssertionError("nothing was raised")

    async def main() -> "weakref.ref[OwnError]":
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, wait, loop)

    gc.disable()
    try:
        assert run(main())() is None
    finally:
        gc.enable()
