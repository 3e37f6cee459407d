"""What a task costs, and what a thread costs: to spawn, to switch to, and in memory.

    python tests/benchmarks/tasks_and_threads.py [--rounds 7]

Columns are tasks on loopcore's loop, tasks on asyncio's, and threads. Times are CPU time of the whole process, the
kernel's share included, the least of several rounds that take turns.

`spawn` makes one that does nothing, and waits for its end: in batches of 1,000 tasks, of 10 threads. `switch` is one of
two that hand control to each other: tasks by `sleep(0)`, and by completing the future that the other awaits (`woken`);
threads by two locks. `memory` is the growth of the resident set (Linux) by 20,000 tasks or 500 threads that wait, in a
fresh process, divided by their number; what the kernel takes for a thread (16 KiB for its stack) is not in it.
"""

import argparse
import asyncio
import re
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import loopcore

TASKS = 20_000
THREADS = 500
SWITCHES = 20_000

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "loopcore": loopcore.new_event_loop,
    "asyncio": asyncio.SelectorEventLoop,
}
KINDS = [*LOOPS, "threads"]


def timed_ns(work: Callable[[], Any], count: int) -> float:
    began = time.process_time_ns()
    work()
    return (time.process_time_ns() - began) / count


async def _nothing() -> None:
    pass


async def spawn_tasks(count: int) -> None:
    for _ in range(count // 1000):
        tasks = [asyncio.create_task(_nothing()) for _ in range(1000)]
        await tasks[-1]
        assert tasks[0].done()


async def switch_tasks(count: int) -> None:
    async def turn() -> None:
        for _ in range(count // 2):
            await asyncio.sleep(0)

    await asyncio.gather(turn(), turn())


async def wake_tasks(count: int) -> None:
    loop = asyncio.get_running_loop()
    asleep: deque[asyncio.Future[None]] = deque()

    async def turn() -> None:
        for _ in range(count // 2):
            if asleep:
                asleep.popleft().set_result(None)
            mine = loop.create_future()
            asleep.append(mine)
            await mine
        if asleep:
            asleep.popleft().set_result(None)

    await asyncio.gather(turn(), turn())


def spawn_threads(count: int) -> None:
    for _ in range(count // 10):
        threads = [threading.Thread(target=int) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def switch_threads(count: int) -> None:
    def turn(mine: threading.Lock, other: threading.Lock) -> None:
        for _ in range(count // 2):
            mine.acquire()
            other.release()

    first, second = threading.Lock(), threading.Lock()
    second.acquire()
    threads = [threading.Thread(target=turn, args=pair) for pair in ((first, second), (second, first))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def resident_bytes() -> int:
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


async def memory_of_tasks() -> float:
    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    tasks = {asyncio.create_task(wait()) for _ in range(10)}  # what the first ones bring into being
    await asyncio.sleep(0)
    before = resident_bytes()
    more = [asyncio.create_task(wait()) for _ in range(TASKS)]
    await asyncio.sleep(0)
    taken = resident_bytes() - before
    for task in (*tasks, *more):
        task.cancel()
    await asyncio.wait([*tasks, *more])
    return taken / TASKS


def memory_of_threads() -> float:
    end = threading.Event()
    threads = [threading.Thread(target=end.wait) for _ in range(THREADS + 10)]
    for thread in threads[:10]:
        thread.start()
    before = resident_bytes()
    for thread in threads[10:]:
        thread.start()
    taken = resident_bytes() - before
    end.set()
    for thread in threads:
        thread.join()
    return taken / THREADS


def memory(kind: str) -> float:
    """Measure in this process, which must be a fresh one."""
    if kind == "threads":
        return memory_of_threads()
    with asyncio.Runner(loop_factory=LOOPS[kind]) as runner:
        return runner.run(memory_of_tasks())


def memory_in_a_fresh_process(kind: str) -> float:
    command = [sys.executable, __file__, "--memory-of", kind]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(kind: str) -> dict[str, float]:
    """Return one round's times, in ns."""
    if kind == "threads":
        return {
            "spawn": timed_ns(lambda: spawn_threads(200), 200),
            "switch": timed_ns(lambda: switch_threads(SWITCHES), SWITCHES),
        }
    with asyncio.Runner(loop_factory=LOOPS[kind]) as runner:
        runner.run(_nothing())
        return {
            "spawn": timed_ns(lambda: runner.run(spawn_tasks(TASKS)), TASKS),
            "switch": timed_ns(lambda: runner.run(switch_tasks(SWITCHES)), SWITCHES),
            "switch, woken": timed_ns(lambda: runner.run(wake_tasks(SWITCHES)), SWITCHES),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description="Times tasks beside threads.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--memory-of", choices=KINDS, help="print the memory of one kind, and nothing else")
    options = parser.parse_args()
    if options.memory_of is not None:
        print(memory(options.memory_of))
        return
    rounds = [{kind: measure(kind) for kind in KINDS} for _ in range(options.rounds)]
    print(f"{'':16}" + "".join(f"{kind:>14}" for kind in KINDS))
    for row in ("spawn", "switch", "switch, woken"):
        taken = [
            min((times[kind][row] for times in rounds), default=0) if row in rounds[0][kind] else None for kind in KINDS
        ]
        print(f"{row:16}" + "".join(f"{'-':>14}" if ns is None else f"{ns:>11.0f} ns" for ns in taken))
    if sys.platform == "linux":
        sizes = (memory_in_a_fresh_process(kind) for kind in KINDS)
        print(f"{'memory':16}" + "".join(f"{size:>12.0f} B" for size in sizes))


if __name__ == "__main__":
    main()
