"""Clocks for the time that the loop did not get: CPU clocks of threads, pauses of the garbage collector.

A thread's CPU clock stops while it sleeps, waits for the processor or waits for the GIL. Reading
it takes a third of a microsecond and needs neither the thread nor a signal.

Linux has a clock for every thread of the process. Other Unix systems have pthread_getcpuclockid(3), which is safe for
the calling thread only: there only the clocks of the loops' threads are available, and that of the process. macOS and
Windows have only the process's.
"""

import gc
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from loopcore_plugins._shared import items_of

_IS_LINUX: Final = sys.platform == "linux"
_PER_THREAD: Final = 6
"""CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED of the kernel's posix-timers.h, part of its ABI: glibc and musl build a
thread's clock id from its thread id and this. Unlike pthread_getcpuclockid it is safe for a thread that has ended."""

SHORTEST_COLLECTION: Final = 0.001
"""Seconds; shorter garbage collections are not recorded, because they explain no stall."""


def own_clock() -> int | None:
    """Return the id of the calling thread's CPU clock, for other threads to read; None if there is none."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return None
    return time.pthread_getcpuclockid(threading.get_ident())


@dataclass(slots=True)
class Moment:
    """The time of a look of the watchdog, how late the look was, and the CPU seconds until then."""

    now: float
    late: float
    process: float
    threads: dict[int, float] = field(default_factory=dict)
    """By ident; of the threads whose clock can be read."""

    @classmethod
    def take(cls, clocks: dict[int, int | None], due: float = float("inf")) -> "Moment":
        """Return the current moment, which was `due` (in time.monotonic). `clocks` are those of loops, by ident."""
        now = time.monotonic()
        moment = cls(now, max(0.0, now - due), time.process_time())
        moment._read(clocks)
        return moment

    def _read(self, clocks: dict[int, int | None]) -> None:
        if _IS_LINUX:
            clocks = clocks | {
                thread.ident: ~thread.native_id << 3 | _PER_THREAD
                for thread in threading.enumerate()
                if thread.ident is not None and thread.native_id is not None
            }
        for ident, clock in clocks.items():
            if clock is not None:
                try:
                    self.threads[ident] = time.clock_gettime(clock)
                except OSError:  # the thread has ended
                    pass

    def cpu_since(self, earlier: "Moment", ident: int) -> float | None:
        """Return the CPU seconds that a thread has used since `earlier`; None if unknown."""
        if ident not in self.threads:
            return None
        return self.threads[ident] - earlier.threads.get(ident, 0.0)

    def process_since(self, earlier: "Moment") -> float:
        """Return the CPU seconds that all threads of the process have used since `earlier`."""
        return self.process - earlier.process

    def busiest_since(self, earlier: "Moment", but: set[int]) -> tuple[int, float]:
        """Return ident and CPU seconds of the known thread that used most, except those in `but`; (0, 0.0) for none."""
        used = ((ident, self.cpu_since(earlier, ident) or 0.0) for ident in self.threads.keys() - but)
        return max(used, key=lambda pair: pair[1], default=(0, 0.0))


class Collections:
    """A callback for `gc.callbacks` that records when the garbage collector ran, in whichever thread.

    The collecting thread holds the GIL, so no other Python code runs in the meantime.
    """

    def __init__(self) -> None:
        self._began = 0.0
        self._done: deque[tuple[float, float]] = deque(maxlen=64)

    def install(self) -> None:
        """Start recording."""
        gc.callbacks.append(self)

    def remove(self) -> None:
        """Stop recording."""
        if self in gc.callbacks:
            gc.callbacks.remove(self)

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._began = time.monotonic()
            return
        began, self._began = self._began, 0.0
        if began and time.monotonic() - began >= SHORTEST_COLLECTION:
            self._done.append((began, time.monotonic()))

    def seconds_between(self, begin: float, end: float) -> float:
        """Return the time that collections took between `begin` and `end` (of time.monotonic). Thread: any."""
        spans = items_of(self._done)
        if self._began:
            spans.append((self._began, end))
        return sum(max(0.0, min(end, stop) - max(begin, start)) for start, stop in spans)
