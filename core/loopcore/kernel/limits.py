"""What bounds a tick, a wait and a receive. Four are the defaults of settings of a loop (loopcore.environment)."""

POLL_SKIP_TICKS = 61
"""Ticks in a row without a poll, while callbacks are ready and nothing is watched; as tokio's event interval."""

POLL_SKIP_TIME = 10e-6
"""Seconds that a poll may be put off while callbacks are ready and nothing is watched."""

LONGEST_WAIT = 24 * 3600.0
"""Seconds after which a wait without events returns; longer timeouts overflow some system calls. As in asyncio."""

FLUSH_LIMIT = 64 * 1024
"""Bytes that may wait for the end of the tick, of all transports together. What waits is memory that the next message
cannot be received into: 400 messages of 16 KiB held at a time were 4 page faults each, and half of the CPU time."""

RECEIVE_LIMIT = 120 * 1024
"""Bytes that one receive takes at most; also the most that a loop can be told. Below 128 KiB, where malloc turns to
mmap(2) (docs/adr/0011)."""

RECEIVE_BUDGET = 64 * 1024
"""Bytes that a tick receives before it leaves the events that are left to the next one, if somebody is ready: what has
come in is used while it is in the processor's cache (docs/adr/0003). Compiled, over a readiness port."""

CLOCK_TICKS = 8
"""How many ticks without a poll pass between two looks at the clock, once it was looked at in the first few."""

MICROTASK_BUDGET = 1000
"""Callbacks of the next-tick and microtask queues that run after one callback before others have their turn."""

POSTS_BEFORE_YIELD = 4096
"""Posts of other threads that a loop has not looked at, after which the thread that posts gives way to it; a power of
two. With 1024 a post takes a fifth more, for the switches between the threads."""

YIELD_SECONDS = 10e-6
"""Seconds that it sleeps then, at least: long enough for the loop's thread to take the GIL, which it waits for."""
