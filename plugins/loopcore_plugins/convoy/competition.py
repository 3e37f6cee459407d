"""Competition: whether other threads compute while a loop runs, and the switch interval that it then asks for.

A loop releases the GIL in its wait. If another thread takes it and computes, the loop gets it back one switch interval
after the event, and that for every wait: a convoy. What a loop waits for cannot be seen from outside on every platform,
but the CPU time of the other threads can, for about a microsecond. It overcounts threads that compute without the
GIL (numpy, zlib). That does no harm: an interval matters only to a thread that waits for the GIL.

Thread: the loop's own.
"""

import time
from typing import TYPE_CHECKING, Any, Final

from loopcore.hooks.observer import WAIT_ENDS, Observer
from loopcore_plugins.convoy.switch_interval import SWITCH_INTERVAL

if TYPE_CHECKING:
    from loopcore.hooks.types import Loop

LOOK_EVERY: Final = 0.005
"""Seconds between two readings of the CPU clocks, at the end of a wait."""
COMPETES: Final = 0.1
"""The share of the time that the other threads have to compute. Low, because other processes may leave these threads
little CPU."""


class Competition(Observer):
    """Watches the CPU clocks for one loop, and asks for a switch interval of `interval` seconds while others compute.

    The request is reviewed every `hold` seconds, and dropped if the other threads did not compute any more, or if the
    loop had nothing to do.
    """

    def __init__(self, interval: float, hold: float) -> None:
        super().__init__(WAIT_ENDS)
        self.interval = interval
        self.hold = hold
        self.periods = 0
        """How often the interval was requested."""
        self._loop: Loop | None = None
        self._next_look = float("inf")  # not in a run
        self._looked = self._process = self._own = 0.0
        self._review: Any = None  # the timer, while there is a request
        self._requested = 0.0
        self._seconds = 0.0
        self._seen = False
        self._waits = 0

    def begin(self, loop: "Loop") -> None:
        """A run of `loop` begins, in the calling thread."""
        self._loop = loop
        SWITCH_INTERVAL.add_user(self)
        self._read_clocks()

    def end(self) -> None:
        """The run is over. Idempotent."""
        self._next_look = float("inf")
        self._release()
        SWITCH_INTERVAL.remove_user(self)
        self._loop = None

    def seconds(self) -> float:
        """Return for how long the interval was requested in all. Thread: any."""
        return self._seconds + (time.monotonic() - self._requested if self._review is not None else 0.0)

    def note(self, event: int, what: Any, number: int) -> None:
        """A wait has ended (`Observer.note`)."""
        self._waits += 1
        if time.monotonic() >= self._next_look:
            self._look()

    def _look(self) -> None:
        looked, process, own = self._looked, self._process, self._own
        self._read_clocks()
        others = (self._process - process) - (self._own - own)
        if others <= COMPETES * (self._looked - looked):
            return
        self._seen = True
        if self._review is None and self._loop is not None:
            SWITCH_INTERVAL.request(self, self.interval)
            self.periods += 1
            self._requested = time.monotonic()
            self._review_later(self._loop)

    def _read_clocks(self) -> None:
        self._looked, self._process, self._own = time.monotonic(), time.process_time(), time.thread_time()
        self._next_look = self._looked + LOOK_EVERY

    def _review_later(self, loop: "Loop") -> None:
        self._seen = False
        self._waits = 0
        self._review = loop.call_at(loop.time() + self.hold, self._review_request, loop)

    def _review_request(self, loop: "Loop") -> None:
        self._look()
        if self._seen and self._waits > 1:  # one wait was for this timer
            self._review_later(loop)
        else:
            self._release()

    def _release(self) -> None:
        if self._review is not None:
            self._review.cancel()
            self._review = None
            self._seconds += time.monotonic() - self._requested
            SWITCH_INTERVAL.release(self)
