"""A loop that waits: other threads can ask whether it does, and it does not as long as there is something to run."""

from contextvars import Context, ContextVar
from typing import Any

import pytest

from loopcore.kernel.own_tasks import OwnTasks
from loopcore.kernel.scheduler import Scheduler
from loopcore.kernel.visible import IN_USE
from loopcore.testing import ScriptedBackend, VirtualClock


class Asking(ScriptedBackend):
    """Asks its loop, inside the wait, whether it waits; may be told to interrupt it there."""

    reactor: Scheduler
    interrupt = False

    def wait(self, timeout: float | None) -> Any:
        self.answers.append(self.reactor.is_waiting())
        if self.interrupt:
            raise KeyboardInterrupt
        return super().wait(timeout)

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.answers: list[bool] = []


@pytest.fixture
def backend() -> Asking:
    clock = VirtualClock()
    backend = Asking(clock)
    backend.reactor = Scheduler(backend, clock=clock, tasks=OwnTasks())
    return backend


def test_a_loop_waits_in_its_wait_and_nowhere_else(backend: Asking) -> None:
    reactor, outside = backend.reactor, []
    reactor.call_later(1, lambda: outside.append(reactor.is_waiting()))
    reactor.call_later(2, reactor._stop_ticks)
    assert not reactor.is_waiting()
    reactor._run_ticks()
    assert backend.answers
    assert all(backend.answers)
    assert outside == [False]


def test_a_loop_that_was_interrupted_in_its_wait_does_not_wait(backend: Asking) -> None:
    reactor, outside = backend.reactor, []
    backend.interrupt = True
    with pytest.raises(KeyboardInterrupt):
        reactor._run_ticks()
    assert not reactor.is_waiting()
    backend.interrupt = False
    reactor.call_soon(lambda: outside.append(reactor.is_waiting()))
    reactor.call_soon(reactor._stop_ticks)
    reactor._run_ticks()
    assert outside == [False]


def test_an_error_of_the_wait_names_the_backend(backend: Asking) -> None:
    backend.script.append(5)  # type: ignore[arg-type]
    backend.reactor.call_later(1, backend.reactor._stop_ticks)
    with pytest.raises(TypeError) as caught:
        backend.reactor._run_ticks()
    assert caught.value.__notes__ == ["raised in the wait of backend 'scripted'"]  # type: ignore[attr-defined]
    backend.reactor._run_ticks()


variable: ContextVar[Any] = ContextVar("variable")


class Schedules:
    """Its end schedules a callback."""

    def __init__(self, scheduler: Scheduler, log: list[str]) -> None:
        self._scheduler = scheduler
        self._log = log

    def __del__(self) -> None:
        self._scheduler.call_soon(self._log.append, "scheduled")


def test_what_goes_with_a_cancelled_timer_may_schedule_before_the_wait() -> None:
    backend = ScriptedBackend()  # which refuses a wait without limit
    log: list[str] = []
    scheduler = Scheduler(backend, tasks=OwnTasks())

    def cancel_one() -> None:
        variable.set(Schedules(scheduler, log))
        timer = scheduler.call_later(60, log.append, "never")
        scheduler._timers.next_deadline()  # now it stays, cancelled, until the loop comes across it
        timer.cancel()

    Context().run(cancel_one)
    scheduler.call_later(60, log.append, "never").cancel()
    scheduler.tick()
    assert log == ["scheduled"]
    assert backend.timeouts == [0.0]
    scheduler._close_scheduler()


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


class Stopping(Scheduler):
    """Schedules its end when it is told of something, as a program's exception handler may."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_soon(self._stop_ticks)


@pytest.mark.skipif(IN_USE, reason="a task refers to its step, and the step to it: the collector takes them")
def test_what_goes_with_a_task_that_nobody_knows_may_schedule_before_the_wait() -> None:
    backend = ScriptedBackend()  # as above
    scheduler = Stopping(backend)

    async def wait_for_nobody() -> None:
        await Forgetful(scheduler)

    scheduler.create_task(wait_for_nobody())
    scheduler._run_ticks()
    assert set(backend.timeouts) == {0.0}
    scheduler._close_scheduler()
