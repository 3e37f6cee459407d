"""Ages of tasks: known while they live, and forgotten with them."""

import asyncio
import gc

import pytest

import loopcore
from loopcore_plugins.inspect.creation_times import CreationTimes

pytestmark = pytest.mark.loopcore_only


async def wait_for_ever() -> None:
    await asyncio.get_running_loop().create_future()


def test_a_task_has_an_age_until_it_is_done_or_destroyed(backend_name: str) -> None:
    creation_times = CreationTimes()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: None)  # of tasks that are destroyed
        done = asyncio.create_task(asyncio.sleep(0))
        assert (creation_times.age(id(done)) or -1.0) >= 0
        await done
        assert creation_times.age(id(done)) is None
        destroyed = id(asyncio.create_task(wait_for_ever()))
        await asyncio.sleep(0)
        gc.collect()
        assert creation_times.age(destroyed) is None

    loopcore.run(main(), backend=backend_name, plugins=[creation_times])
    gc.collect()
    assert not creation_times._made
