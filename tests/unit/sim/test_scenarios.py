"""Invariants, deadlocks, mistakes and searches of a simulated program, as a test of several machines uses them."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest

from loopcore import sim
from loopcore.errors import UsageError
from tests.unit.sim.echoing import SERVER, connected, echo, simulated


def test_an_invariant_is_asked_after_every_step() -> None:
    async def main() -> None:
        count = 0

        def small() -> None:
            assert count < 3, count

        sim.always(small)
        for count in range(5):  # noqa: B007
            await asyncio.sleep(1)

    with pytest.raises(AssertionError) as caught:
        simulated(main)
    assert "the invariant 'small' does not hold" in caught.value.__notes__


def test_a_deadlock_says_who_waits_for_what() -> None:
    async def main() -> None:
        queue: asyncio.Queue[int] = asyncio.Queue()
        await queue.get()

    with pytest.raises(sim.DeadlockError, match=r"Task-\d+ waits for .*queue.*test_scenarios"):
        simulated(main)


def test_a_program_that_never_ends_is_given_up() -> None:
    async def ticks() -> None:
        while True:
            await asyncio.sleep(1)

    async def spins() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(sim.LivelockError, match="60 simulated seconds"):
        sim.run(ticks, limit=60)
    with pytest.raises(sim.LivelockError, match="simulated seconds"):
        sim.run(spins, limit=0.01)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sim.host("a"), "no simulation runs here"),
        (lambda: sim.now(), "no simulation runs here"),
    ],
)
def test_outside_a_simulation_the_functions_say_so(call: Callable[[], object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        call()


def test_mistakes_are_refused() -> None:
    async def main() -> None:
        sim.host("a")
        with pytest.raises(ValueError, match="'a' already"):
            sim.host("a")
        with pytest.raises(UsageError, match="no host is named 'b'; there are a, main"):
            sim.link("a", "b")
        with pytest.raises(UsageError, match="none below 0"):
            sim.link("a", "main", delays=[-1.0])
        with pytest.raises(UsageError, match="at least 0 and below 1"):
            sim.link("a", "main", loss=1.0)
        with pytest.raises(UsageError, match="two groups"):
            sim.partition(["a"])
        with pytest.raises(UsageError, match="a simulation runs already"):
            sim.run(main)

    simulated(main)
    coroutine: Any = main()
    with pytest.raises(UsageError, match="pass the function"):
        sim.run(coroutine)


def test_a_failure_is_found_shrunk_and_replayed() -> None:
    async def main() -> None:
        value = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal value
            while line := await reader.readline():
                if line == b"get\n":
                    writer.write(b"%d\n" % value)
                else:
                    value = int(line)
                    writer.write(b"ok\n")
            writer.close()

        async def increment() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", 7000)
            writer.write(b"get\n")
            writer.write(b"%d\n" % (int(await reader.readline()) + 1))
            await reader.readline()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 7000):
            async with asyncio.TaskGroup() as group:
                group.create_task(increment())
                await asyncio.sleep(0.01)
                group.create_task(increment())
            assert value == 2

    simulated(main)
    with pytest.raises(sim.SimulationFailedError) as caught:
        sim.check(main, seeds=range(200))
    found = sim.search(main, seeds=range(200)).failure
    assert found is not None
    assert len(found.changes) == 1
    assert found.changes[0].label.startswith("delay: ")
    assert f"loopcore.sim.replay(main, {found.token!r})" in str(caught.value)
    with pytest.raises(BaseExceptionGroup if isinstance(found.error, BaseExceptionGroup) else AssertionError):
        sim.replay(main, found.token)


def test_a_failure_names_the_function_that_replays_it() -> None:
    async def fails() -> None:
        raise ValueError

    with pytest.raises(sim.SimulationFailedError, match=r"loopcore\.sim\.replay\(fails, 'sim1_"):
        sim.check(fails, seeds=1)


def test_the_same_seed_is_the_same_run() -> None:
    async def main() -> None:
        sim.host("server", echo)
        reader, writer = await connected()
        for number in range(5):
            writer.write(b"%d" % number)
            await reader.read(100)
        writer.close()

    for seed in range(50):
        assert sim.diverges(main, seed) is None


def test_a_program_that_is_not_deterministic_is_found() -> None:
    runs: list[int] = []

    async def main() -> None:
        runs.append(1)
        for _ in range(len(runs)):
            sim.choose(2, "coin: heads or tails")

    found = sim.diverges(main, 0)
    assert found is not None
    assert "coin" in found.where
    assert "test_scenarios.py" in found.where


async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()
    raise LookupError("in a handler")


async def in_a_handler() -> None:
    async with await asyncio.start_server(answers, "127.0.0.1", SERVER[1]):
        reader, writer = await asyncio.open_connection("127.0.0.1", SERVER[1])
        await reader.read()
        writer.close()
        await asyncio.sleep(1)


async def in_a_callback() -> None:
    asyncio.get_running_loop().call_soon(int, "x")
    await asyncio.sleep(1)


async def in_a_caught_deadlock() -> None:
    one, other = socket.socketpair()
    with one, other:
        try:
            one.recv(1)
        except Exception:
            pass


async def in_an_exit() -> None:
    raise SystemExit(0)


@pytest.mark.parametrize(
    ("program", "error"),
    [
        (in_a_handler, LookupError),
        (in_a_callback, ValueError),
        (in_a_caught_deadlock, sim.DeadlockError),
        (in_an_exit, SystemExit),
    ],
)
def test_a_failure_that_main_does_not_raise_is_one(program: Any, error: type[BaseException]) -> None:
    failure = sim.search(program, seeds=range(1)).failure
    assert failure is not None
    assert type(failure.error) is error


def test_a_token_of_another_program_is_noticed() -> None:
    async def main() -> None:
        if sim.choose(2, "coin: heads or tails"):
            raise LookupError

    async def other() -> None:
        pass

    failure = sim.search(main).failure
    assert failure is not None
    with pytest.raises(sim.SimulationError, match="not that of the token"):
        sim.replay(other, failure.token)
