"""Budget: how much a tick runs before the loop polls again.

Without a budget a tick runs everything that was ready when its wait returned. Ten thousand callbacks of 0.1 ms are a
second in which no event is seen.
"""

import loopcore
from loopcore.errors import UsageError


class Budget:
    """Ends a tick's pending phase after `callbacks` or after `seconds`, whichever is first; the rest waits for a poll.

    An event waits at most for one budget and one callback. The plugin itself is the `loopcore.TickBudget`.
    """

    def __init__(self, *, callbacks: int | None = None, seconds: float | None = 0.001) -> None:
        if (callbacks is not None and callbacks < 1) or (seconds is not None and not seconds > 0):
            raise UsageError(f"a budget must be above zero, or None: callbacks={callbacks!r}, seconds={seconds!r}")
        self.callbacks = callbacks
        self.seconds = seconds

    @loopcore.hookimpl
    def loopcore_make_tick_budget(self) -> loopcore.TickBudget:
        """Provide the policy."""
        return self
