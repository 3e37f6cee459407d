"""What has an owner, or is one of its kind, cannot be copied: a copy would close it, or wait for ever."""

import asyncio
import contextlib
import copy
import gc
import pickle
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import pytest

Loop = asyncio.AbstractEventLoop
WAYS: list[Callable[[Any], Any]] = [copy.copy, copy.deepcopy, pickle.dumps]


async def wait_for(future: Any) -> Any:
    return await future


@pytest.mark.parametrize("way", WAYS)
async def test_a_future_and_a_task_cannot_be_copied(loop: Loop, way: Callable[[Any], Any]) -> None:
    future = loop.create_future()
    task = loop.create_task(wait_for(future))
    for each in (future, task):
        with pytest.raises(TypeError, match="cannot pickle"):
            way(each)
    future.set_result(5)
    assert await task == 5


@pytest.mark.loopcore_only  # asyncio copies a handle, and a loop until it comes to its selector
@pytest.mark.parametrize("way", WAYS)
def test_a_handle_and_a_loop_cannot_be_copied(loop: Loop, way: Callable[[Any], Any]) -> None:
    handle = loop.call_later(60, print)
    for each in (handle, loop):
        with pytest.raises(TypeError, match="cannot pickle"):
            way(each)
    handle.cancel()


async def test_a_deep_copy_of_what_holds_a_future_leaves_the_loop_whole(loop: Loop) -> None:
    @dataclass
    class Job:
        done: Any

    with pytest.raises(TypeError, match="cannot pickle"):
        asdict(Job(loop.create_future()))
    assert await asyncio.to_thread(lambda: "woken") == "woken"  # the wake of the loop is what the copy closed


@pytest.mark.loopcore_only
def test_a_copy_of_a_backend_does_not_close_its_descriptors(loop: Any) -> None:
    with contextlib.suppress(TypeError):  # not all refuse, and who copies has two on one descriptor
        copy.deepcopy(loop.backend)
    gc.collect()
    assert loop.run_until_complete(loop.run_in_executor(None, str, 5)) == "5"
