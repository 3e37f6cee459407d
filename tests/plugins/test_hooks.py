"""Every hook is called, when its spec says, with what its spec says."""

import asyncio
import os
import signal
import socket
import threading
from typing import Any

import pytest

import loopcore
from loopcore.kernel.phases import PHASES
from loopcore.kernel.scheduler import Scheduler
from loopcore.selection.discovery import choose_backend
from loopcore.testing import ScriptedBackend, VirtualClock
from loopcore.testing.hooks.recorder import HOOKS, Recorder

pytestmark = pytest.mark.loopcore_only


@pytest.fixture
def recorder(loop: Any) -> Recorder:
    made = Recorder()
    loop.probes.register(made)
    return made


async def child() -> str:
    await asyncio.sleep(0)
    return "result"


async def program(loop: Any) -> None:
    """Something of everything, on one thread and without time passing that could be told."""
    loop.call_immediate(int)
    loop.next_tick(int)
    loop.queue_microtask(int)
    loop.call_later(0, int)
    check = loop.add_phase_callback("check", int)
    task = loop.create_task(child())
    future = loop.create_future()
    loop.call_soon(future.set_result, 1)
    await future
    await task
    check.cancel()


async def connections(loop: Any) -> None:
    """A stream that is paused and resumed, and a job."""
    near, far = socket.socketpair()
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=near)
    transport.pause_reading()
    transport.resume_reading()
    transport.close()
    await asyncio.sleep(0)
    await loop.run_in_executor(None, int)
    await loop.shutdown_default_executor()
    far.close()


async def interrupted(loop: Any) -> None:
    """A signal that has a handler."""
    came = asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR1, came.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    await came.wait()
    loop.remove_signal_handler(signal.SIGUSR1)


def run_everything(loop: Any) -> None:
    """Make every hook but loopcore_loop_created called."""
    loop.set_exception_handler(lambda *_: None)
    loop.run_until_complete(program(loop))
    loop.run_until_complete(connections(loop))
    loop.run_until_complete(interrupted(loop))
    loop.call_exception_handler({"message": "reported"})
    loop._microtasks.budget = 1
    loop.next_tick(loop.next_tick, int)
    loop.set_debug(True)
    loop.slow_callback_duration = 0.0
    loop.run_until_complete(child())
    for hook in ("loopcore_stall_begin", "loopcore_stall_end"):  # called by watchdogs, through this door
        loop.probes.cold(hook, loop=loop, stall=None)
    loop.close()


def test_every_hook_is_called_with_its_loop(backend_name: str) -> None:
    recorder = Recorder()
    loop = loopcore.EventLoop(choose_backend(backend_name).factory(), plugins=[recorder])
    run_everything(loop)
    # A fork has a test of its own, and nothing takes this plugin out.
    assert set(HOOKS) - recorder.names() == {"loopcore_fork_child", "loopcore_plugin_unregistered"}
    assert all(arguments["loop"] is loop for _, arguments in recorder.seen)
    (created,) = recorder.of("loop_created")
    assert created["backend"] is loop.backend


def test_cold_hooks_of_a_run_come_in_order_and_once_each(loop: Any, recorder: Recorder) -> None:
    run_everything(loop)
    run, end = ["loopcore_run_started", "loopcore_run_stopped"], ["loopcore_loop_closing", "loopcore_loop_closed"]
    order = [hook for hook, _ in recorder.seen if hook in (*run, *end)]
    assert order == [*run * 4, *end]
    assert [arguments["context"]["message"] for arguments in recorder.of("exception")] == ["reported"]
    assert recorder.of("starvation")[0]["left"] == 1
    assert all(arguments["seconds"] >= 0 for arguments in recorder.of("slow_callback"))
    assert any(asyncio.isfuture(arguments["runnable"]) for arguments in recorder.of("slow_callback"))


def test_a_run_that_an_exception_ends_is_told_as_stopped(loop: Any, recorder: Recorder) -> None:
    def leave() -> None:
        raise KeyboardInterrupt

    loop.call_soon(leave)
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    assert len(recorder.of("run_stopped")) == 1
    assert len(recorder.of("handle_end")) == len(recorder.of("handle_begin"))


def test_phases_begin_and_end_in_order_and_say_how_many_callbacks_they_ran(loop: Any, recorder: Recorder) -> None:
    for phase in ("idle", "prepare", "check"):
        loop.add_phase_callback(phase, int)
    for _ in range(3):
        loop.call_soon(int)
    loop.call_later(0, int)
    loop.stop()
    loop.run_forever()
    begun = [arguments["phase"] for arguments in recorder.of("phase_begin")]
    ended = {arguments["phase"]: arguments["count"] for arguments in recorder.of("phase_end")}
    assert begun == list(PHASES)
    assert ended == {
        "idle": 1, "prepare": 1, "poll": 0, "pending": 3, "io": 0, "check": 1, "timers": 1, "close": 0,
    }  # fmt: skip


