"""The stopwatch: wall time and CPU time of this process, and the state in which both are taken.

CPU time is user plus system time of the whole process (getrusage(2), RUSAGE_SELF), all threads included. On a shared
machine it is steadier than wall time, because it excludes time in which another process had the CPU.
"""

from __future__ import annotations

import gc
import sys
import time
from types import TracebackType

if sys.platform != "win32":
    import resource

_BLOCK_BYTES = 1 << 20


def warm_allocator() -> None:
    """Free one large block, as any long-running process has already done.

    glibc serves blocks above its mmap threshold (128 KiB at start) by mmap(2) and munmap(2). The threshold rises to the
    size of the first such block that is freed (mallopt(3), M_MMAP_THRESHOLD). Without this a fresh process pays for a
    mapping and its page faults at every large read, which penalises loops that allocate and flatters those that
    do not.
    """
    block = bytearray(_BLOCK_BYTES)
    block[-1] = 1
    del block


def settle_gc(mode: str) -> None:
    """Put the collector into the same state for every loop. `mode` is "on" (CPython's thresholds) or "off"."""
    gc.collect()
    gc.freeze()
    if mode == "off":
        gc.disable()
    else:
        gc.enable()


def cpu_ns() -> int:
    """User plus system time of this process so far, in nanoseconds (resolution: microseconds)."""
    if sys.platform == "win32":
        return time.process_time_ns()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return round((usage.ru_utime + usage.ru_stime) * 1e9)


class Meter:
    """Measures one `with` block; workloads put other measurements into `extra`, with name and unit as the key."""

    __slots__ = ("_cpu", "_wall", "cpu_ns", "extra", "wall_ns")

    def __init__(self) -> None:
        self.wall_ns = 0
        self.cpu_ns = 0
        self.extra: dict[str, float] = {}
        self._wall = 0
        self._cpu = 0

    def __enter__(self) -> Meter:
        gc.collect()
        self._cpu = cpu_ns()
        self._wall = time.perf_counter_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wall_ns += time.perf_counter_ns() - self._wall
        self.cpu_ns += cpu_ns() - self._cpu


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values lie; the nearest rank, no interpolation."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]
