"""What makes a callback run, by name and by number: how the meter tells apart what it times."""

from typing import Final

SOURCES: Final = (
    "soon",
    "threadsafe",
    "timer",
    "io",
    "task",
    "immediate",
    "next_tick",
    "microtask",
    "phase",
    "flush",
)
"""What makes a callback run: the keys of `Measurements.queue_time` and `.run_time`.

`soon` is `call_soon` and what is woken like it, `io` a reader or writer or a step of a transport, `flush` the
joined writes at the end of a tick; the other names are those of the `loopcore_handle_scheduled` hook, and `task`.
"""

READY = -1
"""In place of a source: whatever the ready queue holds, told apart by what it is."""

SOON = 0
THREADSAFE = 1
TIMER = 2
IO = 3
TASK = 4
IMMEDIATE = 5
NEXT_TICK = 6
MICROTASK = 7
PHASE = 8
FLUSH = 9
