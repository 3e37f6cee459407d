"""Ending: a trace survives SIGTERM, with which most programs are stopped.

A signal that nobody handles ends the process on the spot, and no loop is closed. uvicorn, too, ends like that: having
shut down in order it restores the handlers it found and sends itself the signal once more. So the trace takes the
place of SIGTERM's default action, and of nothing else: it writes, and then lets the default action follow.
"""

import signal
import threading
from collections.abc import Callable
from types import FrameType


class LastChance:
    """Calls `write` before SIGTERM ends the process. Thread: `take` and `leave` do nothing but in the main one."""

    def __init__(self, write: Callable[[], None]) -> None:
        self._write = write

    def take(self) -> None:
        """Handle SIGTERM, if its default action stands."""
        if _is_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._end)

    def leave(self) -> None:
        """Give back what `take` took, unless somebody else handles SIGTERM by now."""
        if _is_main_thread() and signal.getsignal(signal.SIGTERM) == self._end:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _end(self, signum: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._write()
        signal.raise_signal(signal.SIGTERM)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
