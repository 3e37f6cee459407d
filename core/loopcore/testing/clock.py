"""A clock that is set by hand."""


class VirtualClock:
    """Time that passes only when a test, or a wait of a ScriptedBackend, lets it: `EventLoop(backend, clock=...)`.

    `at` is the time in seconds, and may be set to anything later.
    """

    resolution: float = 1e-9

    def __init__(self, at: float = 1000.0) -> None:
        self.at = at

    def now(self) -> float:
        """Return the time, which is what `at` says."""
        return self.at

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass. Raises ValueError if they are negative: no clock of a loop goes back."""
        if seconds < 0:
            raise ValueError(f"time does not go back by {-seconds} s")
        self.at += seconds
