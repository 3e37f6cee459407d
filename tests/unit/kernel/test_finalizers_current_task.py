"""What goes with a task or a timer that nobody knows any more finds no current task, and the loop's own context."""

import asyncio
import gc
import weakref
from collections.abc import Coroutine
from contextvars import Context, ContextVar
from typing import Any

import pytest

from loopcore.kernel.own_tasks import OwnTasks
from loopcore.kernel.scheduler import Scheduler
from loopcore.testing import ScriptedBackend, VirtualClock

Loop = asyncio.AbstractEventLoop

variable: ContextVar[Any] = ContextVar("variable", default=None)


class Looks:
    """Notes, when it goes, which task asyncio shows as the current one, and whose variable it sees."""

    def __init__(self, loop: Any, seen: list[Any]) -> None:
        self._loop = loop
        self._seen = seen

    def look(self, _: Any = None) -> None:
        self._seen.append((asyncio.current_task(self._loop), type(variable.get())))

    def __del__(self) -> None:
        self.look()


class OwnCoroutine(Coroutine[Any, Any, None]):
    """A coroutine that is no function's, and holds something after its end."""

    def __init__(self, held: Looks) -> None:
        self._held = held

    def send(self, value: Any) -> Any:
        raise StopIteration

    def throw(self, *args: Any) -> Any:
        raise args[0]

    def close(self) -> None:
        """Nothing is open."""

    def __await__(self) -> Any:
        yield


async def _set(held: Looks) -> None:
    variable.set(held)


async def _mark(held: Looks) -> None:
    task: Any = asyncio.current_task()
    task.mark = held


class Forgetful:
    """Looks like a future, and forgets who waits for it."""

    _asyncio_future_blocking = True

    def __init__(self, loop: Any) -> None:
        self._loop = loop

    def get_loop(self) -> Any:
        return self._loop

    def __await__(self) -> Any:
        yield self

    def add_done_callback(self, callback: Any, *, context: Any) -> None:
        """Forget it."""


async def _wait_for_nobody(held: Looks) -> None:
    await Forgetful(asyncio.get_running_loop())


watched: list[Any] = []


async def _watch(held: Looks) -> None:
    watched.append(weakref.ref(asyncio.current_task(), held.look))  # type: ignore[arg-type]


@pytest.mark.parametrize("begin", [_set, _mark, _watch, OwnCoroutine, _wait_for_nobody])
def test_what_goes_with_a_task_sees_no_task(loop: Loop, begin: Any) -> None:
    seen: list[Any] = []
    loop.set_exception_handler(lambda *_: seen.append((asyncio.current_task(loop), type(variable.get()))))

    async def follow() -> None:
        variable.set(1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def main() -> None:
        loop.create_task(follow())
        loop.create_task(begin(Looks(loop, seen)))
        loop.create_task(follow())
        for _ in range(4):
            await asyncio.sleep(0)

    loop.run_until_complete(main())
    watched.clear()
    gc.collect()
    assert seen[:1] == [(None, type(None))]


def test_what_goes_with_a_cancelled_timer_sees_no_task() -> None:
    clock = VirtualClock()
    scheduler: Any = Scheduler(ScriptedBackend(clock), clock=clock, tasks=OwnTasks())
    seen: list[Any] = []

    def cancel_one() -> None:
        variable.set(Looks(scheduler, seen))
        timer = scheduler.call_later(1.0, print)
        scheduler._timers.next_deadline()  # now it stays, cancelled, until the loop comes across it
        timer.cancel()

    async def pass_the_time() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        clock.advance(2.0)
        scheduler.time()
        for _ in range(3):
            await asyncio.sleep(0)
        scheduler._stop_ticks()

    Context().run(cancel_one)
    scheduler.call_later(60.0, print)
    scheduler.poll_skip_time = 100.0
    task = scheduler.create_task(pass_the_time())
    scheduler._run_ticks()
    assert task.done()
    assert seen == [(None, type(None))]
    scheduler._close_scheduler()
