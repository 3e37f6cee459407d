"""Records: the plugin's data about one loop, in addition to the loop's own counters and measurements.

Hooks of jobs and stalls come from other threads, and snapshots are taken in any, so each part has a lock. It is
reentrant: a garbage collection under it may report to the loop's exception handler, in the same thread.
"""

import asyncio
import re
import threading
import time
from collections import Counter
from typing import Any

from loopcore import Histogram, Meter
from loopcore.hooks.types import Job
from loopcore.text import printable
from loopcore_plugins.metrics.snapshot import LoopSnapshot, PoolSnapshot, StallsSnapshot, TransportsSnapshot

# Known label values exist from the beginning, at zero: Prometheus sees no increase in a counter that appears as 1.
OUTCOMES = ("finished", "failed", "cancelled")
KINDS = ("stream", "tls", "datagram", "pipe", "process")
DIRECTIONS = ("reading", "writing")
CAUSES = ("blocked", "busy", "gc", "gil", "suspended")

_LONGEST_POOL = 100
RECENT = 1.0
"""Seconds that `recent_utilization` covers at least."""


class Jobs:
    """The jobs of a loop, by pool."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pools: dict[str, _Pool] = {}

    def submitted(self, job: Job) -> None:
        """Count a job that waits."""
        with self._lock:
            self._pool(job).waiting.add(id(job))

    def started(self, job: Job) -> None:
        """Count a job that runs. Thread: any."""
        with self._lock:
            pool = self._pool(job)
            pool.waiting.discard(id(job))
            pool.running.add(id(job))
            pool.queue_time.record(job.started_ns - job.submitted_ns)

    def finished(self, job: Job) -> None:
        """Count a job that has run, or never will. Thread: any."""
        with self._lock:
            pool = self._pool(job)
            pool.waiting.discard(id(job))
            pool.running.discard(id(job))
            pool.outcomes[_outcome(job.error)] += 1
            if job.started_ns:
                pool.run_time.record(job.finished_ns - job.started_ns)

    def snapshot(self) -> dict[str, PoolSnapshot]:
        """Return the figures of each pool."""
        with self._lock:
            return {name: pool.snapshot() for name, pool in self._pools.items()}

    def _pool(self, job: Job) -> "_Pool":
        name = pool_name(job.pool)
        found = self._pools.get(name)
        if found is None:
            found = self._pools[name] = _Pool()
        return found


class _Pool:
    def __init__(self) -> None:
        self.waiting: set[int] = set()  # ids of jobs; a job that was submitted before the plugin came is never in it
        self.running: set[int] = set()
        self.outcomes: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        self.queue_time = Histogram()
        self.run_time = Histogram()

    def snapshot(self) -> PoolSnapshot:
        times = self.queue_time.snapshot(), self.run_time.snapshot()
        return PoolSnapshot(len(self.waiting), len(self.running), dict(self.outcomes), *times)


def pool_name(pool: str) -> str:
    """Return the name of a job's pool; for the `repr` of an executor the name of its class: its address is unbounded.

    The name is a label, and a label that is not text makes the whole export fail: a `repr` can be anything.
    """
    found = re.match(r"<(?:[\w<>]+\.)*(\w+)", pool)
    return found[1] if found else printable(pool[:_LONGEST_POOL])


def _outcome(error: BaseException | None) -> str:
    if error is None:
        return "finished"
    return "cancelled" if isinstance(error, asyncio.CancelledError) else "failed"


class Transports:
    """The transports of a loop. Those that were opened before the plugin came are not counted."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open: dict[int, str] = {}
        self._paused: set[tuple[int, str]] = set()
        self._opened: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
        self._pauses: Counter[str] = Counter(dict.fromkeys(DIRECTIONS, 0))

    def opened(self, transport: Any) -> None:
        """Count an opened transport."""
        kind = transport_kind(transport)
        with self._lock:
            self._open[id(transport)] = kind
            self._opened[kind] += 1

    def closed(self, transport: Any) -> None:
        """Count a closed transport."""
        with self._lock:
            self._open.pop(id(transport), None)
            self._paused -= {(id(transport), "reading"), (id(transport), "writing")}

    def paused(self, transport: Any, direction: str) -> None:
        """Count a transport that is paused in `direction`."""
        with self._lock:
            self._paused.add((id(transport), direction))
            self._pauses[direction] += 1

    def resumed(self, transport: Any, direction: str) -> None:
        """Count a transport that is resumed in `direction`."""
        with self._lock:
            self._paused.discard((id(transport), direction))

    def snapshot(self) -> TransportsSnapshot:
        """Return the figures."""
        with self._lock:
            now = dict.fromkeys(KINDS, 0) | Counter(self._open.values())
            paused = dict.fromkeys(DIRECTIONS, 0) | Counter(direction for _, direction in self._paused)
            return TransportsSnapshot(now, dict(self._opened), paused, dict(self._pauses))


