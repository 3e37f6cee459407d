"""How long a tick may go without polling, and a wait without returning. The first two are settings of a loop."""

POLL_SKIP_TICKS = 61
"""Ticks in a row that may leave out the poll while callbacks are ready; tokio's event interval is the same."""

POLL_SKIP_TIME = 12e-6
"""Seconds that a poll may be put off while callbacks are ready."""

LONGEST_WAIT = 24 * 3600.0
"""Seconds after which a wait without events returns; longer timeouts overflow some system calls. As in asyncio."""

FLUSH_LIMIT = 64 * 1024
"""Bytes that may wait for the end of the tick, of all transports together. What waits is memory that the next message
cannot be received into: 400 messages of 16 KiB held at a time were 4 page faults each, and half of the CPU time."""

CLOCK_TICKS = 8
"""How many ticks without a poll pass between two looks at the clock, once it was looked at in the first few."""
