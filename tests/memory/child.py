# ruff: noqa: T201 - what is printed is the result
"""Run one scenario again and again, each time in a process of its own in which another allocation fails.

    python child.py SCENARIO BACKEND TRIES

prints a line for each allocation whose failure crashed the process, hung it, or left a loop that does not work, and
at the end how many allocations the scenario makes.
"""

import _testcapi
import asyncio
import gc
import itertools
import logging
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

import loopcore

sys.path.insert(0, str(Path(__file__).parent))

from scenarios import SCENARIOS

BOUND = 200_000
"""More allocations than any scenario makes."""

SECONDS = 10
"""How long a run may take until it counts as hung: nothing in it waits for more than a few milliseconds."""


def quiet(*ignored: object) -> None:
    """Take a report: that there are some is expected."""


def use(loop: Any) -> None:
    """Demand of a loop what every loop does."""

    async def work() -> int:
        await asyncio.sleep(0.001)
        future = loop.create_future()
        loop.call_later(0.001, future.set_result, 1)
        return sum(await asyncio.gather(future, *(asyncio.sleep(0, 1) for _ in range(3))))

    loop.stop()
    loop.run_forever()  # as far as what was given up
    assert loop.run_until_complete(work()) == 4
    loop.run_until_complete(loop.create_task(SCENARIOS["sockets"](loop)))


def begin(name: str, backend: str | None) -> tuple[Any, asyncio.Task[None]]:
    """Return a loop and the task of the scenario, to be run next."""
    loop = loopcore.new_event_loop(backend)
    loop.set_exception_handler(quiet)
    loop.run_until_complete(SCENARIOS["futures"](loop))  # what is made once is made
    main = loop.create_task(SCENARIOS[name](loop))

    def give_up(loop: Any, context: dict[str, Any]) -> None:
        # The scenario may wait for the callback that failed. A failure that is not reported must lose nothing.
        if isinstance(context.get("exception"), MemoryError):
            loop.stop()

    loop.set_exception_handler(give_up)
    sys.unraisablehook = lambda unraisable: give_up(loop, {"exception": unraisable.exc_value})
    gc.collect()
    gc.disable()
    return loop, main


def run_with_failure(name: str, backend: str | None, number: int) -> None:
    """Run the scenario while the allocation of that number fails, then use the loop and close it."""
    loop, main = begin(name, backend)
    _testcapi.set_nomemory(number, number + 1)
    try:
        loop.run_until_complete(main)
    except (Exception, asyncio.CancelledError):
        pass
    finally:
        _testcapi.remove_mem_hooks()
    for task in asyncio.all_tasks(loop):
        task.cancel()
    use(loop)
    loop.close()


def count(name: str, backend: str | None) -> int:
    """Return how many allocations the scenario makes, about."""
    loop, main = begin(name, backend)
    left: list[bytes] = []
    _testcapi.set_nomemory(BOUND, BOUND + 1)
    try:
        loop.run_until_complete(main)
        left.extend(map(bytes, itertools.repeat(10)))  # one allocation each
    except MemoryError:
        pass
    finally:
        _testcapi.remove_mem_hooks()
    loop.close()
    return BOUND - len(left)


def in_child(work: Any, *arguments: Any) -> int:
    """Fork, run `work`, return how the child ended as `os.waitpid` says it."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        run_and_exit(work, arguments)
    return os.waitpid(pid, 0)[1]


def run_and_exit(work: Any, arguments: Any) -> NoReturn:
    """Run `work` in a child: its exit status says whether it came to an end."""
    signal.alarm(SECONDS)
    try:
        work(*arguments)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def describe(status: int) -> str:
    """Say how a child ended."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return "hung" if number == signal.SIGALRM else f"was killed by {signal.Signals(number).name}"
    return f"ended with {os.WEXITSTATUS(status)}"


def stride(total: int, tries: int) -> int:
    """Return a prime number of allocations from one to the next, so that about `tries` of `total` fail; 1 for all."""
    primes = (number for number in itertools.count(2) if all(number % each for each in range(2, number)))
    return next(prime for prime in primes if prime * tries >= total) if 0 < tries < total else 1


def main(name: str, backend: str | None, tries: int) -> None:
    """Have so many allocations fail, one at a time; 0 for all."""
    logging.disable()
    total = count(name, backend)
    for number in range(0, total + 1, stride(total, tries)):
        status = in_child(run_with_failure, name, backend, number)
        if status:
            print(f"failing allocation {number}: the process {describe(status)}", flush=True)
    print(f"{total} allocations", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], None if sys.argv[2] == "auto" else sys.argv[2], int(sys.argv[3]))
