"""How late a loop is: the time that a callback scheduled now would wait.

Every `interval` a timer is set. When it runs, late by the time that the tick takes, it puts a callback on the
ready queue, which waits for a whole round of the queue, in the order and with the budget of the policies in use. The
longer of the two waits is the delay. A wait that is overdue counts before it is over.
"""

from collections.abc import Callable
from typing import Any


class DelayProbe:
    """Measures a loop's delay, while its listener asks for it. Thread: the loop's own.

    `listener(now, delay)` is called with each measurement, and returns whether to continue.
    """

    def __init__(self, loop: Any, interval: float, listener: Callable[[float, float], bool]) -> None:
        self._loop = loop
        self._interval = interval
        self._listener = listener
        self._handle: Any = None
        self._due = 0.0
        self._late = 0.0

    def start(self) -> None:
        """Start measuring; no effect if it is measuring."""
        if self._handle is None:
            self._due = self._loop.time() + self._interval
            self._handle = self._loop.call_at(self._due, self._timer_ran)

    def stop(self) -> None:
        """Stop measuring."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def overdue(self, now: float) -> float:
        """Return for how many seconds the current measurement has been late."""
        return 0.0 if self._handle is None else max(0.0, now - self._due)

    def _timer_ran(self) -> None:
        now = self._loop.time()
        self._late = now - self._due
        self._due = now
        self._handle = self._loop.call_soon(self._callback_ran)

    def _callback_ran(self) -> None:
        now = self._loop.time()
        self._handle = None
        if self._listener(now, max(self._late, now - self._due)):
            self.start()
