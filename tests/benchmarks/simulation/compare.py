"""Speed of simulators of asyncio: loopcore's, detangle, simloom and simloop, on the same programs.

    pip install loopcore detangle simloom simloop
    python tests/benchmarks/simulation/compare.py [--rounds 5]

A simulator that is not installed is left out. Rows:

- `messages`: 100 tasks in a ring; each sleeps, sends the next one a message by asyncio.Queue and awaits one, 20 times;
- `streams`: a client and a server, 200 requests and responses over asyncio's streams with pauses of 10 ms;
- `seeds`: 200 runs of `messages` with 5 tasks and 2 messages each, each with another seed;
- `sleep`: 200 runs of a program that sleeps once.

A step is an `await` of a sleep, a message or a line that the program has completed: the program counts them, so the
number is the same in every simulator. Networks have their default delays, and searches their default strategy:
loopcore's reorders what the system does, the others reorder every ready callback as well.

Times are CPU time of the process, user and system. Each figure is taken in a new process, after one run that is
not counted; the simulators take turns, and the median of the rounds is printed.
"""

import argparse
import asyncio
import importlib
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

Program = Callable[[], Coroutine[Any, Any, None]]

steps = 0
seconds = 0.0
"""Simulated."""
address = "127.0.0.1"


async def messages(tasks: int, rounds: int) -> None:
    queues: list[asyncio.Queue[int]] = [asyncio.Queue() for _ in range(tasks)]

    async def member(number: int) -> None:
        global steps
        for turn in range(rounds):
            await asyncio.sleep((number + turn) % 7 / 100)
            await queues[(number + 1) % tasks].put(turn)  # does not wait: no step
            assert await queues[number].get() == turn
            steps += 2

    await asyncio.gather(*(member(number) for number in range(tasks)))


async def streams() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        global steps
        while line := await reader.readline():
            steps += 1
            writer.write(b"+" + line)
            await writer.drain()
        writer.close()

    global steps
    server = await asyncio.start_server(serve, address, 8000)
    reader, writer = await asyncio.open_connection(address, 8000)
    for number in range(200):
        writer.write(b"request %d\n" % number)
        assert await reader.readline() == b"+request %d\n" % number
        await asyncio.sleep(0.01)
        steps += 2
    writer.close()
    await writer.wait_closed()
    server.close()
    await asyncio.sleep(1)  # the server sees the end


async def sleeps() -> None:
    global steps
    await asyncio.sleep(1)
    steps += 1


async def timed(program: Program) -> None:
    global seconds
    loop = asyncio.get_running_loop()
    began = loop.time()
    await program()
    seconds += loop.time() - began


def run_with_loopcore(program: Program, seed: int) -> None:
    importlib.import_module("loopcore.sim").run(partial(timed, program), seed=seed)


def run_with_detangle(program: Program, seed: int) -> None:
    importlib.import_module("detangle").run(partial(timed, program), seed=seed)


def run_with_simloom(program: Program, seed: int) -> None:
    async def main(world: object) -> None:  # it simulates a network for a main of one parameter only
        await timed(program)

    importlib.import_module("simloom").run(main, seed=seed)


def run_with_simloop(program: Program, seed: int) -> None:
    global address
    address = "driver"  # it has names of hosts, no addresses
    report = importlib.import_module("simloop").explore(partial(timed, program), [seed])
    assert report is None, report.render()


SIMULATORS = {
    "loopcore": run_with_loopcore,
    "detangle": run_with_detangle,
    "simloom": run_with_simloom,
    "simloop": run_with_simloop,
}
ROWS: dict[str, tuple[Program, int]] = {  # and the number of runs
    "messages": (partial(messages, 100, 20), 10),
    "streams": (streams, 10),
    "seeds": (partial(messages, 5, 2), 200),
    "sleep": (sleeps, 200),
}


def measure(simulator: str, row: str) -> dict[str, float]:
    """Return CPU seconds, steps and simulated seconds of all runs of the row."""
    global steps, seconds
    run = SIMULATORS[simulator]
    program, runs = ROWS[row]
    run(program, 0)
    steps, seconds = 0, 0.0
    began = time.process_time()
    for seed in range(1, runs + 1):
        run(program, seed)
    return {"cpu": time.process_time() - began, "steps": steps, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the speed of simulators of asyncio.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", nargs=2, metavar=("SIMULATOR", "ROW"), help="measure one once; print JSON")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(*arguments.measure)))
        return
    installed = [name for name in SIMULATORS if importlib.util.find_spec(name)]
    print(f"Python {sys.version.split()[0]}, median of {arguments.rounds} rounds")
    print(f"{'':10}{'':10}{'CPU s':>10}{'steps/s':>12}{'simulated s/s':>16}")
    for row in ROWS:
        found: dict[str, list[dict[str, float]]] = {name: [] for name in installed}
        for _ in range(arguments.rounds):
            for name in installed:
                command = [sys.executable, __file__, "--measure", name, row]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                found[name].append(json.loads(done.stdout))
        for name, each in found.items():
            cpu = statistics.median(one["cpu"] for one in each)
            print(f"{row:10}{name:10}{cpu:10.3f}{each[0]['steps'] / cpu:12,.0f}{each[0]['seconds'] / cpu:16,.0f}")


if __name__ == "__main__":
    main()
