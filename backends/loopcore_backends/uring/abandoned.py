"""Memory of abandoned rings: kept until the kernel has ended their requests, which may still write to it.

A ring is abandoned when its loop moves to another thread, and when it is closed. Each has registered the write end of a
pipe that nothing else holds; the kernel drops it with the last request, and the read end, `end_fd`, reports POLLHUP
(io_uring_register(2), pipe(7)). The record is the process's: a ring outlives its loop. Thread: any, in the middle of
another call too.
"""

import itertools
import os
import select
from typing import Any, Final

from loopcore_backends.uring.ring import Ring

LIMIT: Final = 8
"""How many rings of loops that move may be ending before a move waits for one of them."""
PATIENCE_MS: Final = 1000
"""A move, and `close`, wait at most so long for the next ring to end."""

kept: dict[int, tuple[int, Any]] = {}
"""By number: the `end_fd` of a ring, and the memory."""
_numbers = itertools.count()


def keep(ring: Ring, memory: Any) -> None:
    """Keep `memory` until the last request of `ring`, which is closed next, has ended."""
    if ring.enabled and not ring.owner_has_ended():
        end_fd, ring.end_fd = ring.end_fd, -1
        kept[next(_numbers)] = (end_fd, memory)


def release(allowed: int) -> None:
    """Release the memory of rings that have ended; wait a while if more than `allowed` have not."""
    if not kept:
        return
    ends = select.poll()
    numbers = {end_fd: number for number, (end_fd, _) in [*kept.items()]}
    for end_fd in numbers:
        ends.register(end_fd, 0)
    while numbers:
        ended = ends.poll(PATIENCE_MS if len(numbers) > allowed else 0)
        if not ended:
            return
        for end_fd, _ in ended:
            ends.unregister(end_fd)
            # The one who removes an entry closes its descriptor. So while it is there, the number was not reused.
            if kept.pop(numbers.pop(end_fd), None) is not None:
                os.close(end_fd)
