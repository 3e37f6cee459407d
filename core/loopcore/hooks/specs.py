"""The hooks of loopcore: which events a plugin can observe, when, in which thread, and what it may do.

A plugin is any object or module with functions marked `@loopcore.hookimpl` and named as here. A function takes any
subset of its hook's arguments, by name. There are five kinds of hooks:

- **Cold** hooks are called when a loop is created, run or closed, and when something goes wrong. They are ordinary
  pluggy calls.
- **Tick** hooks are called a few times per tick.
- **Hot** hooks are called for every callback, task step, transport or job.
- **Observers** take the place of tick and hot hooks where these cost too much. A hook makes an object; the loop calls
  that object for each event, without Python in between if it is compiled.
- **Policy** hooks decide. Each has at most one owner, the plugin that implements it; a second one is refused. A plugin
  may own policies and observe as well.

Cold, tick and hot hooks observe: their return values are ignored. Unless a hook says otherwise, it is called in the
loop's own thread. If a hook raises, the error is logged once on `loopcore.plugin`, its plugin is removed from the loop
and counted, and the loop continues. Wrappers are refused.

Tick and hot hooks must be quick, and must not block. pluggy orders them (`tryfirst`, `trylast`), but the loop calls
them from a tuple of bound methods, which is rebuilt when the set of plugins changes. They are enabled in groups
(`GROUPS`). A group that no plugin uses costs nothing: the loop executes the same instructions as if its hooks did not
exist.
"""

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    import asyncio
    import socket

    from loopcore.hooks.observer import Observer
    from loopcore.hooks.types import Job, Loop, ReadyOrder, TickBudget
    from loopcore.ports.completion import Backend

PROJECT = "loopcore"
"""The project name that the pluggy markers and the plugin manager share."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl: pluggy.HookimplMarker = pluggy.HookimplMarker(PROJECT)

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
"""Hooks that decide. Each has at most one owner, the plugin that implements it."""

GROUPS = {"ticks": TICK_HOOKS, "handles": HOT_HOOKS, "transports": TRANSPORT_HOOKS, "jobs": JOB_HOOKS}
"""The tick and hot hooks, by the part of the loop that has to be watched for them."""


# Cold


@hookspec
def loopcore_loop_created(loop: "Loop", backend: "Backend") -> None:
    """A loop was created on `backend`, of either port; it has not run yet. Only plugins given at creation see this."""


@hookspec
def loopcore_run_started(loop: "Loop") -> None:
    """The loop starts ticking: `run_forever`, `run_until_complete` or `run` was called."""


@hookspec
def loopcore_run_stopped(loop: "Loop") -> None:
    """The loop has stopped ticking, also when an exception ended the run."""


@hookspec
def loopcore_loop_closing(loop: "Loop") -> None:
    """`close` was called on a loop that is open. Everything still works. Signal handlers, the watching of child
    processes, the executor and queued callbacks are dropped next.
    """


@hookspec
def loopcore_loop_closed(loop: "Loop") -> None:
    """The loop was closed: its queues are empty and its backend is released."""


@hookspec
def loopcore_plugin_registered(loop: "Loop", plugin: object) -> None:
    """The plugin was registered with `loop`. Called on `plugin` only, and last: its other hooks are active already.

    Here a plugin starts what it needs for a loop, whether the loop is being created (`loopcore_loop_created` comes
    later), is idle, or runs. Thread: the one that registers, which for a running loop must be the loop's own.
    """


@hookspec
def loopcore_plugin_unregistered(loop: "Loop", plugin: object) -> None:
    """The plugin was removed from `loop`, by `unregister` or because one of its hooks raised. Called on `plugin` only.

    Here a plugin releases what it holds for the loop. Closing a loop removes no plugin: see `loopcore_loop_closed`.
    Thread: the one that unregisters, or the one in which the hook was called.
    """


@hookspec
def loopcore_fork_child(loop: "Loop") -> None:
    """This process is a child of os.fork, and `loop`, a copy of the parent's, has released the resources they shared.

    A plugin does the same: it closes its copies of sockets and files without sending anything to the other end, drops
    data that is not written yet (the parent writes it), and does not wait for its threads, which stayed with the
    parent. Thread: the one that forked, in the child, before os.fork returns. Not called in children that only start a
    program (subprocess).
    """


@hookspec
def loopcore_signal(loop: "Loop", signum: int) -> None:
    """The signal `signum` arrived; its handler, set by `add_signal_handler`, goes on the ready queue next."""


@hookspec
def loopcore_exception(loop: "Loop", context: dict[str, Any]) -> None:
    """An error was reported to the loop's exception handler; `context` is the handler's and must not be changed.

    Called before the handler. Thread: the one that reports, usually the loop's own.
    """


@hookspec
def loopcore_slow_callback(loop: "Loop", runnable: "asyncio.Handle | asyncio.Task[Any]", seconds: float) -> None:
    """A callback or task step ran for `slow_callback_duration` seconds or longer.

    Called in debug mode; also, while the loop has a meter, for the callbacks that the meter times.
    """


@hookspec
def loopcore_starvation(loop: "Loop", left: int) -> None:
    """The next-tick and microtask queues used up their budget after one callback; `left` callbacks are still queued."""


@hookspec
def loopcore_stall_begin(loop: "Loop", stall: object) -> None:
    """A watchdog found the loop stalled: for longer than a threshold it has neither begun a tick nor waited.

    Called by a watchdog plugin, in the watchdog's thread, while the loop may be blocked: work that belongs in the loop
    has to wait until the loop continues. `stall` is the watchdog's record; loopcore's own watchdog passes a
    `loopcore_plugins.watchdog.Stall`.
    """


@hookspec
def loopcore_stall_end(loop: "Loop", stall: object) -> None:
    """The stall is over; `stall` is the object of `loopcore_stall_begin`, now complete. Thread: the watchdog's."""


