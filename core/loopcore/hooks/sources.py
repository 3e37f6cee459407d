"""Sources, by name and by number: the kinds of callbacks that the meter distinguishes."""

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
"""The kinds of callbacks: the keys of `Measurements.queue_time` and `.run_time`.

`soon` is `call_soon` and callbacks scheduled like it, `io` a reader or writer or a step of a transport, `flush` the
joined writes at the end of a tick; the other names are those of the `loopcore_handle_scheduled` hook, and `task`.
"""

READY = -1
"""In place of a source: an entry of the ready queue, whose source follows from its type."""

SOON, THREADSAFE, TIMER, IO, TASK, IMMEDIATE, NEXT_TICK, MICROTASK, PHASE, FLUSH = range(len(SOURCES))
