"""How many new connections a loop can take, found by trying: the arithmetic of `shed`, without a loop.

While the loop is late, none is admitted. If that lasts, connections in between get a rate limit, too: a token bucket
spaces them out, and its rate is raised slowly and lowered quickly, steered by the loop's delay, until the loop is just
not late. This is the adaptive admission control of SEDA (Welsh and Culler, "Adaptive Overload Control for Busy Internet
Servers", USENIX 2003). Without it, the moments in which the loop is in time would admit more than it can take.
"""

from typing import Final

PERIOD: Final = 0.1
"""Seconds between two changes of the rate."""

DECREASE: Final = 0.8
INCREASE: Final = 0.05
"""The factor by which the rate is lowered, and the part of it that is added; at least one connection a second."""

FEW: Final = 0.25
"""The part of a period's measurements that may be late: a pause of the garbage collector does not mean overload."""

CALM: Final = 1.0
"""Seconds without a refusal after which an episode is over, and the limit is removed."""


class Throttle:
    """Decides about connections, one after the other. Times are seconds of any one clock.

    `bound`: the delay, in seconds, from which on the loop is late. The rate aims at half of it, so that a burst of
    connections seldom reaches it.
    """

    def __init__(self, bound: float) -> None:
        self.bound = bound
        self.shedding = False
        """Whether a connection was refused recently."""
        self.rate: float | None = None
        """Connections a second that may pass; None for no limit."""
        self._delay = 0.0
        self._tokens = 0.0
        self._filled_at = 0.0
        self._refused_at = 0.0
        self._period_began = 0.0
        self._passed = 0
        self._was_late = False
        """Whether the period before this one was late."""
        self._measured = self._late = 0
        """Measurements of this period: all, and those above half of the bound."""

    def measure(self, now: float, delay: float) -> None:
        """Record the loop's delay, in seconds."""
        self._delay = delay
        self._measured += 1
        self._late += delay > self.bound / 2
        elapsed = now - self._period_began
        if elapsed >= PERIOD:
            self._change(now, self._passed / elapsed)
            self._period_began = now
            self._passed = self._measured = self._late = 0

    def forget(self) -> None:
        """Note that measuring has stopped: earlier measurements say nothing about the next connection."""
        self._delay = 0.0
        self._was_late = False

    def admit(self, now: float, overdue: float) -> bool:
        """Tell whether a connection may pass, with a measurement that is `overdue` by so many seconds."""
        if max(self._delay, overdue) > self.bound or not self._take(now):
            self.shedding = True
            self._refused_at = now
            return False
        self._passed += 1
        return True

    def _take(self, now: float) -> bool:
        if self.rate is None:
            return True
        self._tokens = min(1.0, self._tokens + (now - self._filled_at) * self.rate)
        self._filled_at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def _change(self, now: float, passed: float) -> None:
        """End a period, in which `passed` connections a second were admitted."""
        was_late, self._was_late = self._was_late, self._late > FEW * self._measured
        if now - self._refused_at >= CALM:
            self.shedding = False
            self.rate = None
        elif self._was_late:
            if self.rate is not None:
                self.rate = max(1.0, DECREASE * self.rate)
            elif was_late:
                self.rate = max(1.0, DECREASE * passed)
                self._filled_at = now
        elif self.rate is not None:
            self.rate += max(1.0, INCREASE * self.rate)