# Tick


@hookspec
def loopcore_tick_begin(loop: "Loop") -> None:
    """A tick begins; its eight phases follow."""


@hookspec
def loopcore_tick_end(loop: "Loop") -> None:
    """The tick is over, also when an exception ended it."""


@hookspec
def loopcore_phase_begin(loop: "Loop", phase: str) -> None:
    """A phase of the tick begins. `phase` is a name from `loopcore.kernel.phases.PHASES`.

    Not called for the poll phase in ticks that skip it; the other phases are reported in every tick.
    """


@hookspec
def loopcore_phase_end(loop: "Loop", phase: str, count: int) -> None:
    """A phase has ended, after `count` callbacks (in the poll phase: events; in close: descriptors)."""


@hookspec
def loopcore_poll_begin(loop: "Loop", timeout: float | None) -> None:
    """The loop is about to wait in its backend for at most `timeout` seconds; None means without limit."""


@hookspec
def loopcore_poll_end(loop: "Loop", events: int, waited_ns: int) -> None:
    """The wait has returned with `events` events after `waited_ns` nanoseconds."""


# Hot


@hookspec
def loopcore_handle_scheduled(loop: "Loop", handle: "asyncio.Handle", source: str) -> None:
    """A callback was put on a queue.

    `source` is one of soon, timer, threadsafe, immediate, next_tick, microtask, phase. Thread: the caller's.
    """


@hookspec
def loopcore_handle_begin(loop: "Loop", handle: "asyncio.Handle") -> None:
    """A callback is about to run: a Handle, or one half of a transport. Task steps have separate hooks."""


@hookspec
def loopcore_handle_end(loop: "Loop", handle: "asyncio.Handle") -> None:
    """The callback that `loopcore_handle_begin` announced has run."""


@hookspec
def loopcore_task_spawned(loop: "Loop", task: "asyncio.Task[Any]") -> None:
    """A task was created. `loopcore_task_woken` comes next, or, if it starts eagerly, its first step."""


@hookspec
def loopcore_task_woken(loop: "Loop", task: "asyncio.Task[Any]", future: "asyncio.Future[Any] | None") -> None:
    """A task was put on the ready queue: `future`, which it awaits, is done.

    Called where the future is completed, so the code that runs now woke the task. None means no future: the first
    step, a bare `yield` (asyncio.sleep(0)), or the error for an object that cannot be awaited.
    """


@hookspec
def loopcore_task_step_begin(loop: "Loop", task: "asyncio.Task[Any]") -> None:
    """A task is about to run until its next suspension."""


