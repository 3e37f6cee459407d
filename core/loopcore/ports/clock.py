"""The clock that timers use."""

import time
from typing import Protocol


class Clock(Protocol):
    """A time source that never goes back.

    `now` returns seconds since a fixed, arbitrary moment; `resolution` is its smallest step, in
    seconds. A timer is due when its deadline is less than `now() + resolution`, as in asyncio: with a coarse
    clock the loop would otherwise spin through the last step.
    """

    resolution: float

    def now(self) -> float: ...


class MonotonicClock:
    """clock_gettime(CLOCK_MONOTONIC), through `time.monotonic`."""

    resolution: float = time.get_clock_info("monotonic").resolution

    now = staticmethod(time.monotonic)
