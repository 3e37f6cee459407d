"""A clock that is set by hand."""


class VirtualClock:
    """Time that passes only when a test, or a wait of a ScriptedBackend, advances it: `EventLoop(backend, clock=...)`.

    `at` is the time in seconds, and may be set to any later time.
    """

    resolution: float = 1e-9

    def __init__(self, at: float = 1000.0) -> None:
        self.at: float = at

    def now(self) -> float:
        """Return the time: the value of `at`."""
        return self.at

    def advance(self, seconds: float) -> None:
        """Advance the time by `seconds`. Raises ValueError if they are negative: a loop's clock never goes back."""
        if seconds < 0:
            raise ValueError(f"time does not go back by {-seconds} s")
        self.at += seconds
