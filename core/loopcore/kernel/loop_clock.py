"""The clock of a loop, and the time that was read last."""

from loopcore.ports.clock import Clock, MonotonicClock

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.interpreter import monotonic
else:
    from loopcore._native.interpreter import monotonic


class LoopClock:
    """Reads a Clock; the usual one, CLOCK_MONOTONIC, without a call of Python. Thread: any."""

    __slots__ = ("source", "resolution", "last", "_is_monotonic")

    def __init__(self, source: Clock) -> None:
        self.source: Clock = source
        self.resolution: float = source.resolution
        self.last: float = 0.0
        """The result of the last `now`."""
        self._is_monotonic: bool = type(source) is MonotonicClock

    def now(self) -> float:
        """Return the time, in seconds of the clock."""
        now: float = monotonic() if self._is_monotonic else self.source.now()
        self.last = now
        return now
