"""The hooks of loopcore: what a plugin can be told, when, in which thread, and what it may do.

A plugin is any object (or module) with functions marked `@loopcore.hookimpl` and named as here; it may
take any subset of a hook's arguments, by name. Three temperatures:

- **cold** hooks are ordinary pluggy calls: a loop is made, run, closed; something went wrong.
- **tick** hooks are called some times a tick, **hot** hooks for every callback or task step, or for every transport
  or job. They are ordered by pluggy (`tryfirst`, `trylast`) but called straight from a tuple of bound methods that is
  made when the set of plugins changes; with none registered the loop executes the same instructions as if they
  did not exist. They are watched in groups (`GROUPS`): a plugin without a hook of a group costs nothing there.
  They must be quick, must not block and must not raise.

- **policy** hooks decide. Each has at most one owner, the plugin that implements it; a second one is refused.
  A plugin may own policies and observe as well. One without a policy costs nothing there.

All others observe: what they return is ignored. Wrappers are refused. A hook that raises is logged once on
`loopcore.plugin`, its plugin is taken out of the loop and counted, and the loop goes on. Unless a hook says
otherwise it is called in the loop's own thread.
"""

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    import asyncio
    import socket

    from loopcore.kernel.handle import Handle
    from loopcore.kernel.order import ReadyOrder, TickBudget
    from loopcore.kernel.reactor import Reactor
    from loopcore.services.executor import Job

PROJECT = "loopcore"
"""The name that markers and plugin manager agree on."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

TICK_HOOKS = (
    "loopcore_tick_begin",
    "loopcore_tick_end",
    "loopcore_phase_begin",
    "loopcore_phase_end",
    "loopcore_poll_begin",
    "loopcore_poll_end",
)
HOT_HOOKS = (
    "loopcore_handle_scheduled",
    "loopcore_handle_begin",
    "loopcore_handle_end",
    "loopcore_task_spawned",
    "loopcore_task_woken",
    "loopcore_task_step_begin",
    "loopcore_task_step_end",
    "loopcore_task_done",
)
TRANSPORT_HOOKS = (
    "loopcore_transport_opened",
    "loopcore_transport_closed",
    "loopcore_transport_paused",
    "loopcore_transport_resumed",
)
JOB_HOOKS = ("loopcore_job_submitted", "loopcore_job_started", "loopcore_job_finished")
POLICY_HOOKS = (
    "loopcore_make_ready_queue",
    "loopcore_make_tick_budget",
    "loopcore_poll_timeout",
    "loopcore_admit_connection",
)
"""Hooks that decide. Each has one owner at most, the plugin that implements it."""

GROUPS = {"ticks": TICK_HOOKS, "handles": HOT_HOOKS, "transports": TRANSPORT_HOOKS, "jobs": JOB_HOOKS}
"""The tick and hot hooks by what has to be watched for them."""


# Cold


@hookspec
def loopcore_loop_created(loop: "Reactor", backend: Any) -> None:
    """A loop was made on `backend`, of either port; it has not run yet. Only plugins given at creation see this."""


@hookspec
def loopcore_run_started(loop: "Reactor") -> None:
    """The loop begins to tick: `run_forever`, `run_until_complete` or `run` was called."""


@hookspec
def loopcore_run_stopped(loop: "Reactor") -> None:
    """The loop has stopped ticking, also when an exception ended the run."""


@hookspec
def loopcore_loop_closing(loop: "Reactor") -> None:
    """`close` was called on a loop that is open. Everything still works; signal handlers, the watch over child
    processes, the executor and what is queued are dropped next.
    """


@hookspec
def loopcore_loop_closed(loop: "Reactor") -> None:
    """The loop was closed: its queues are empty and its backend is released."""


@hookspec
def loopcore_plugin_registered(loop: "Reactor", plugin: object) -> None:
    """The plugin was registered with `loop`. Called on `plugin` alone, and last: its other hooks are in force.

    Here a plugin starts what it needs for a loop, whether that is being made (`loopcore_loop_created` comes
    later), stands or runs. Thread: the one that registers, which for a running loop must be the loop's own.
    """


@hookspec
def loopcore_plugin_unregistered(loop: "Reactor", plugin: object) -> None:
    """The plugin was taken out of `loop`, by `unregister` or because a hook of it raised. Called on `plugin` alone.

    Here a plugin gives up what it holds for the loop. Closing a loop takes no plugin out: see `loopcore_loop_closed`.
    Thread: the one that unregisters, or that the hook was called in.
    """


@hookspec
def loopcore_fork_child(loop: "Reactor") -> None:
    """This process is a child of os.fork, and `loop` a copy of its parent's that has let go of what it shared.

    A plugin does likewise: it closes its copies of sockets and files without a word to the other end, drops what is
    not written yet (the parent writes it), and does not wait for its threads, which stayed with the parent.
    Thread: the one that forked, in the child, before os.fork returns. Children that only start a program
    (subprocess) are not told.
    """


@hookspec
def loopcore_signal(loop: "Reactor", signum: int) -> None:
    """The signal `signum` has come; its handler, set by `add_signal_handler`, goes on the ready queue next."""


@hookspec
def loopcore_exception(loop: "Reactor", context: dict[str, Any]) -> None:
    """Something was reported to the loop's exception handler; `context` is the handler's, not to be changed.

    Called before the handler. Thread: whichever reports, mostly the loop's own.
    """


@hookspec
def loopcore_slow_callback(loop: "Reactor", runnable: "asyncio.Handle | asyncio.Task[Any]", seconds: float) -> None:
    """A callback or task step ran for `slow_callback_duration` seconds or longer.

    Called in debug mode, and while the loop is metered for callbacks that the meter times.
    """


@hookspec
def loopcore_starvation(loop: "Reactor", left: int) -> None:
    """The next-tick and microtask queues used up their budget after one callback; `left` callbacks still wait."""


@hookspec
def loopcore_stall_begin(loop: "Reactor", stall: object) -> None:
    """A watchdog found the loop stalled: it has neither begun a tick nor waited for longer than a threshold.

    Called by a watchdog plugin, in its own thread, while the loop may stand still: what has to be done in the loop
    waits until it goes on. `stall` is the watchdog's record; that of loopcore's is a `loopcore_plugins.watchdog.Stall`.
    """


@hookspec
def loopcore_stall_end(loop: "Reactor", stall: object) -> None:
    """The stall is over; `stall` is the object of `loopcore_stall_begin`, now complete. Thread: the watchdog's."""


