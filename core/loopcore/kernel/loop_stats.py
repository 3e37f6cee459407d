"""Counters: how often each kind of event happened in a loop, and the lengths of its queues.

They are always on, because their cost is negligible: `LoopStats` holds plain integers of the loop, each incremented
where the event happens (one instruction, compiled), and figures that are known anyway are not counted twice.
`LoopStatsSnapshot` is a snapshot of them.

Snapshots from another thread: only the loop's thread writes, except for `tasks_destroyed` and `threadsafe_wakes`, and
nothing is locked. A snapshot is therefore not one moment of the loop, but it is never impossible: every counter
only grows, and ends are read before beginnings, so that no more tasks have ended than were created. On Pythons with a
global interpreter lock a snapshot of a compiled loop is a single moment.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from loopcore.kernel.scheduler import Scheduler


class LoopStats:
    """The integers of one loop. The parts of the loop write them; `LoopStatsSnapshot` reads them."""

    __slots__ = (
        "callbacks",
        "events",
        "polls_skipped",
        "timers_fired",
        "threadsafe_posts",
        "task_steps",
        "tasks_created",
        "tasks_finished",
        "tasks_failed",
        "tasks_cancelled",
        "tasks_destroyed",
        "budget_yields",
        "starvations",
        "connections_accepted",
        "connections_refused",
    )

    def __init__(self) -> None:
        self.callbacks: int = 0
        self.events: int = 0
        self.polls_skipped: int = 0
        self.timers_fired: int = 0
        self.threadsafe_posts: int = 0
        self.task_steps: int = 0
        self.tasks_created: int = 0
        self.tasks_finished: int = 0
        self.tasks_failed: int = 0
        self.tasks_cancelled: int = 0
        self.tasks_destroyed: int = 0
        self.budget_yields: int = 0
        self.starvations: int = 0
        self.connections_accepted: int = 0
        self.connections_refused: int = 0


class LoopStatsSnapshot(NamedTuple):
    """The result of `loop.counters()`. Fields count from the loop's creation and only grow, except the last three.

    Tasks are loopcore's own; those of another class (from a task factory, `LOOPCORE_TASKS=asyncio`) are not counted.
    """

    ticks: int
    """Ticks that have finished or skipped their wait: `polls` + `polls_skipped`."""
    polls: int
    """Waits in the backend that have returned, those of zero seconds included."""
    polls_skipped: int
    """Ticks that skipped the poll because callbacks were ready."""
    events: int
    """Events that waits have returned: ready descriptors, or completions."""
    callbacks: int
    """Callbacks, task steps, readers and writers that were run, next-ticks and microtasks included.

    A callback that was cancelled while it was queued counts: the loop took it out.
    """
    timers_fired: int
    """Timers that were due and had not been cancelled."""
    threadsafe_posts: int
    """Callbacks that came from other threads or signal handlers through `call_soon_threadsafe`."""
    threadsafe_wakes: int
    """How often the backend was woken for such posts; many posts may share one wake."""
    starvations: int
    """How often the next-tick and microtask queues used up their budget."""
    budget_yields: int
    """How often a tick budget put off callbacks to the next tick."""
    task_steps: int
    """Steps of tasks, the first included."""
    tasks_created: int
    tasks_finished: int
    """Tasks that ended with a result."""
    tasks_failed: int
    """Tasks that ended with an exception."""
    tasks_cancelled: int
    """Tasks that ended cancelled."""
    tasks_destroyed: int
    """Tasks that were destroyed before they ended.

    Each is reported to the exception handler unless its `_log_destroy_pending` is false, as in asyncio.
    """
    connections_accepted: int
    """Connections that servers accepted and no policy refused."""
    connections_refused: int
    """Connections that a policy refused: each was reset right after it was accepted."""
    bytes_received: int
    """Bytes that transports received, before decryption."""
    bytes_sent: int
    """Bytes that transports sent, after encryption."""
    ready: int
    """Length of the ready queue now."""
    timers: int
    """Timers that are set now, including cancelled ones that are still in the heap."""
    timers_cancelled: int
    """How many of `timers` are cancelled."""

    @property
    def tasks_live(self) -> int:
        """Tasks that were created and have not ended."""
        ended = self.tasks_finished + self.tasks_failed + self.tasks_cancelled + self.tasks_destroyed
        return self.tasks_created - ended


def take_loop_stats(loop: "Scheduler") -> LoopStatsSnapshot:
    """Return the present counters of `loop`. Thread: any."""
    stats = loop._stats
    # Ends before beginnings, see the module's docstring.
    destroyed = stats.tasks_destroyed
    cancelled, failed, finished = stats.tasks_cancelled, stats.tasks_failed, stats.tasks_finished
    polls, polls_skipped = loop._readiness.tick, stats.polls_skipped
    timers_cancelled = loop._timers.cancelled_count
    timers = len(loop._timers)
    return LoopStatsSnapshot(
        ticks=polls + polls_skipped,
        polls=polls,
        polls_skipped=polls_skipped,
        events=stats.events,
        callbacks=stats.callbacks,
        timers_fired=stats.timers_fired,
        threadsafe_posts=stats.threadsafe_posts,
        threadsafe_wakes=loop._inbox.wakes,
        starvations=stats.starvations,
        budget_yields=stats.budget_yields,
        task_steps=stats.task_steps,
        tasks_created=stats.tasks_created,
        tasks_finished=finished,
        tasks_failed=failed,
        tasks_cancelled=cancelled,
        tasks_destroyed=destroyed,
        connections_accepted=stats.connections_accepted,
        connections_refused=stats.connections_refused,
        bytes_received=loop._bytes_received,
        bytes_sent=loop._bytes_sent,
        ready=loop._count_ready(),
        timers=timers,
        timers_cancelled=min(timers_cancelled, timers),
    )