def test_polls_say_their_timeout_and_how_long_they_took(loop: Any, recorder: Recorder) -> None:
    loop.call_later(0.001, loop.stop)
    loop.run_forever()
    timeouts = [arguments["timeout"] for arguments in recorder.of("poll_begin")]
    assert all(0 <= timeout <= 0.001 for timeout in timeouts)
    ends = recorder.of("poll_end")
    assert len(ends) == len(timeouts)
    assert all(isinstance(end["waited_ns"], int) and end["waited_ns"] >= 0 for end in ends)


def test_a_wait_without_limit_is_told_as_none(loop: Any, recorder: Recorder) -> None:
    def wake(timeout: Any) -> None:
        if timeout is None:
            threading.Thread(target=loop.call_soon_threadsafe, args=(loop.stop,)).start()

    class Waker:
        @loopcore.hookimpl
        def loopcore_poll_begin(self, timeout: Any) -> None:
            wake(timeout)

    loop.probes.register(Waker())
    loop.run_forever()
    assert recorder.of("poll_begin")[-1]["timeout"] is None


class BeginsPoll:
    @loopcore.hookimpl
    def loopcore_poll_begin(self, loop: Any) -> None:
        self.schedule(loop)


class BeginsPhase:
    @loopcore.hookimpl
    def loopcore_phase_begin(self, loop: Any, phase: str) -> None:
        if phase == "poll":
            self.schedule(loop)


class BoundsPoll:
    @loopcore.hookimpl
    def loopcore_poll_timeout(self, loop: Any) -> None:
        self.schedule(loop)


@pytest.mark.parametrize("kind", [BeginsPoll, BeginsPhase, BoundsPoll])
@pytest.mark.parametrize(
    ("schedule", "alone", "beside_a_timer"),
    [
        (lambda loop: loop.call_soon(int), 0.0, 0.0),
        (lambda loop: loop.next_tick(int), 0.0, 0.0),
        (lambda loop: loop.call_at(loop.time() + 0.25, int), 0.25, 0.25),
        (lambda loop: loop.call_at(loop.time() + 2.0, int), 2.0, 1.0),
        (lambda loop: loop._stop_ticks(), 0.0, 0.0),
        (lambda loop: None, None, 1.0),
    ],
)
@pytest.mark.parametrize("has_timer", [True, False])
def test_what_a_hook_schedules_before_the_wait_bounds_it(
    kind: Any, schedule: Any, alone: float | None, beside_a_timer: float, has_timer: bool
) -> None:
    clock = VirtualClock()
    backend = ScriptedBackend(clock)
    backend.wakes = 1  # it need not be told that a wait without limit would end
    reactor = Scheduler(backend, clock=clock)
    if has_timer:
        reactor.call_at(reactor.time() + 1.0, int)
    hooks = kind()
    hooks.schedule = schedule
    reactor.probes.register(hooks)
    reactor.tick()
    assert backend.timeouts == [beside_a_timer if has_timer else alone]
    reactor._close_scheduler()


def test_scheduling_says_from_where(loop: Any, recorder: Recorder) -> None:
    handles = {
        "soon": loop.call_soon(int),
        "timer": loop.call_later(0, int),
        "threadsafe": loop.call_soon_threadsafe(int),
        "immediate": loop.call_immediate(int),
        "next_tick": loop.next_tick(int),
        "microtask": loop.queue_microtask(int),
        "phase": loop.add_phase_callback("check", int),
    }
    seen = {arguments["source"]: arguments["handle"] for arguments in recorder.of("handle_scheduled")}
    assert seen == handles
    loop.stop()
    loop.run_forever()
    for hook in ("handle_begin", "handle_end"):
        assert {id(arguments["handle"]) for arguments in recorder.of(hook)} == {id(one) for one in handles.values()}


def test_cancelled_callbacks_are_not_announced(loop: Any, recorder: Recorder) -> None:
    loop.call_soon(int).cancel()
    loop.call_later(0, int).cancel()
    loop.stop()
    loop.run_forever()
    assert recorder.of("handle_begin") == []


@pytest.mark.parametrize("eager", [False, True])
async def test_a_task_is_spawned_stepped_and_done_in_that_order(loop: Any, recorder: Recorder, eager: bool) -> None:
    task = loop.create_task(child(), eager_start=eager)
    await task
    order = [hook.removeprefix("loopcore_task_") for hook, told in recorder.seen if told.get("task") is task]
    first = [] if eager else ["woken"]
    assert order == ["spawned", *first, "step_begin", "woken", "step_end", "step_begin", "done", "step_end"]


def test_steps_of_tasks_are_not_announced_as_handles(loop: Any, recorder: Recorder) -> None:
    loop.run_until_complete(child())
    assert all(isinstance(told["handle"], asyncio.Handle) for told in recorder.of("handle_begin"))
