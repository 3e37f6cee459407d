"""DelaySampler: how long a callback that comes from another thread waits for the loop, sampled.

The watch thread takes a sample about five times a second. A loop that waits has no delay, and is left alone, except for
a callback every few seconds, which proves that it can be woken. To a loop that works a callback is posted, and the
sample is the time until it runs; until then, its age. A stall of two seconds gives ten samples: 2 s, 1.8 s, 1.6 s ...
"""

from collections import deque
from time import monotonic
from typing import Any, Final

from loopcore_plugins._shared import items_of
from loopcore_plugins.watchdog.clocks import Collections, Moment
from loopcore_plugins.watchdog.watch_thread import Subject

INTERVAL: Final = 0.2
"""Seconds between two samples, at least three quarters of it."""
WINDOW: Final = 5.0
"""Seconds over which `mean` is taken."""
HEARTBEAT: Final = 5.0
"""Seconds after which a callback is posted to a loop that waits, too."""
MOST: Final = 40
"""The most samples that are kept, and the most callbacks that are posted and have not run."""


class _Sample:
    """A callback that was posted at a time of time.monotonic; `delay` is None until it has run."""

    __slots__ = ("posted", "delay")

    def __init__(self, posted: float, delay: float | None = None) -> None:
        self.posted = posted
        self.delay = delay


class DelaySampler(Subject):
    """Samples the delay of one run of `loop`. Thread: the watch thread's, except `mean` and `unanswered`."""

    threshold = INTERVAL

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self._samples: deque[_Sample] = deque(maxlen=MOST)
        self._sampled = self._posted = monotonic()
        self._posts = 0
        self._answers = 0

    def look(self, moment: Moment, collections: Collections) -> None:
        """Take a sample, unless one was just taken."""
        now = monotonic()
        if self.gone or now - self._sampled < INTERVAL * 0.75:
            return
        self._sampled = now
        pending = self._posts - self._answers
        if not pending and self._loop.is_waiting() and now - self._posted < HEARTBEAT:
            self._samples.append(_Sample(now, 0.0))
        elif pending < MOST:  # otherwise the age of the oldest is all that matters
            self._post(_Sample(now))

    def _post(self, sample: _Sample) -> None:
        try:
            self._loop.call_soon_threadsafe(self._answer, sample)
        except RuntimeError:  # closed
            return
        self._samples.append(sample)
        self._posted = sample.posted
        self._posts += 1

    def _answer(self, sample: _Sample) -> None:
        """Complete a sample. Thread: the loop's."""
        sample.delay = monotonic() - sample.posted
        self._answers += 1

    def mean(self) -> float:
        """Return the mean delay of the last WINDOW seconds, in seconds. Thread: any."""
        now = monotonic()
        recent = [sample for sample in items_of(self._samples) if now - sample.posted <= WINDOW or sample.delay is None]
        return sum(now - each.posted if each.delay is None else each.delay for each in recent) / max(len(recent), 1)

    def unanswered(self) -> float:
        """Return for how many seconds a posted callback has been waiting; 0.0 if none is. Thread: any."""
        now = monotonic()
        return max((now - sample.posted for sample in items_of(self._samples) if sample.delay is None), default=0.0)
