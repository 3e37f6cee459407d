"""What a plugin is told of itself, of its loop's end, and of forks."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import loopcore
from loopcore.kernel.scheduler import Scheduler
from loopcore.testing import ScriptedBackend, VirtualClock

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def reactor() -> Scheduler:
    clock = VirtualClock()
    return Scheduler(ScriptedBackend(clock), clock=clock)


class Guest:
    """Writes down what it is told of plugins."""

    def __init__(self) -> None:
        self.told: list[tuple[str, object, object]] = []

    @loopcore.hookimpl
    def loopcore_plugin_registered(self, loop: object, plugin: object) -> None:
        self.told.append(("registered", loop, plugin))

    @loopcore.hookimpl
    def loopcore_plugin_unregistered(self, loop: object, plugin: object) -> None:
        self.told.append(("unregistered", loop, plugin))


def test_a_plugin_hears_of_itself_only(reactor: Scheduler) -> None:
    one, two = Guest(), Guest()
    for guest in (one, two):
        reactor.probes.register(guest)
    reactor.probes.unregister(one)
    assert one.told == [("registered", reactor, one), ("unregistered", reactor, one)]
    assert two.told == [("registered", reactor, two)]


def test_its_other_hooks_are_in_force_when_a_plugin_hears_that_it_is_registered(reactor: Scheduler) -> None:
    class Starting:
        scheduled: Any = None

        @loopcore.hookimpl
        def loopcore_plugin_registered(self, loop: Scheduler) -> None:
            loop.call_soon(int)

        @loopcore.hookimpl
        def loopcore_handle_scheduled(self, handle: Any) -> None:
            self.scheduled = handle

    starting = Starting()
    reactor.probes.register(starting)
    assert starting.scheduled is not None


def test_a_plugin_that_fails_is_told_that_it_is_out(reactor: Scheduler, caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Guest):
        @loopcore.hookimpl
        def loopcore_run_started(self) -> None:
            raise ValueError("plugin")

    failing = Failing()
    reactor.probes.register(failing)
    reactor.probes.cold("loopcore_run_started", loop=reactor)
    assert [what for what, _, _ in failing.told] == ["registered", "unregistered"]
    assert len(caplog.records) == 1


def test_a_plugin_that_fails_when_it_is_registered_is_out(reactor: Scheduler, caplog: pytest.LogCaptureFixture) -> None:
    class Failing:
        @loopcore.hookimpl
        def loopcore_plugin_registered(self) -> None:
            raise ValueError("plugin")

    reactor.probes.register(Failing(), "failing")
    assert reactor.probes.plugins() == []
    assert reactor.probes.failures == {"failing": 1}
    assert "loopcore_plugin_registered" in caplog.text


def test_a_plugin_that_fails_when_it_goes_is_gone_all_the_same(
    reactor: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing:
        @loopcore.hookimpl
        def loopcore_plugin_unregistered(self) -> None:
            raise ValueError("plugin")

    failing = Failing()
    reactor.probes.register(failing)
    reactor.probes.unregister(failing)
    assert reactor.probes.plugins() == []
    assert "loopcore_plugin_unregistered" in caplog.text


@pytest.mark.loopcore_only
def test_while_a_loop_is_closing_everything_still_works(loop: Any) -> None:
    class Last:
        ran: bool = False

        @loopcore.hookimpl
        def loopcore_loop_closing(self, loop: Any) -> None:
            loop.run_until_complete(self.say_goodbye())

        async def say_goodbye(self) -> None:
            self.ran = True

    last = Last()
    loop.probes.register(last)
    loop.close()
    assert last.ran
    assert loop.is_closed()


FORK = """
import os, sys, loopcore

class Watch:
    @loopcore.hookimpl
    def loopcore_fork_child(self, loop):
        os.write(1, f"{'child' if os.getpid() != parent else 'parent'} {loop is alive}\\n".encode())

parent = os.getpid()
alive, closed = (loopcore.new_event_loop(sys.argv[1], plugins=[Watch()]) for _ in range(2))
closed.close()
child = os.fork()
if not child:
    os._exit(0)
os.waitpid(child, 0)
alive.close()
"""


@pytest.mark.loopcore_only
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork(2)")
def test_a_child_of_a_fork_is_told_of_each_loop_that_is_open(backend_name: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FORK, backend_name], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "child True\n", "")


class Leaving:
    """Fails when a task is made, and again in its farewell."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    @loopcore.hookimpl
    def loopcore_task_spawned(self) -> None:
        raise ValueError("in a hook")

    @loopcore.hookimpl
    def loopcore_plugin_unregistered(self) -> None:
        raise self.error


@pytest.mark.parametrize("error", [ValueError("in the farewell"), asyncio.CancelledError(), GeneratorExit()])
def test_a_plugin_that_fails_even_in_its_farewell_stops_nothing(loopcore_factory: Any, error: BaseException) -> None:
    loop = loopcore_factory()
    loop.probes.register(Leaving(error))
    assert loop.run_until_complete(asyncio.sleep(0, "done")) == "done"
    assert loop.probes.plugins() == []


def test_a_task_whose_announcement_ends_the_run_begins_in_the_next(loopcore_factory: Any) -> None:
    loop = loopcore_factory()

    class Ending:
        @loopcore.hookimpl
        def loopcore_task_spawned(self, task: Any) -> None:
            if task.get_coro().__name__ == "note":
                raise SystemExit

    async def main() -> None:
        asyncio.create_task(note())

    async def note() -> None:
        noted.append("began")

    noted: list[str] = []
    loop.probes.register(Ending())
    with pytest.raises(SystemExit):
        loop.run_until_complete(main())
    loop.run_until_complete(asyncio.sleep(0))
    assert noted == ["began"]
