"""The types of the hooks' arguments, as Protocols: what a plugin may rely on, whichever class implements it."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any, Protocol

from loopcore.ports.completion import Backend


class Plugins(Protocol):
    """The plugins of a loop: `loopcore.kernel.probes.Probes`."""

    failures: dict[str, int]

    def register(self, plugin: object, name: str | None = None) -> str: ...

    def unregister(self, plugin: object) -> None: ...

    def plugins(self) -> list[tuple[str, object]]: ...

    def reorder(self, *names: str) -> None: ...

    def cold(self, hook: str, **arguments: object) -> None: ...

    def fire(self, hook: str, *arguments: object) -> None: ...


class Meter(Protocol):
    """A request to measure a loop: a `loopcore.Meter`."""

    window: float

    def snapshot(self) -> Any:
        """Return the `Measurements` so far. Thread: any."""

    def stop(self) -> None: ...

    def __enter__(self) -> "Meter": ...

    def __exit__(self, *exc_info: object) -> None: ...


class Loop(Protocol):
    """The loop, as plugins use it. The argument of every hook is a `loopcore.EventLoop`, which has more methods."""

    slow_callback_duration: float

    @property
    def backend(self) -> Backend:
        """The backend in which the loop waits."""

    @property
    def probes(self) -> Plugins:
        """The plugins of the loop: `register`, `unregister`, `plugins`."""

    def time(self) -> float:
        """Return the loop's time, in seconds of its clock. Thread: any."""

    def is_running(self) -> bool: ...

    def is_closed(self) -> bool: ...

    def is_waiting(self) -> bool:
        """Return whether the loop is in its backend's wait, not in a callback. Thread: any."""

    def counters(self) -> Any:
        """Return a `loopcore.LoopStatsSnapshot`. Thread: any."""

    def meter(self, window: float = 0.001) -> Meter:
        """Return a `loopcore.Meter`, which measures until it is stopped."""

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle: ...

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle: ...

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle: ...

    def call_exception_handler(self, context: dict[str, Any]) -> None: ...


class Job(Protocol):
    """A call in an executor. Times are in ns of `time.perf_counter_ns`, 0 until they are known."""

    pool: str
    """"default", "resolver" for name look-ups, or the `repr` of another executor."""
    function: Callable[..., Any]
    submitted_ns: int
    started_ns: int
    finished_ns: int
    thread_id: int | None
    """`threading.get_ident()` of the thread that runs the job, once it does."""
    error: BaseException | None
    """The exception that the function raised, or the reason why it did not run."""


class ReadyOrder(Protocol):
    """Decides the order of ready callbacks. A plugin makes one in `loopcore_make_ready_queue`. Thread: the loop's own.

    At the beginning of a tick's pending phase the loop pushes the entries that have become ready, in order of arrival.
    It then pops one, runs it, and pops the next. Entries pushed in a tick are also popped in it, unless a tick budget
    ends the phase earlier; then the next tick pushes in addition to those that are left.

    An entry is an `asyncio.Handle`, an `asyncio.Task`, or (rarely) an internal step of a transport. A cancelled entry
    is popped like any other. If either method raises, or `pop` returns an entry that it was not given, the plugin is
    removed, and the entries it held go back to the ready queue.
    """

    def push(self, runnable: Any, /) -> None:
        """Take `runnable`, which is not in the order yet."""

    def pop(self) -> Any:
        """Return the entry to run next. None means that none is left; if some are, the loop runs the oldest one."""


class TickBudget(Protocol):
    """Limits a tick's pending phase. A plugin makes one in `loopcore_make_tick_budget`.

    Callbacks that do not fit run in the next tick, which polls first. At least one callback runs, and a running
    callback is not interrupted. Both limits are read at the beginning of each pending phase, so a budget may change.
    """

    @property
    def callbacks(self) -> int | None:
        """The maximum number of callbacks; None for no limit."""

    @property
    def seconds(self) -> float | None:
        """Seconds after which no further callback is started; None for no limit.

        The clock is read after each callback while they are long compared to this limit, otherwise after every eighth.
        """
