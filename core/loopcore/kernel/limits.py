"""Limits of a tick, a wait and a receive. Some are defaults of a loop's settings (loopcore.selection.environment)."""

POLL_SKIP_TICKS = 61
"""Ticks in a row without a poll, while callbacks are ready and nothing is watched; like tokio's event interval."""

POLL_SKIP_TIME = 10e-6
"""Seconds for which a poll may be put off while callbacks are ready and nothing is watched."""

LONGEST_WAIT = 24 * 3600.0
"""Seconds after which a wait without events returns; longer timeouts overflow some system calls. As in asyncio."""

FLUSH_LIMIT = 64 * 1024
"""Bytes that may be held back until the end of the tick, over all transports. The next message cannot be received into
the memory of held bytes: 400 messages of 16 KiB held at a time cost 4 page faults each, and half of the CPU time."""

RECEIVE_LIMIT = 120 * 1024
"""Bytes that one receive takes at most; also the upper limit of a loop's setting. Below 128 KiB, from which on malloc
uses mmap(2) (docs/adr/0011)."""

RECEIVE_BUDGET = 64 * 1024
"""Bytes after which a tick defers its remaining events to the next one, if callbacks are ready: received data is used
while it is in the processor's cache (docs/adr/0003). Over a readiness port."""

CLOCK_TICKS = 8
"""Ticks without a poll between two readings of the clock, after those in the first few such ticks."""

MICROTASK_BUDGET = 1000
"""Callbacks of the next-tick and microtask queues that may run after one callback before other callbacks run."""

POSTS_BEFORE_YIELD = 4096
"""Unseen posts of other threads after which the posting thread yields to the loop; a power of two. With 1024 a post
costs a fifth more, because of the switches between the threads."""

YIELD_SECONDS = 10e-6
"""Seconds for which it then sleeps, at least: enough for the loop's thread, which waits for the GIL, to take it."""

WAIT_FOR_RUNNER = 1e-3
"""How often, in seconds, a thread that cancels a running callback looks whether it has ended."""
