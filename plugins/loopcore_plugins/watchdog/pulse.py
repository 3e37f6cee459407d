"""What a loop says about itself to another thread: whether it waits, and whether it moves.

Both are plain reads of what the loop keeps anyway.
"""

import sys
from typing import Any


def is_waiting(loop: Any, thread_id: int) -> bool:
    """Tell whether `loop` is inside the wait of its backend."""
    frame = sys._current_frames().get(thread_id)
    return frame is not None and frame.f_code is type(loop.backend).wait.__code__


def pulse(loop: Any) -> int:
    """Return a number that differs once the loop has ended a wait."""
    polls: int = loop.readiness.tick
    return polls
