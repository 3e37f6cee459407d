"""The loops that a simulated program makes itself: asyncio's policies and runners, lost loops, deadlocks."""

import asyncio
import copy
import os
import pickle
import selectors
import warnings
from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock
from weakref import ref

import pytest

import loopcore
from loopcore import sim
from loopcore.loop import EventLoop
from loopcore.sim.running import outside, simulation
from loopcore.sim.tape import Fifo, Tape


async def answer() -> int:
    await asyncio.sleep(1000)
    return 42


def test_runners_and_policies_make_simulated_loops() -> None:
    with simulation(Tape(Fifo())) as world, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert asyncio.run(answer()) == 42
        loop = asyncio.get_event_loop_policy().new_event_loop()
        assert isinstance(loop, EventLoop)
        assert loop.run_until_complete(answer()) == 42
        loop.close()
        assert world.now >= 2000.0


def test_current_loop_of_one_simulation_is_not_that_of_the_next() -> None:
    for _ in range(2):
        with simulation(Tape(Fifo())), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            policy = asyncio.get_event_loop_policy()
            loop = policy.new_event_loop()
            asyncio.set_event_loop(loop)
            assert policy.get_event_loop() is loop
            assert loop.run_until_complete(answer()) == 42  # and is left open


def test_loop_that_the_program_has_left_is_closed_and_not_kept() -> None:
    with simulation(Tape(Fifo())):
        left = asyncio.new_event_loop()
        dropped = asyncio.new_event_loop()
        dropped.close()
        dropped_ref = ref(dropped)
        del dropped
        assert dropped_ref() is None
    assert left.is_closed()


def test_deadlock_names_tasks_of_loops_that_the_program_made() -> None:
    async def wait_for_nothing() -> None:
        await asyncio.Event().wait()

    with simulation(Tape(Fifo())), pytest.raises(sim.DeadlockError, match="Task-1 waits for the event"):
        asyncio.run(wait_for_nothing())


def test_tasks_and_futures_are_shown_as_ever() -> None:
    async def main() -> tuple[str, str]:
        task = asyncio.ensure_future(answer())
        shown = repr(task), repr(asyncio.get_running_loop().create_future())
        task.cancel()
        return shown

    task, future = sim.run(main)
    assert task.startswith("<Task pending name='Task-2' coro=<answer() ")
    assert future.startswith("<Future pending")


def test_replaced_function_can_be_pickled_and_copied() -> None:
    with simulation(Tape(Fifo())):
        assert pickle.loads(pickle.dumps(os.getpid))() == os.getpid()
        assert copy.deepcopy(os.getpid)() == os.getpid()


def test_real_functions_outside() -> None:
    real = os.getpid()
    with simulation(Tape(Fifo())):
        assert os.getpid() != real
        with outside():
            assert os.getpid() == real
        assert os.getpid() != real


def test_refused_calls_are_kept_although_the_program_catches_the_error() -> None:
    with simulation(Tape(Fifo())) as world:
        with pytest.raises(sim.NotSimulatedError) as caught:
            os.system("true")
        assert world.refused == [str(caught.value)]


def test_file_has_the_name_that_a_real_one_has(tmp_path: Path) -> None:
    real = open(tmp_path / "real", "w")  # noqa: SIM115
    real.close()
    with simulation(Tape(Fifo())):
        with open(tmp_path / "simulated", "w") as file:
            assert type(file.name) is type(real.name)
        assert os.stat(MagicMock(__index__=lambda self: 0)).st_mode == os.stat(0).st_mode  # before its __fspath__


MAKERS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {  # looked up in the simulation
    "loopcore": lambda: loopcore.new_event_loop(),
    "asyncio": lambda: asyncio.new_event_loop(),
    "class": lambda: asyncio.SelectorEventLoop(),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_a_loop_of_a_thread_is_simulated_whoever_makes_it(maker: str) -> None:
    async def sleeps() -> float:
        await asyncio.sleep(1000)
        return sim.now()

    def in_a_thread() -> float:
        loop = MAKERS[maker]()
        try:
            return loop.run_until_complete(sleeps())
        finally:
            loop.close()

    async def main() -> float:
        return await asyncio.to_thread(in_a_thread)

    assert sim.run(main) >= 1000
    loop = asyncio.SelectorEventLoop()  # the real one again
    assert type(loop) is asyncio.SelectorEventLoop
    loop.close()


def test_a_loop_on_another_backend_is_refused_and_so_is_a_class_of_the_programs_own() -> None:
    async def named() -> None:
        loopcore.new_event_loop("select")

    async def derived() -> None:
        class Own(asyncio.SelectorEventLoop):
            def __del__(self) -> None:
                """asyncio's own would close what was never made."""

        Own(selectors.EpollSelector())

    with pytest.raises(
        sim.NotSimulatedError, match=r"a loop on the backend 'select' is not simulated; leave `backend`"
    ):
        sim.run(named)
    if hasattr(selectors, "EpollSelector"):
        with pytest.raises(sim.NotSimulatedError, match=r"asyncio\.new_event_loop for a loop of its own"):
            sim.run(derived)
