"""The clock that timers use."""

import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from loopcore.ports.completion import Backend


class Clock(Protocol):
    """A time source that never goes back.

    `now` returns seconds since a fixed, arbitrary moment; `resolution` is its smallest step, in
    seconds. A timer is due when its deadline is less than `now() + resolution`, as in asyncio: with a coarse
    clock the loop would otherwise spin through the last step.
    """

    if TYPE_CHECKING:  # read only; a class that inherits this one may set it all the same

        @property
        def resolution(self) -> float: ...

    else:
        resolution: float

    def now(self) -> float: ...


class MonotonicClock:
    """`time.monotonic`: clock_gettime(CLOCK_MONOTONIC), but not on macOS and Windows."""

    resolution: float = time.get_clock_info("monotonic").resolution

    now = staticmethod(time.monotonic)


def clock_of(backend: "Backend") -> Clock:
    """Return the clock that `backend`, of either port, has as its attribute `clock`, else CLOCK_MONOTONIC.

    A backend has one only if its waits are not measured in real seconds: `sim` has the clock of its simulated host.
    """
    clock: Clock | None = getattr(backend, "clock", None)
    return MonotonicClock() if clock is None else clock
