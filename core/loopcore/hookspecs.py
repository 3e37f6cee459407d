"""The hooks of loopcore: what a plugin can be told, when, in which thread, and what it may do.

A plugin is any object (or module) with functions marked `@loopcore.hookimpl` and named as here; it may
take any subset of a hook's arguments, by name. Three temperatures:

- **cold** hooks are ordinary pluggy calls: a loop is made, run, closed; something went wrong.
- **tick** hooks are called some times a tick, **hot** hooks for every callback or task step. They are
  ordered by pluggy (`tryfirst`, `trylast`) but called straight from a tuple of bound methods that is made
  when the set of plugins changes; with none registered the loop executes the same instructions as if they
  did not exist. They must be quick, must not block and must not raise.

All hooks observe: what they return is ignored, and wrappers are refused. A hook that raises is logged once on
`loopcore.plugin`, its plugin is taken out of the loop and counted, and the loop goes on. Unless a hook says
otherwise it is called in the loop's own thread.
"""

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    import asyncio

    from loopcore.backend import ReadinessBackend
    from loopcore.kernel.handle import Handle
    from loopcore.kernel.reactor import Reactor

PROJECT = "loopcore"
"""The name that markers and plugin manager agree on."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

TICK_HOOKS = ("loopcore_phase_begin", "loopcore_phase_end", "loopcore_poll_begin", "loopcore_poll_end")
HOT_HOOKS = (
    "loopcore_handle_scheduled",
    "loopcore_handle_begin",
    "loopcore_handle_end",
    "loopcore_task_spawned",
    "loopcore_task_step_begin",
    "loopcore_task_step_end",
    "loopcore_task_done",
)


# Cold


@hookspec
def loopcore_loop_created(loop: "Reactor", backend: "ReadinessBackend") -> None:
    """A loop was made on `backend`; it has not run yet. Only plugins given at creation see this."""


@hookspec
def loopcore_run_started(loop: "Reactor") -> None:
    """The loop begins to tick: `run_forever`, `run_until_complete` or `run` was called."""


@hookspec
def loopcore_run_stopped(loop: "Reactor") -> None:
    """The loop has stopped ticking, also when an exception ended the run."""


@hookspec
def loopcore_loop_closed(loop: "Reactor") -> None:
    """The loop was closed: its queues are empty and its backend is released."""


@hookspec
def loopcore_exception(loop: "Reactor", context: dict[str, Any]) -> None:
    """Something was reported to the loop's exception handler; `context` is the handler's, not to be changed.

    Called before the handler. Thread: whichever reports, mostly the loop's own.
    """


@hookspec
def loopcore_slow_callback(loop: "Reactor", runnable: "asyncio.Handle | asyncio.Task[Any]", seconds: float) -> None:
    """In debug mode, a callback or task step ran for `slow_callback_duration` seconds or longer."""


@hookspec
def loopcore_starvation(loop: "Reactor", left: int) -> None:
    """The next-tick and microtask queues used up their budget after one callback; `left` callbacks still wait."""


@hookspec
def loopcore_stall_begin(loop: "Reactor", stall: object) -> None:
    """A watchdog found the loop stalled: it has neither begun a tick nor waited for longer than a threshold.

    Called by a watchdog plugin, in its own thread, while the loop may stand still: what has to be done in the loop waits
    until it goes on. `stall` is the watchdog's record; that of loopcore's is a `loopcore_plugins.watchdog.Stall`.
    """


@hookspec
def loopcore_stall_end(loop: "Reactor", stall: object) -> None:
    """The stall is over; `stall` is the object of `loopcore_stall_begin`, now complete. Thread: the watchdog's."""


# Tick


@hookspec
def loopcore_phase_begin(loop: "Reactor", phase: str) -> None:
    """A phase of the tick begins. `phase` is a name from `loopcore.kernel.phases.PHASES`.

    The poll phase is left out in the ticks that skip it; the others are reported in every tick.
    """


@hookspec
def loopcore_phase_end(loop: "Reactor", phase: str, count: int) -> None:
    """A phase has ended, after `count` callbacks (in the poll phase: events; in close: descriptors)."""


@hookspec
def loopcore_poll_begin(loop: "Reactor", timeout: float | None) -> None:
    """The loop is about to wait in its backend for at most `timeout` seconds; None is without limit."""


@hookspec
def loopcore_poll_end(loop: "Reactor", events: int, waited_ns: int) -> None:
    """The wait has returned with `events` events after `waited_ns` nanoseconds."""


# Hot


@hookspec
def loopcore_handle_scheduled(loop: "Reactor", handle: "Handle", source: str) -> None:
    """A callback was put on a queue.

    `source` is one of soon, timer, threadsafe, immediate, next_tick, microtask, phase. Thread: the caller's.
    """


@hookspec
def loopcore_handle_begin(loop: "Reactor", handle: "Handle") -> None:
    """A callback is about to run: a Handle, or a half of a transport. The steps of tasks have a hook of their own."""


@hookspec
def loopcore_handle_end(loop: "Reactor", handle: "Handle") -> None:
    """The callback that `loopcore_handle_begin` announced has run."""


@hookspec
def loopcore_task_spawned(loop: "Reactor", task: "asyncio.Task[Any]") -> None:
    """A task was made; its first step is on the ready queue, or, if it starts eagerly, follows at once."""


@hookspec
def loopcore_task_step_begin(loop: "Reactor", task: "asyncio.Task[Any]") -> None:
    """A task is about to run until its next suspension."""


@hookspec
def loopcore_task_step_end(loop: "Reactor", task: "asyncio.Task[Any]") -> None:
    """The step of a task is over: it waits for something, stands in the ready queue again, or is done."""


@hookspec
def loopcore_task_done(loop: "Reactor", task: "asyncio.Task[Any]") -> None:
    """A task has a result, an exception, or was cancelled. Called before its done callbacks are."""
