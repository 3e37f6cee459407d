"""Signals: one handler for all recorders that dump on the same signal. The last `remove` restores the previous handler.

Thread: the main one. Elsewhere `add` does nothing: Python lets only the main thread set handlers, and runs them there.
"""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_calls: dict[int, list[Callable[[int], None]]] = {}
_before: dict[int, Any] = {}
_under_way: set[int] = set()


def add(signum: int, call: Callable[[int], None]) -> None:
    """Call `call(signum)` on each such signal, and then the handler that was there before."""
    if threading.current_thread() is not threading.main_thread():
        return
    _calls.setdefault(signum, []).append(call)
    if signal.getsignal(signum) is not _handle:
        _before[signum] = signal.signal(signum, _handle)


def remove(signum: int, call: Callable[[int], None]) -> None:
    """Undo `add`. A handler that was set since stays. Thread: any; the handler stays if it is not the main one."""
    calls = _calls.get(signum, [])
    if call in calls:
        calls.remove(call)
    is_main = threading.current_thread() is threading.main_thread()
    if not calls and is_main and signal.getsignal(signum) is _handle:
        signal.signal(signum, _before.pop(signum) or signal.SIG_DFL)  # None: it was set by C code


def _handle(signum: int, frame: FrameType | None) -> None:
    if signum in _under_way:
        return  # the program's handler, which was set between two of ours, calls the first
    _under_way.add(signum)
    try:
        for call in [*_calls[signum]]:
            call(signum)
        before = _before[signum]
        if callable(before):
            before(signum, frame)
    finally:
        _under_way.discard(signum)