# Tick


@hookspec
def loopcore_tick_begin(loop: "Reactor") -> None:
    """A tick begins; its eight phases follow."""


@hookspec
def loopcore_tick_end(loop: "Reactor") -> None:
    """The tick is over, also when an exception ended it."""


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
    """A task was made. `loopcore_task_woken` comes next, or, if it starts eagerly, its first step."""


@hookspec
def loopcore_task_woken(loop: "Reactor", task: "asyncio.Task[Any]", future: "asyncio.Future[Any] | None") -> None:
    """A task was put on the ready queue: `future`, which it awaits, is done.

    Called where the future is completed, so what runs now has woken the task. None stands for no future: the first
    step, a bare `yield` (asyncio.sleep(0)), or the report of something that cannot be awaited.
    """


@hookspec
def loopcore_task_step_begin(loop: "Reactor", task: "asyncio.Task[Any]") -> None:
    """A task is about to run until its next suspension."""


@hookspec
def loopcore_task_step_end(loop: "Reactor", task: "asyncio.Task[Any]") -> None:
    """The step of a task is over: it waits for something, stands in the ready queue again, or is done."""


@hookspec
def loopcore_task_done(loop: "Reactor", task: "asyncio.Task[Any]") -> None:
    """A task has a result, an exception, or was cancelled. Called before its done callbacks are."""


# Hot: transports


@hookspec
def loopcore_transport_opened(loop: "Reactor", transport: "asyncio.BaseTransport") -> None:
    """A transport is open: `connection_made` of its protocol was called.

    Every kind is told: sockets, datagrams, pipes, child processes (and each of their pipes), TLS. A TLS transport
    stands on another one, which is told by itself and before; it is open itself when the handshake is over.
    """


@hookspec
def loopcore_transport_closed(loop: "Reactor", transport: "asyncio.BaseTransport", exc: BaseException | None) -> None:
    """A transport that was told as opened has ended, with `exc` or in order; `connection_lost` comes next.

    Of one that nobody closed and nobody holds any more it is told in the tick after it was found, without a
    `connection_lost`: its descriptor is closed by then. Not called for one that is still open when the loop is closed.
    """


@hookspec
def loopcore_transport_paused(loop: "Reactor", transport: "asyncio.BaseTransport", direction: str) -> None:
    """`direction` is "reading": the program called `pause_reading`; or "writing": more than the high-water mark is
    waiting to be sent, and `pause_writing` of the protocol comes next.
    """


@hookspec
def loopcore_transport_resumed(loop: "Reactor", transport: "asyncio.BaseTransport", direction: str) -> None:
    """As `loopcore_transport_paused`, the other way: `resume_reading` was called, `resume_writing` comes next."""


# Hot: jobs of executors


@hookspec
def loopcore_job_submitted(loop: "Reactor", job: "Job") -> None:
    """A function is given to an executor, by `run_in_executor`, `asyncio.to_thread` or the resolver."""


@hookspec
def loopcore_job_started(loop: "Reactor", job: "Job") -> None:
    """A thread of the pool begins to run the job. Thread: that one; of other executors than thread pools not called."""


@hookspec
def loopcore_job_finished(loop: "Reactor", job: "Job") -> None:
    """The job is over: it has run, or was cancelled before it began (`started_ns` is 0), or was refused.

    Thread: the one that ran it, before the result leaves it. Where loopcore cannot look into that (executors that are
    no thread pools), and for jobs that were cancelled or refused: the one where that comes out.
    """


# Policy


@hookspec(firstresult=True)
def loopcore_make_ready_queue(loop: "Reactor") -> "ReadyOrder | None":
    """Return what decides in which order ready callbacks run; None leaves it first in, first out.

    Called once, when the plugin is registered, which may be before the loop has ever run. When the plugin is taken
    out, what the order still holds goes back to the ready queue, before what came later.
    """


@hookspec(firstresult=True)
def loopcore_make_tick_budget(loop: "Reactor") -> "TickBudget | None":
    """Return how much a tick may run before the loop polls again; None for all that was ready when the wait returned.

    Called once, when the plugin is registered. Ticks that are ended by it are counted (`budget_yields`).
    """


@hookspec(firstresult=True)
def loopcore_poll_timeout(loop: "Reactor", proposed: float | None) -> float | None:
    """Return a shorter timeout, in seconds, for the wait that comes next; None leaves it.

    `proposed` is what the loop would wait at most, None for without limit. A longer timeout has no effect.
    Called before each wait that may block; a loop that is woken early finds nothing to do and waits again.
    """


@hookspec(firstresult=True)
def loopcore_admit_connection(loop: "Reactor", server: "asyncio.AbstractServer", sock: "socket.socket") -> bool | None:
    """Return False to have an accepted connection reset at once; it is counted (`connections_refused`).

    Called for each connection that a server of the loop accepts, before anything is made for it. `sock` is not to be
    used except to look at.
    """