def transport_kind(transport: Any) -> str:
    """Return stream, tls, datagram, pipe or process."""
    if isinstance(transport, asyncio.SubprocessTransport):
        return "process"
    if isinstance(transport, asyncio.DatagramTransport):
        return "datagram"
    if transport.get_extra_info("pipe") is not None:
        return "pipe"
    return "stream" if transport.get_extra_info("sslcontext") is None else "tls"


class Stalls:
    """The stalls that a watchdog reports."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._active: set[int] = set()
        self._durations: dict[str, Histogram] = {cause: Histogram() for cause in CAUSES}

    def began(self, stall: Any) -> None:
        """Count a stall that has begun. Thread: the watchdog's."""
        with self._lock:
            self._active.add(id(stall))

    def ended(self, stall: Any) -> None:
        """Count a stall that is over. Thread: the watchdog's."""
        with self._lock:
            self._active.discard(id(stall))
            self._durations.setdefault(str(stall.cause), Histogram()).record(int(stall.seconds * 1e9))

    def snapshot(self) -> StallsSnapshot:
        """Return the figures."""
        with self._lock:
            durations = {cause: histogram.snapshot() for cause, histogram in self._durations.items()}
            return StallsSnapshot(len(self._active), durations)


class LoopRecord:
    """One loop, measured from now on. Thread: the loop's own, except `snapshot`."""

    def __init__(self, loop: Any, name: str, window: float) -> None:
        self.name = name
        self.jobs = Jobs()
        self.transports = Transports()
        self.stalls = Stalls()
        self.exceptions = 0
        self.slow_callbacks = 0
        self._backend: str = loop.backend.name
        self._loop = loop
        self._meter: Meter = loop.meter(window)
        self._started_at = time.time()
        self._started = time.monotonic()
        self._lock = threading.RLock()
        self._recent = (float("-inf"), 0, 0, 0.0)
        self._last: LoopSnapshot | None = None

    def snapshot(self) -> LoopSnapshot:
        """Return the current figures; once closed, the last ones. Thread: any."""
        loop = self._loop
        if self._last is not None:
            return self._last
        now, measured = time.monotonic(), self._meter.snapshot()
        return LoopSnapshot(
            name=self.name,
            backend=self._backend,
            started_at=self._started_at,
            seconds=now - self._started,
            recent_utilization=self._recent_utilization(now, measured.idle_ns, measured.active_ns),
            counters=loop.counters(),
            measurements=measured,
            pools=self.jobs.snapshot(),
            transports=self.transports.snapshot(),
            stalls=self.stalls.snapshot(),
            exceptions=self.exceptions,
            slow_callbacks=self.slow_callbacks,
            failed_hooks=sum([*loop.probes.failures.values()]),
        )

    def close(self) -> None:
        """Keep a last snapshot, and drop the loop."""
        self._last = self.snapshot()
        self._meter.stop()
        self._loop = None

    def in_child(self) -> None:
        """In a forked child: another thread of the parent may have held the locks."""
        for part in (self, self.jobs, self.transports, self.stalls):
            part._lock = threading.RLock()

    def _recent_utilization(self, now: float, idle_ns: int, active_ns: int) -> float:
        with self._lock:
            then, idle_then, active_then, utilization = self._recent
            if now - then >= RECENT:
                active, total = active_ns - active_then, idle_ns + active_ns - idle_then - active_then
                utilization = active / total if total > 0 else 0.0
                self._recent = (now, idle_ns, active_ns, utilization)
            return utilization
