"""LoopThread: what the loop's thread gets of the processor, and how long a thread waits for the GIL.

The kernel counts exactly how long the thread ran (its CPU clock), and how long it was ready while the kernel ran
another (`schedstat`, Linux only). Waits for the GIL are counted nowhere, so they are estimated: the server's thread
sleeps for a moment, as the loop does in its wait, and measures how much longer that took. It subtracts the time in
which the kernel did not run it, and that in which the loop's own thread ran. The rest is what the loop would have
waited for other threads; less if the loop ran without the GIL in that time.
"""

import threading
import time
from typing import Final

from loopcore.build_info import has_gil
from loopcore_plugins.inspect.protocol import Message
from loopcore_plugins.watchdog.clocks import own_clock

_NAP_NS: Final = 500_000
_NOISE_NS: Final = 200_000
"""A sleep may take that much longer without a reason: timer slack, the time to wake up."""


class LoopThread:
    """The thread that makes this, or that calls `follow` later: the loop's. Thread: the server's, except these two."""

    def __init__(self) -> None:
        self._probes = 0
        self._gil_ns = 0
        self._longest_ns = 0
        self.follow()

    def follow(self) -> None:
        """Measure the calling thread from now on."""
        self.ident = threading.get_ident()
        self.native_id = threading.get_native_id()
        self.clock = own_clock()

    def probe(self) -> None:
        """Measure once how long a thread waits for the GIL. Takes half a millisecond, and the wait."""
        before = self._cpu_ns()
        if before is None or not has_gil():
            return
        own = threading.get_native_id()
        queued = run_queue_ns(own)
        began = time.monotonic_ns()
        time.sleep(_NAP_NS / 1e9)
        waited = time.monotonic_ns() - began - _NAP_NS
        if waited > _NOISE_NS:
            waited -= (self._cpu_ns() or before) - before
            waited -= (run_queue_ns(own) or 0) - (queued or 0)
        self._probes += 1
        self._gil_ns += waited if waited > _NOISE_NS else 0
        self._longest_ns = max(self._longest_ns, waited if waited > _NOISE_NS else 0)

    def view(self) -> Message:
        """Return the measurements so far, in nanoseconds. Unknown ones are None."""
        return {
            "id": self.native_id,
            "cpu_ns": self._cpu_ns(),
            "run_queue_ns": run_queue_ns(self.native_id),
            "gil": {"probes": self._probes, "ns": self._gil_ns, "longest_ns": self._longest_ns}
            if self._probes
            else None,
        }

    def _cpu_ns(self) -> int | None:
        try:
            return None if self.clock is None else time.clock_gettime_ns(self.clock)
        except OSError:  # the thread has ended
            return None


def run_queue_ns(native_id: int) -> int | None:
    """Return how long a thread of this process was ready while the kernel ran another; None if that is not counted."""
    try:
        with open(f"/proc/self/task/{native_id}/schedstat", "rb", buffering=0) as file:
            ran, queued, *_ = map(int, file.read(128).split())
    except (OSError, ValueError):
        return None
    return queued if ran else None  # a kernel without these statistics has zeros there
