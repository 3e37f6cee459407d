"""dask.distributed: a scheduler, two workers, their nannies and a client, in processes of their own, at real work.

Everything is done over tornado's streams, which use the loop's `add_reader`, and again over dask's transport on
asyncio's, which uses the loop's. Figures are printed; what is asserted are the results.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cloudpickle
import dask
import numpy as np
import pandas as pd
import pytest
from dask import array, dataframe
from dask_cluster import cluster
from distributed import Client, as_completed, get_worker, wait

LOOP = os.environ["DOWNSTREAM_LOOP"]
WORKERS = 2
FAMILIES = ("loopcore", "uvloop", "asyncio")
MEBIBYTE = 1 << 20

# Workers cannot import this file: its functions travel as code.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module", params=["tornado", "asyncio"])
def streams(request: pytest.FixtureRequest) -> str:
    """What carries the messages, on all sides."""
    return str(request.param)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, streams: str) -> Iterator[str]:
    """A running cluster."""
    settings = {"DASK_DISTRIBUTED__COMM__TCP__BACKEND": streams}
    with cluster(tmp_path_factory.mktemp(streams), WORKERS, settings) as file:
        yield file


@pytest.fixture
def client(address: str, streams: str) -> Iterator[Client]:
    """A client, whose loop runs in a thread of this process."""
    with dask.config.set({"distributed.comm.tcp.backend": streams}):
        with Client(scheduler_file=address, timeout=60) as connected:
            connected.wait_for_workers(WORKERS, timeout=60)
            yield connected


@contextmanager
def figure(name: str, amount: float, unit: str) -> Iterator[None]:
    """Print how much was done a second."""
    started = time.perf_counter()
    yield
    seconds = time.perf_counter() - started
    print(f"\n{LOOP}: {name}: {amount / seconds:,.0f} {unit}/s ({seconds:.2f} s)")  # noqa: T201


async def running_loop() -> tuple[int, str]:
    """Return this process, and the package that the class of the running loop comes from."""
    packages = (ancestor.__module__.partition(".")[0] for ancestor in type(asyncio.get_running_loop()).__mro__)
    return os.getpid(), next(package for package in packages if package in FAMILIES)


def test_every_process_runs_on_the_loop(client: Client) -> None:
    found = [
        client.run_on_scheduler(running_loop),
        *client.run(running_loop, nanny=True).values(),
        *client.run(running_loop).values(),
        client.sync(running_loop),
    ]
    assert len({process for process, _ in found}) == 1 + WORKERS + WORKERS + 1
    assert [family for _, family in found] == [LOOP] * len(found)


def test_map_over_data(client: Client) -> None:
    count = 3000
    with figure("map and gather", count, "tasks"):
        results = client.gather(client.map(lambda number: number * number, range(count), pure=False))
    assert results == [number * number for number in range(count)]


def test_round_trips_of_single_tasks(client: Client) -> None:
    count = 300
    with figure("submit and wait", count, "round trips"):
        for number in range(count):
            assert client.submit(int.__neg__, number, pure=False).result() == -number


def test_tasks_that_depend_on_each_other(client: Client) -> None:
    layer = client.map(float, range(512))
    with figure("tree reduction", 511, "tasks"):
        while len(layer) > 1:
            layer = [client.submit(float.__add__, a, b) for a, b in zip(layer[::2], layer[1::2], strict=True)]
        assert layer[0].result() == sum(range(512))


def test_array_computation(client: Client) -> None:
    x = np.random.default_rng(1).standard_normal((2000, 2000))
    with figure("array x @ x.T", x.nbytes / MEBIBYTE, "MiB"):
        chunked = array.from_array(x, chunks=(500, 500))
        result = client.compute(chunked @ chunked.T).result()
    np.testing.assert_allclose(result, x @ x.T)


def test_shuffle(client: Client) -> None:
    rows, keys = 400_000, 1000
    generator = np.random.default_rng(2)
    frame = pd.DataFrame({"key": generator.integers(0, keys, rows), "value": generator.integers(0, 100, rows)})
    with dask.config.set({"dataframe.shuffle.method": "p2p"}):
        with figure("shuffle between workers", rows, "rows"):
            shuffled = dataframe.from_pandas(frame, npartitions=16).shuffle("key")
            sums = shuffled.map_partitions(lambda part: part.groupby("key").sum(), meta={"value": "i8"})
            result = client.compute(sums).result()
    # Each key in one partition only: summed there, it is summed everywhere.
    pd.testing.assert_series_equal(result["value"].sort_index(), frame.groupby("key")["value"].sum())


def test_large_payloads(client: Client) -> None:
    payload = np.random.default_rng(3).integers(0, 256, 100 * MEBIBYTE, dtype=np.uint8)
    first, second = client.scheduler_info()["workers"]
    with figure("100 MiB to a worker, to the other, and back", 3 * 100, "MiB"):
        [sent] = client.scatter([payload], workers=[first])
        moved = client.submit(lambda data: data[::-1].copy(), sent, workers=[second])
        result = moved.result()
    assert np.array_equal(result, payload[::-1])


def test_many_clients_at_once(client: Client, address: str) -> None:
    async def one(number: int) -> int:
        async with Client(scheduler_file=address, asynchronous=True) as mine:
            return sum(await mine.gather(mine.map(lambda x, y: x + y, range(50), [number] * 50)))

    async def many() -> list[int]:
        assert (await running_loop())[1] == LOOP
        return await asyncio.gather(*map(one, range(20)))

    with figure("20 asynchronous clients", 20 * 50, "tasks"):
        results = asyncio.run(many())
    assert results == [sum(range(50)) + 50 * number for number in range(20)]


def test_error_of_a_task_reaches_the_client(client: Client) -> None:
    with pytest.raises(ZeroDivisionError):
        client.submit(lambda: 1 // 0).result()


def test_cancelled_tasks_are_forgotten(client: Client) -> None:
    futures = client.map(lambda number: time.sleep(0.05) or number, range(200), pure=False)
    client.cancel(futures)
    wait([client.submit(int, 1, pure=False)])
    assert all(future.cancelled() for future in futures)


def test_killed_worker_does_not_change_the_result(client: Client) -> None:
    victim = min(client.run(os.getpid).values())

    def slow(number: int) -> tuple[int, int]:
        time.sleep(0.02)
        return number, get_worker().nanny is not None

    count = 200
    with figure("map, one worker of two killed", count, "tasks"):
        futures = client.map(slow, range(count), pure=False)
        next(iter(as_completed(futures)))
        os.kill(victim, signal.SIGKILL)
        results = [number for number, _ in client.gather(futures)]
    assert results == list(range(count))
    client.wait_for_workers(WORKERS, timeout=60)
    restarted = client.run(running_loop)
    assert len(restarted) == WORKERS
    assert victim not in {process for process, _ in restarted.values()}
    assert {family for _, family in restarted.values()} == {LOOP}


def test_restarted_cluster_works(client: Client, address: str) -> None:
    before = set(client.run(os.getpid).values())
    client.restart(timeout=60)
    client.wait_for_workers(WORKERS, timeout=60)
    assert before.isdisjoint(client.run(os.getpid).values())
    assert client.submit(sum, [1, 2, 3]).result() == 6
    assert Path(address).exists()


@pytest.mark.skipif(LOOP != "loopcore", reason="the manual's example of loopcore")
def test_cluster_of_a_program_runs_on_loopcore(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DOWNSTREAM_LOOP"}
    program = Path(__file__).with_name("dask_local_cluster.py")
    subprocess.run([sys.executable, program], env=environment, cwd=tmp_path, timeout=100, check=True)
