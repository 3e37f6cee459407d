"""Stall: the data about one stall, and how its cause is determined."""

import time
from dataclasses import dataclass, field
from typing import Literal

from loopcore_plugins._tasktree import Place, TaskView
from loopcore_plugins.watchdog.stacks import Stack

Cause = Literal["blocked", "busy", "gc", "gil", "suspended"]

EXPLANATIONS: dict[str, str] = {
    "blocked": "a callback waits in a blocking call",
    "busy": "a callback computes",
    "gc": "the garbage collector ran",
    "gil": "another thread held the GIL",
    "suspended": "no thread of the process ran: suspended, short of CPU, or in C code that waits while holding the GIL",
}
"""A description of each `Cause`."""

MOSTLY = 0.5
"""The share of a stall that an activity must have taken to count as its cause."""
BUSY = 0.1
"""The share of CPU time from which on a thread was busy, not blocked: it may have shared processor and GIL."""


@dataclass(slots=True)
class StallSample:
    """Measurements of a stall, in seconds, and whether the loop was seen inside a callback."""

    seconds: float
    late: float
    """Of these, how long the watchdog was kept from running: it too needs a processor and the GIL."""
    gc: float
    cpu: float
    """CPU time of the loop's thread."""
    other_cpu: float
    """CPU time of all other threads."""
    in_callback: bool

    def cause(self) -> Cause | None:
        """Return the cause; None if nothing in this process can be blamed and the loop was idle."""
        if self.gc >= self.seconds * MOSTLY:
            return "gc"
        if self.late >= self.seconds * MOSTLY:
            if self.other_cpu >= self.late * BUSY and self.other_cpu > self.cpu:
                return "gil"
            if not self.in_callback:
                return None
            if self.cpu < self.seconds * BUSY:
                return "suspended"
        return "busy" if self.cpu >= self.seconds * BUSY else "blocked"


@dataclass(slots=True)
class Holder:
    """The thread that held the GIL."""

    name: str
    place: Place | None
    cpu_seconds: float


@dataclass(slots=True)
class Stall:
    """A time in which a loop was occupied by one thing. Written by the watchdog's thread until `over`.

    Times are lower bounds: a stall counts from the look that first found it, at most a threshold after it began.
    """

    cause: Cause
    seconds: float
    """How long so far; once `over`, the whole length."""
    cpu_seconds: float
    """CPU time that the loop's thread has used in that time."""
    stack: Stack = ()
    """The callback's frames, outermost first, as far as and as long as the samples agree. Empty: many callbacks,
    of which none lasted; or a function written in C that the loop calls itself; or the loop was in its wait."""
    place: Place | None = None
    """The innermost frame outside the standard library and loopcore: the line to change."""
    call: Place | None = None
    """The innermost frame: the call that does not return."""
    task: TaskView | None = None
    """The task whose step it is; None in a plain callback."""
    awaited_by: tuple[TaskView, ...] = ()
    """The tasks that await `task`, nearest first."""
    request: dict[str, str] | None = None
    """The ids in the context of `task`: `trace_id` and `span_id` of OpenTelemetry, the variable of option `context`."""
    holder: Holder | None = None
    """With cause `gil`: the thread that held the GIL."""
    samples: int = 0
    over: bool = False
    wall_time: float = field(default_factory=time.time)
    """When it was found, in seconds since the epoch."""
