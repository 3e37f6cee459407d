"""Threads of simulated programs: jobs, locks, ends."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

from loopcore.sim.running import Outcome, simulate
from loopcore.sim.tape import Random, Replay, Tape

Main = Callable[[], Coroutine[Any, Any, Any]]


def outcome_of(main: Main, seed: int | None = None) -> Outcome:
    """Run `main`; without a seed as asyncio does."""
    outcome = simulate(main, Tape() if seed is None else Tape(Random(seed)))
    if outcome.error is not None:
        raise outcome.error
    return outcome


def result_of(main: Main, seed: int | None = None) -> Any:
    return outcome_of(main, seed).result


def test_jobs_take_simulated_time_side_by_side():
    def work(i: int) -> tuple[int, str]:
        time.sleep(10)
        return i, threading.current_thread().name

    async def main() -> Any:
        return await asyncio.gather(*(asyncio.to_thread(work, i) for i in range(3))), time.monotonic()

    began = time.monotonic()
    found, ended = result_of(main)
    assert found == [(0, "loopcore_0"), (1, "loopcore_1"), (2, "loopcore_2")]
    assert 100_010 <= ended < 100_010.1
    assert time.monotonic() - began < 5


def test_the_loop_resolves_names_in_its_pool():
    async def main() -> bytes:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(answer, "localhost", 7000):
            reader, writer = await asyncio.open_connection("localhost", 7000)
            writer.write(b"hello\n")
            answered = await reader.read()
            writer.close()
            return answered

    assert result_of(main) == b"hello\n"


def test_the_same_tape_gives_the_same_log():
    async def main() -> list[int]:
        order: list[int] = []

        def work(i: int) -> None:
            time.sleep(0.01 * i)
            order.append(i)

        await asyncio.gather(*(asyncio.to_thread(work, i) for i in range(4)))
        return order

    orders = set()
    for seed in range(50):
        one = outcome_of(main, seed)
        other = simulate(main, Tape(Replay(one.tape.choices)))
        assert (one.log, one.result, one.tape.choices) == (other.log, other.result, other.tape.choices)
        orders.add(tuple(one.result))
    assert len(orders) > 1


def test_two_hundred_runs_leave_no_thread():
    async def main() -> None:
        threading.Thread(target=threading.Event().wait).start()
        await asyncio.to_thread(time.sleep, 1)

    before = threading.enumerate()
    for seed in range(200):
        outcome_of(main, seed)
    assert threading.enumerate() == before
