"""What can be known of time that the loop did not get: CPU clocks of threads, pauses of the garbage collector.

A thread's CPU clock stands still while it sleeps, waits for the processor or waits for the interpreter's lock. Reading
it takes a third of a microsecond and needs neither the thread nor a signal.

Linux has a clock for every thread of the process. Other Unix systems have pthread_getcpuclockid(3), which is safe for
the calling thread only: there the loops' threads are known, and the process as a whole. macOS and Windows know
the process.
"""

import gc
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

_IS_LINUX: Final = sys.platform == "linux"
_PER_THREAD: Final = 6
"""CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED of the kernel's posix-timers.h, part of its ABI: glibc and musl build the
clock of a thread from its id and this. Unlike pthread_getcpuclockid it is safe to ask of a thread that has ended."""

SHORTEST_COLLECTION: Final = 0.001
"""Seconds; shorter garbage collections are not remembered, they explain no stall."""


def own_clock() -> int | None:
    """Return the id of the calling thread's CPU clock, for other threads to read; None if there is none."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return None
    return time.pthread_getcpuclockid(threading.get_ident())


@dataclass(slots=True)
class Moment:
    """When the watchdog looked, how late it was for that, and the CPU seconds until then."""

    now: float
    late: float
    process: float
    threads: dict[int, float] = field(default_factory=dict)
    """By ident; of the threads that can be asked."""

    @classmethod
    def take(cls, clocks: dict[int, int | None], due: float = float("inf")) -> "Moment":
        """Return the present one, which was `due` (in time.monotonic). `clocks` are those of loops, by ident."""
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
        """Return the CPU seconds that a thread used from `earlier` on; None if that is not known."""
        if ident not in self.threads:
            return None
        return self.threads[ident] - earlier.threads.get(ident, 0.0)

    def process_since(self, earlier: "Moment") -> float:
        """Return the CPU seconds that all threads of the process used from `earlier` on."""
        return self.process - earlier.process

    def busiest_since(self, earlier: "Moment", but: set[int]) -> tuple[int, float]:
        """Return ident and CPU seconds of the known thread that used most, leaving out `but`; (0, 0.0) for none."""
        used = ((ident, self.cpu_since(earlier, ident) or 0.0) for ident in self.threads.keys() - but)
        return max(used, key=lambda pair: pair[1], default=(0, 0.0))


class Collections:
    """A callback for `gc.callbacks` that remembers when the garbage collector ran, in whichever thread.

    The thread that collects holds the interpreter's lock, so nothing else runs meanwhile.
    """

    def __init__(self) -> None:
        self._began = 0.0
        self._done: deque[tuple[float, float]] = deque(maxlen=64)

    def install(self) -> None:
        """Begin to listen."""
        gc.callbacks.append(self)

    def remove(self) -> None:
        """Stop listening."""
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
        """Return how much of the time from `begin` to `end` (of time.monotonic) went into collections. Thread: any."""
        spans = list(self._done)
        if self._began:
            spans.append((self._began, end))
        return sum(max(0.0, min(end, stop) - max(begin, start)) for start, stop in spans)
