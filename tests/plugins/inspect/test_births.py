"""Ages of tasks: known while they live, and forgotten with them."""

import asyncio
import gc

import pytest

import loopcore
from loopcore_plugins.inspect.births import Births

pytestmark = pytest.mark.loopcore_only


async def wait_for_ever() -> None:
    await asyncio.get_running_loop().create_future()


def test_a_task_has_an_age_until_it_is_done_or_destroyed(backend_name: str) -> None:
    births = Births()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: None)  # of tasks that are destroyed
        done = asyncio.create_task(asyncio.sleep(0))
        assert (births.age(id(done)) or -1.0) >= 0
        await done
        assert births.age(id(done)) is None
        destroyed = id(asyncio.create_task(wait_for_ever()))
        await asyncio.sleep(0)
        gc.collect()
        assert births.age(destroyed) is None

    loopcore.run(main(), backend=backend_name, plugins=[births])
    gc.collect()
    assert not births._made
