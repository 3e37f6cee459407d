"""Ending: a trace survives SIGTERM, with which most programs are stopped.

A signal without a handler ends the process at once, and no loop is closed. uvicorn ends like that, too: after an
orderly shutdown it restores the handlers it found and sends itself the signal once more. So the trace replaces
SIGTERM's default action, and nothing else: it writes, and then runs the default action.
"""

import signal
import threading
from collections.abc import Callable
from types import FrameType


class LastChance:
    """Calls `write` before SIGTERM ends the process. Thread: `take` does nothing outside the main one."""

    def __init__(self, write: Callable[[], None]) -> None:
        self._write = write

    def take(self) -> None:
        """Handle SIGTERM, if it has its default action."""
        if _is_main_thread() and signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, _end):
            _writers.append(self._write)
            signal.signal(signal.SIGTERM, _end)

    def leave(self) -> None:
        """Undo `take`, unless another handler for SIGTERM has been set since."""
        if self._write in _writers:
            _writers.remove(self._write)
        if not _writers and _is_main_thread() and signal.getsignal(signal.SIGTERM) is _end:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


_writers: list[Callable[[], None]] = []
"""Of all loops and plugins: they share the handler."""


def _end(signum: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        for write in [*_writers]:
            write()
    finally:
        signal.raise_signal(signal.SIGTERM)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