@hookspec
def loopcore_task_step_end(loop: "Loop", task: "asyncio.Task[Any]") -> None:
    """The step of a task is over: it waits for something, is on the ready queue again, or is done."""


@hookspec
def loopcore_task_done(loop: "Loop", task: "asyncio.Task[Any]") -> None:
    """A task has a result or an exception, or was cancelled. Called before its done callbacks."""


# Hot: transports


@hookspec
def loopcore_transport_opened(loop: "Loop", transport: "asyncio.BaseTransport") -> None:
    """A transport is open: `connection_made` of its protocol was called.

    Every kind is reported: sockets, datagrams, pipes, child processes (and each of their pipes), TLS. The transport
    below a TLS transport is reported separately and first; the TLS transport is open when the handshake is over.
    """


@hookspec
def loopcore_transport_closed(loop: "Loop", transport: "asyncio.BaseTransport", exc: BaseException | None) -> None:
    """A transport that was reported as opened has ended, with `exc` or normally; `connection_lost` comes next.

    A transport that was never closed and that nothing refers to any more is reported in the tick after it was found,
    without a `connection_lost`: its descriptor is closed by then. Not called for a transport that is still open when
    the loop is closed.
    """


@hookspec
def loopcore_transport_paused(loop: "Loop", transport: "asyncio.BaseTransport", direction: str) -> None:
    """`direction` is "reading": the program called `pause_reading`; or "writing": more than the high-water mark is
    waiting to be sent, and the protocol's `pause_writing` comes next.
    """


@hookspec
def loopcore_transport_resumed(loop: "Loop", transport: "asyncio.BaseTransport", direction: str) -> None:
    """The opposite of `loopcore_transport_paused`: `resume_reading` was called, or `resume_writing` comes next."""


# Hot: jobs of executors


@hookspec
def loopcore_job_submitted(loop: "Loop", job: "Job") -> None:
    """A function is handed to an executor, by `run_in_executor`, `asyncio.to_thread` or the resolver."""


@hookspec
def loopcore_job_started(loop: "Loop", job: "Job") -> None:
    """A thread of the pool begins to run the job. Thread: that one. Only called for executors that are thread pools."""


@hookspec
def loopcore_job_finished(loop: "Loop", job: "Job") -> None:
    """The job is over: it has run, or was cancelled before it began (`started_ns` is 0), or was refused.

    Thread: the one that ran it, before the result leaves it. For executors that are not thread pools, where loopcore
    cannot look inside, and for jobs that were cancelled or refused: the thread that learns of the outcome.
    """


# Observers


@hookspec
def loopcore_make_observer(loop: "Loop") -> "Observer | None":
    """Return an observer of `loop`: an instance of a subclass of `loopcore.hooks.observer.Observer`.

    Called once, when the plugin is registered, which may be before the loop has ever run. Removing the plugin removes
    its observer. An observer that fails is removed together with its plugin.
    """


# Policy


@hookspec(firstresult=True)
def loopcore_make_ready_queue(loop: "Loop") -> "ReadyOrder | None":
    """Return the object that decides in which order ready callbacks run; None leaves it first in, first out.

    Called once, when the plugin is registered, which may be before the loop has ever run. When the plugin is removed,
    the callbacks still held by the order go back to the ready queue, before those that came later.
    """


@hookspec(firstresult=True)
def loopcore_make_tick_budget(loop: "Loop") -> "TickBudget | None":
    """Return how much a tick may run before the loop polls again; None means all that was ready after the last wait.

    Called once, when the plugin is registered. Ticks that the budget ends are counted (`budget_yields`).
    """


@hookspec(firstresult=True)
def loopcore_poll_timeout(loop: "Loop", proposed: float | None) -> float | None:
    """Return a shorter timeout, in seconds, for the next wait; None leaves it unchanged.

    `proposed` is the longest that the loop would wait, None for without limit. A longer timeout has no effect.
    Called before each wait that may block; a loop that wakes early finds nothing to do and waits again.
    """


@hookspec(firstresult=True)
def loopcore_admit_connection(loop: "Loop", server: "asyncio.AbstractServer", sock: "socket.socket") -> bool | None:
    """Return False to have an accepted connection reset at once; it is counted (`connections_refused`).

    Called for each connection that a server of the loop accepts, before anything is created for it. `sock` may only be
    inspected.
    """
