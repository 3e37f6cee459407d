"""The clock that timers are measured by."""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time that never goes back.

    `now` returns seconds since a fixed, arbitrary moment; `resolution` is the smallest step of it, in
    seconds. A timer is due when its deadline is less than `now() + resolution`, as in asyncio: a clock
    that ticks coarsely must not make the loop spin through the last tick.
    """

    resolution: float

    def now(self) -> float: ...


class MonotonicClock:
    """clock_gettime(CLOCK_MONOTONIC), through `time.monotonic`."""

    resolution: float = time.get_clock_info("monotonic").resolution

    now = staticmethod(time.monotonic)
