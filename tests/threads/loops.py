"""Loops in several threads at once.

LOOPCORE_THREADS_ROUNDS multiplies what each test does: 1 takes seconds for all of them, 100 is for a night. Everything is
counted, nothing is timed; a test that waits in vain fails after PATIENCE seconds.
"""

import asyncio
import os
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tests.coroutines import PATIENCE as PATIENCE_OF_A_TEST

T = TypeVar("T")
Factory = Callable[[], asyncio.AbstractEventLoop]
Main = Callable[[], Coroutine[Any, Any, T]]

ROUNDS = int(os.environ.get("LOOPCORE_THREADS_ROUNDS", "1"))
LOOPS = 4
PATIENCE = PATIENCE_OF_A_TEST * 3 * max(1, ROUNDS)


async def bounded(work: Awaitable[T]) -> T:
    """Return what `work` returns, within PATIENCE."""
    async with asyncio.timeout(PATIENCE):
        return await work


def together(factory: Factory, *mains: Main[T]) -> list[T]:
    """Run each on a loop of its own in a thread of its own, all at the same time; return what they return."""
    begin = threading.Barrier(len(mains))

    def run(main: Main[T]) -> T:
        with asyncio.Runner(loop_factory=factory) as runner:
            begin.wait(PATIENCE)
            return runner.run(bounded(main()))

    with ThreadPoolExecutor(len(mains), thread_name_prefix="loop") as pool:
        jobs = [pool.submit(run, main) for main in mains]
        return [job.result(PATIENCE) for job in jobs]


def each(factory: Factory, main: Callable[[int], Coroutine[Any, Any, T]], loops: int = LOOPS) -> list[T]:
    """Run `main(0)`, `main(1)` ... on so many loops at the same time."""
    return together(factory, *[lambda number=number: main(number) for number in range(loops)])  # type: ignore[misc]


async def meet(barrier: threading.Barrier) -> None:
    """Wait until all loops are here."""
    await asyncio.get_running_loop().run_in_executor(None, barrier.wait, PATIENCE)


class Others:
    """Loops that run in threads until the block ends, each with `main(number)` as its first task, if there is one."""

    def __init__(self, factory: Factory, loops: int = LOOPS) -> None:
        self.factory = factory
        self.loops: list[asyncio.AbstractEventLoop] = []
        self._begun = threading.Barrier(loops + 1)
        self._threads = [threading.Thread(target=self._run, name=f"loop {number}") for number in range(loops)]

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=self.factory) as runner:
            loop = runner.get_loop()
            self.loops.append(loop)
            self._begun.wait(PATIENCE)
            loop.run_forever()

    def run(self, number: int, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` returns in the loop `number`."""
        return asyncio.run_coroutine_threadsafe(bounded(work), self.loops[number]).result(PATIENCE)

    def __enter__(self) -> "Others":
        for thread in self._threads:
            thread.start()
        self._begun.wait(PATIENCE)
        return self

    def __exit__(self, *error: object) -> None:
        for loop in self.loops:
            loop.call_soon_threadsafe(loop.stop)
        for thread in self._threads:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in self._threads), "a loop does not stop"


class Threads:
    """Threads without a loop: `start` runs a function in one of them. The block ends when all have, with their errors."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(16, thread_name_prefix="plain")
        self._jobs: list[Any] = []

    def start(self, function: Callable[..., object], *args: object) -> None:
        self._jobs.append(self._pool.submit(function, *args))

    def __enter__(self) -> "Threads":
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self._pool.shutdown(wait=error is None, cancel_futures=True)
        if error is None:
            for job in self._jobs:
                job.result(PATIENCE)


def content(*seed: object, size: int) -> bytes:
    """Return bytes that differ for each seed."""
    return random.Random(repr(seed)).randbytes(size)
