"""A cluster that a program starts for itself, on loopcore."""

import asyncio

from dask.distributed import Client

import loopcore

loopcore.install()


async def loop_class() -> str:
    return type(asyncio.get_running_loop()).__module__


if __name__ == "__main__":
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        assert client.submit(sum, [1, 2, 3]).result() == 6
        found = [client.sync(loop_class), client.run_on_scheduler(loop_class)]
        found += client.run(loop_class).values()
        found += client.run(loop_class, nanny=True).values()
        assert found == ["loopcore.loop"] * 6
