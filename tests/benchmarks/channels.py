"""How many values a second go through a channel: loopcore.sync beside asyncio.Queue and others.

    python tests/benchmarks/channels.py [--values 200000] [--rounds 5] [--loop loopcore|asyncio]

Each row is the time for one value from one task to another, in ns of CPU time, the least and the median of several
rounds that take turns. anyio's memory streams and the queues of aiologic and culsans are left out, with a word, where
they are not installed; these two queues are for tasks and threads alike, as `mpmc` is with `threadsafe=True`.

`ready` fills a channel and empties it, so nobody waits; `taking turns` has room for one value, so each side waits for
the other each time; `stream` has room for 100. `to 50` is broadcast to 50 receivers, per value received; beside it 50
queues, one for each, which is what one has without.
"""

import argparse
import asyncio
import importlib
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import loopcore
from loopcore.sync import broadcast, mpmc


class Pipe(NamedTuple):
    """A way for values, whatever it is made of."""

    put: Callable[[Any], Awaitable[Any]]
    put_now: Callable[[Any], Any]
    get: Callable[[], Awaitable[Any]]


def over_mpmc(capacity: int) -> Pipe:
    sender, receiver = mpmc.Channel[int](capacity)
    return Pipe(sender.send, sender.try_send, receiver.recv)


def over_mpmc_threadsafe(capacity: int) -> Pipe:
    sender, receiver = mpmc.Channel[int](capacity, threadsafe=True)
    return Pipe(sender.send, sender.try_send, receiver.recv)


def over_queue(capacity: int) -> Pipe:
    queue: asyncio.Queue[int] = asyncio.Queue(capacity)
    return Pipe(queue.put, queue.put_nowait, queue.get)


def over_anyio(capacity: int) -> Pipe:
    anyio = importlib.import_module("anyio")
    sender, receiver = anyio.create_memory_object_stream[int](capacity)
    return Pipe(sender.send, sender.send_nowait, receiver.receive)


def over_aiologic(capacity: int) -> Pipe:
    queue = importlib.import_module("aiologic").Queue(capacity)

    def put_now(value: int) -> None:
        queue.green_put(value, blocking=False)

    return Pipe(queue.async_put, put_now, queue.async_get)


def over_culsans(capacity: int) -> Pipe:
    queue = importlib.import_module("culsans").Queue(capacity).async_q
    return Pipe(queue.put, queue.put_nowait, queue.get)


OTHERS = {"anyio": over_anyio, "aiologic": over_aiologic, "culsans": over_culsans}
"""By the name of the distribution that they need."""


async def ready(pipe: Callable[[int], Pipe], values: int) -> None:
    way = pipe(100)
    for _ in range(values // 100):
        for value in range(100):
            way.put_now(value)
        for value in range(100):
            assert await way.get() == value


async def between_tasks(pipe: Callable[[int], Pipe], values: int, capacity: int) -> None:
    way = pipe(capacity)

    async def produce() -> None:
        for value in range(values):
            await way.put(value)

    producer = asyncio.create_task(produce())
    for value in range(values):
        assert await way.get() == value
    await producer


async def taking_turns(pipe: Callable[[int], Pipe], values: int) -> None:
    await between_tasks(pipe, values, 1)


async def stream(pipe: Callable[[int], Pipe], values: int) -> None:
    await between_tasks(pipe, values, 100)


async def broadcast_to_50(values: int) -> None:
    sender, first = broadcast.Channel[int](100)
    receivers = [first, *(sender.subscribe() for _ in range(49))]

    async def consume(receiver: broadcast.Receiver[int]) -> None:
        async for _ in receiver:
            pass

    consumers = [asyncio.create_task(consume(receiver)) for receiver in receivers]
    for value in range(values // 50):
        sender.try_send(value)
        if value % 20 == 0:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    sender.close()
    await asyncio.gather(*consumers)
    assert not any(receiver.missed for receiver in receivers)


async def queues_to_50(values: int) -> None:
    queues: list[asyncio.Queue[int]] = [asyncio.Queue(100) for _ in range(50)]

    async def consume(queue: asyncio.Queue[int]) -> None:
        while await queue.get() >= 0:
            pass

    consumers = [asyncio.create_task(consume(queue)) for queue in queues]
    for value in range(values // 50):
        for queue in queues:
            queue.put_nowait(value)
        if value % 20 == 0:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    for queue in queues:
        await queue.put(-1)
    await asyncio.gather(*consumers)


def is_installed(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def rows() -> dict[str, Callable[[int], Any]]:
    pipes = {"mpmc": over_mpmc, "mpmc threadsafe": over_mpmc_threadsafe, "asyncio.Queue": over_queue}
    pipes.update({name: pipe for name, pipe in OTHERS.items() if is_installed(name)})
    made: dict[str, Callable[[int], Any]] = {}
    for kind in (ready, taking_turns, stream):
        for name, pipe in pipes.items():
            made[f"{kind.__name__.replace('_', ' ')}, {name}"] = lambda values, kind=kind, pipe=pipe: kind(pipe, values)
    made["to 50, broadcast"] = broadcast_to_50
    made["to 50, asyncio.Queue each"] = queues_to_50
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description="Times channels.")
    parser.add_argument("--values", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--loop", choices=["loopcore", "asyncio"], default="loopcore")
    options = parser.parse_args()
    if absent := [name for name in OTHERS if not is_installed(name)]:
        print(f"left out, for they are not installed: {', '.join(absent)} (pip install)", file=sys.stderr)
    factory = loopcore.new_event_loop if options.loop == "loopcore" else asyncio.SelectorEventLoop
    times: dict[str, list[float]] = {name: [] for name in rows()}
    with asyncio.Runner(loop_factory=factory) as runner:
        for _ in range(options.rounds):
            for name, row in rows().items():
                began = time.process_time_ns()
                runner.run(row(options.values))
                times[name].append((time.process_time_ns() - began) / options.values)
    for name, taken in times.items():
        print(f"{name:32} {min(taken):8.0f} ns, median {statistics.median(taken):8.0f} ns")


if __name__ == "__main__":
    main()
