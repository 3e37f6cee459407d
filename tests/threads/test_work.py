"""Timers, tasks, executors, child processes and generators of several loops at once: each loop keeps to its own."""

import asyncio
import contextvars
import random
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.threads.loops import LOOPS, ROUNDS, Factory, content, each

variable: contextvars.ContextVar[Any] = contextvars.ContextVar("variable")


def test_timers_fire_once_in_order_and_never_early(factory: Factory) -> None:
    count = 300 * ROUNDS

    async def main(number: int) -> None:
        loop, rng = asyncio.get_running_loop(), random.Random(number)
        fired: list[tuple[float, int]] = []
        ended = loop.create_future()

        def fire(deadline: float, which: int) -> None:
            assert loop.time() >= deadline - time_step
            fired.append((deadline, which))
            if which == count:
                ended.set_result(None)

        time_step = 0.001
        begin = loop.time()
        timers = []
        for which in range(count):
            deadline = begin + rng.random() * 0.02
            timers.append(loop.call_at(deadline, fire, deadline, which))
        cancelled = set(range(0, count, 3))
        for which in cancelled:
            timers[which].cancel()
        loop.call_at(begin + 0.03, fire, begin + 0.03, count)
        await ended
        assert fired == sorted(fired)
        assert sorted(which for _, which in fired) == [
            which for which in range(count + 1) if which not in cancelled or which == count
        ]

    each(factory, main)


def test_tasks_run_in_their_loop_with_their_context(factory: Factory) -> None:
    async def main(number: int) -> None:
        loop, thread = asyncio.get_running_loop(), threading.get_ident()

        async def work(which: int) -> int:
            task = asyncio.current_task()
            variable.set((number, which))
            for _ in range(20):
                await asyncio.sleep(0)
                assert asyncio.current_task() is task
                assert asyncio.get_running_loop() is loop
                assert threading.get_ident() == thread
                assert variable.get() == (number, which)
            return which

        for _ in range(ROUNDS):
            assert await asyncio.gather(*map(work, range(50))) == list(range(50))
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(work(which)) for which in range(50)]
            assert [task.result() for task in tasks] == list(range(50))

    each(factory, main)


def test_cancellation_and_timeouts_stay_in_their_loop(factory: Factory) -> None:
    async def main(number: int) -> None:
        for turn in range(40 * ROUNDS):
            sleeping = [asyncio.create_task(asyncio.sleep(3600)) for _ in range(4)]
            await asyncio.sleep(0)
            sleeping[turn % 4].cancel()
            done, pending = await asyncio.wait(sleeping, return_when=asyncio.FIRST_COMPLETED)
            assert done == {sleeping[turn % 4]}
            assert len(pending) == 3
            for task in pending:
                task.cancel()
            await asyncio.wait(pending)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await asyncio.sleep(3600)

    each(factory, main)


def test_locks_and_queues_of_asyncio_work_in_each_loop(factory: Factory) -> None:
    async def main(number: int) -> None:
        lock, queue, inside = asyncio.Lock(), asyncio.Queue[int](3), 0

        async def produce(first: int) -> None:
            nonlocal inside
            for value in range(first, first + 50):
                async with lock:
                    inside += 1
                    await asyncio.sleep(0)
                    assert inside == 1
                    inside -= 1
                await queue.put(value)

        async def consume() -> list[int]:
            return [await queue.get() for _ in range(150)]

        got, *_ = await asyncio.gather(consume(), produce(0), produce(50), produce(100))
        assert sorted(got) == list(range(150))

    each(factory, main)


def test_an_executor_that_loops_share_answers_the_loop_that_asked(factory: Factory) -> None:
    with ThreadPoolExecutor(3, thread_name_prefix="shared") as pool:

        async def main(number: int) -> None:
            loop, thread = asyncio.get_running_loop(), threading.get_ident()

            def job(which: int) -> tuple[int, int]:
                assert threading.get_ident() != thread
                return number, which

            for executor in (pool, None):
                jobs = [loop.run_in_executor(executor, job, which) for which in range(60 * ROUNDS)]
                jobs[5].cancel()
                answers = await asyncio.gather(*jobs, return_exceptions=True)
                assert threading.get_ident() == thread
                for which, answer in enumerate(answers):
                    assert answer == (number, which) or (which == 5 and isinstance(answer, asyncio.CancelledError))
                assert (await asyncio.to_thread(job, 7)) == (number, 7)

        each(factory, main)


def test_names_are_resolved_for_several_loops(factory: Factory) -> None:
    async def main(number: int) -> None:
        loop = asyncio.get_running_loop()
        for port in range(1000, 1000 + 5 * ROUNDS):
            numeric, named = await asyncio.gather(
                loop.getaddrinfo("127.0.0.1", port), loop.getaddrinfo("localhost", port)
            )
            assert numeric[0][4] == ("127.0.0.1", port)
            assert all(found[4][1] == port for found in named)

    each(factory, main)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no cat")
def test_child_processes_of_several_loops(factory: Factory) -> None:
    async def main(number: int) -> None:
        for turn in range(2 * ROUNDS):
            sent = content("child", number, turn, size=20_000)
            program = f"cat; exit {number + 1}"
            child = await asyncio.create_subprocess_exec("sh", "-c", program, stdin=-1, stdout=-1)
            answer, _ = await child.communicate(sent)
            assert answer == sent
            assert child.returncode == number + 1
            sleeper = await asyncio.create_subprocess_exec("sleep", "3600")
            sleeper.kill()
            assert await sleeper.wait() == -9

    each(factory, main)


def test_generators_are_finalized_by_their_loop(factory: Factory) -> None:
    async def main(number: int) -> None:
        loop, ended = asyncio.get_running_loop(), 0

        async def numbers() -> AsyncIterator[int]:
            nonlocal ended
            try:
                for value in range(10):
                    yield value
            finally:
                await asyncio.sleep(0)
                assert asyncio.get_running_loop() is loop
                ended += 1

        for _ in range(50):
            async for value in numbers():
                if value == 3:
                    break
        for _ in range(5):
            await asyncio.sleep(0)
        await loop.shutdown_asyncgens()
        assert ended == 50

    each(factory, main)


def test_files_of_several_loops(own_factory: Factory, tmp_path: Path) -> None:
    from loopcore import files

    async def main(number: int) -> None:
        for turn in range(5 * ROUNDS):
            path, sent = tmp_path / f"{number}-{turn}", content("file", number, turn, size=50_000)
            async with await files.open(path, "wb") as file:
                await file.write(sent)
            async with await files.open(path, "rb") as file:
                assert await file.read() == sent

    each(own_factory, main)


def test_the_names_of_tasks_differ_between_loops(own_factory: Factory) -> None:
    async def main(number: int) -> set[str]:
        tasks = [asyncio.create_task(asyncio.sleep(0)) for _ in range(300)]
        await asyncio.wait(tasks)
        return {task.get_name() for task in tasks}

    names = each(own_factory, main)
    assert len(set().union(*names)) == 300 * LOOPS
