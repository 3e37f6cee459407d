"""The poller: whether a tick looks for events, how long it may wait, and the wait, over either port.

A wait costs a system call, and while callbacks are ready it could only look, not block. So some ticks skip the poll:

- While no descriptor is watched a poll cannot find an event. It is skipped for at most `skip_ticks` ticks in a row, or
  fewer when the clock, read in the first, second, fourth and every eighth of them, shows that `skip_time` seconds have
  passed.
- While descriptors are watched, programs count ticks: asyncio polls in each, and a byte that is in a socket reaches its
  protocol two `sleep(0)` later. So only one tick skips the poll, the one after a wait that began with nothing to do:
  the callbacks that run in it are those that the wait's events and timers have scheduled. Even that tick polls if a
  registration has changed since the wait.

docs/adr/0003-order-of-a-tick-polls-and-clock.md
"""

from typing import Any, cast

from loopcore.kernel.completions import Completions
from loopcore.kernel.limits import CLOCK_TICKS, POLL_SKIP_TICKS, POLL_SKIP_TIME
from loopcore.kernel.loop_clock import LoopClock
from loopcore.kernel.readiness import Readiness
from loopcore.ports.completion import Backend, CompletionBackend, is_completion_backend
from loopcore.ports.readiness import ReadinessBackend

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.ports.direct import wait_in
else:
    from loopcore.ports.direct import wait_in

_CLOCK_TICKS = CLOCK_TICKS
_MANY_TICKS = 1 << 30


class Poller:
    """The wait of one loop, and the tables of the descriptors and operations that it waits for. Thread: the loop's."""

    __slots__ = (
        "backend", "readiness", "completions", "skip_ticks", "skip_time", "_port", "_clock", "_skipped",
        "_skipping_since", "_was_idle",
    )  # fmt: skip

    def __init__(self, backend: Backend, clock: LoopClock) -> None:
        self.backend: Backend = backend
        """The ReadinessBackend or CompletionBackend in which the loop waits."""
        self.completions: Completions | None = None
        """The Completions of a completion port; None over a readiness port."""
        if is_completion_backend(backend):
            self.completions = Completions(backend)
            self.readiness: Readiness = Readiness(self.completions.polls)
        else:
            self.readiness = Readiness(cast("ReadinessBackend", backend))
        self.skip_ticks: int = POLL_SKIP_TICKS
        self.skip_time: float = POLL_SKIP_TIME
        self._port: Backend | Completions = backend if self.completions is None else self.completions
        self._clock: LoopClock = clock
        self._skipped: int = 0
        self._skipping_since: float = 0.0
        self._was_idle: bool = False  # the last wait began with nothing to do

    def must_poll(self) -> bool:
        """Count a tick that has work to do; return whether it polls all the same."""
        self._skipped += 1
        if self._skipped > self.skip_ticks or (self.completions is not None and self.completions.submitted):
            return True  # submitted operations begin with the wait
        if self.readiness.is_used() if self.completions is None else self.completions.is_used:
            return self._skipped > 1 or not self._was_idle or self.readiness.changed
        # Reading the clock can cost as much as a callback (140 ns without a user-space clock), so it is read in the
        # ticks 1, 2 and 4 without a poll and then in every eighth: long ticks are noticed at once.
        if self._skipped % _CLOCK_TICKS and self._skipped & (self._skipped - 1):
            return False
        now = self._clock.now()
        if self._skipped == 1:
            self._skipping_since = now
            return False
        return now - self._skipping_since >= self.skip_time

    def poll_next(self) -> None:
        """Have the next tick poll, whatever work it has."""
        self._skipped = _MANY_TICKS

    def wait(self, timeout: float) -> list[tuple[Any, ...]]:
        """Wait for events for at most `timeout` seconds, without limit if it is negative."""
        self._was_idle = timeout != 0.0
        self.readiness.changed = False  # before the wait: a signal handler may register a descriptor in it
        events = wait_in(self._port, None if timeout < 0.0 else timeout)
        self._skipped = 0
        self.readiness.tick += 1
        return events if isinstance(events, list) else list(events)

    def use(self, backend: Backend) -> None:
        """Wait in `backend`, which has the same kind of port as the previous one; that one is closed."""
        self.backend = backend
        if self.completions is not None:
            self.completions.backend = cast("CompletionBackend", backend)
        else:
            self._port = backend
            self.readiness.use(cast("ReadinessBackend", backend))

    def close(self) -> None:
        """Forget every registration and close the backend."""
        self.readiness.clear()
        (self.backend if self.completions is None else self.completions).close()
