"""Loops in several threads at once.

LOOPCORE_THREADS_ROUNDS multiplies what each test does: by default all of them take seconds, with 100 a night. The work
is counted, never timed; a test whose wait does not end fails after PATIENCE seconds.
"""

import asyncio
import os
import random
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from tests.coroutines import PATIENCE as PATIENCE_OF_A_TEST

T = TypeVar("T")
Factory = Callable[[], asyncio.AbstractEventLoop]
Main = Callable[[], Coroutine[Any, Any, T]]

HAS_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()
ROUNDS = int(os.environ.get("LOOPCORE_THREADS_ROUNDS", "1"))
LOOPS = 4
PATIENCE = PATIENCE_OF_A_TEST * 3 * max(1, ROUNDS)


async def bounded(work: Awaitable[T]) -> T:
    """Return what `work` returns, within PATIENCE."""
    async with asyncio.timeout(PATIENCE):
        return await work


def together(factory: Factory, *mains: Main[T]) -> list[T]:
    """Run each on a new loop in a new thread, all at the same time; return their results."""
    begin = threading.Barrier(len(mains))

    def run(main: Main[T]) -> T:
        with asyncio.Runner(loop_factory=factory) as runner:
            begin.wait(PATIENCE)
            return runner.run(bounded(main()))

    with ThreadPoolExecutor(len(mains), thread_name_prefix="loop") as pool:
        jobs = [pool.submit(run, main) for main in mains]
        return results(jobs)


def results(jobs: "Sequence[Future[T]]") -> list[T]:
    """Return the results of all, or raise the first error, which may be why others still wait."""
    for job in wait(jobs, PATIENCE, return_when=FIRST_EXCEPTION).done:
        job.result()
    return [job.result(0) for job in jobs]


def each(factory: Factory, main: Callable[[int], Coroutine[Any, Any, T]], loops: int = LOOPS) -> list[T]:
    """Run `main(0)`, `main(1)` ... on so many loops at the same time."""
    return together(factory, *[lambda number=number: main(number) for number in range(loops)])  # type: ignore[misc]


async def meet(barrier: threading.Barrier) -> None:
    """Wait until all loops are here."""
    await asyncio.get_running_loop().run_in_executor(None, barrier.wait, PATIENCE)


class Others:
    """Loops that run in threads until the block ends; in `loops` in the order in which they began."""

    def __init__(self, factory: Factory, loops: int = LOOPS) -> None:
        self.factory = factory
        self.loops: list[asyncio.AbstractEventLoop] = []
        self._begun = threading.Barrier(loops + 1)
        self._threads = [threading.Thread(target=self._run, name=f"loop {number}") for number in range(loops)]

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=self.factory) as runner:
            loop = runner.get_loop()
            self.loops.append(loop)
            loop.call_soon(self._begun.wait, PATIENCE)
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
    """Threads without a loop: `start` runs a function in one. The block ends when all have, and raises their errors."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(16, thread_name_prefix="plain")
        self._jobs: list[Future[object]] = []

    def start(self, function: Callable[..., object], *args: object) -> None:
        self._jobs.append(self._pool.submit(function, *args))

    def __enter__(self) -> "Threads":
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if error is None:
            results(self._jobs)
        self._pool.shutdown(wait=error is None, cancel_futures=True)


def content(*seed: object, size: int) -> bytes:
    """Return bytes that differ for each seed."""
    return random.Random(repr(seed)).randbytes(size)
