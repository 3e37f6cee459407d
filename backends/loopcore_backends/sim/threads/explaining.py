"""What parked threads wait for, in words."""

import os
import queue
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import _base as futures
from concurrent.futures import thread as pools
from types import FrameType
from typing import Final

from loopcore_backends.sim.threads.baton import SimThread
from loopcore_backends.sim.threads.locks import MAIN, Lock

_MACHINE: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep
_LIBRARY: Final = {threading.__file__, queue.__file__, futures.__file__}


def explain(threads: Iterable[SimThread], main_waits_for: Callable[[], bool]) -> str:
    """Return a line for each of `threads`, except for those of pools that have no job.

    The calling thread has one as well if it waits for a lock.
    """
    lines = [_line(MAIN, sys._getframe(), main_waits_for)] if _lock_of(main_waits_for) else []
    for thread in threads:
        if not thread.has_ended:
            lines.append(_line(thread.title, thread.frame(), thread.waits_for))
    return "\n".join(filter(None, lines))


def _line(name: str, frame: FrameType | None, waits_for: Callable[[], bool]) -> str:
    inside: FrameType | None = None
    while frame is not None and frame.f_code.co_filename.startswith(_MACHINE):
        frame = frame.f_back
    while frame is not None and frame.f_code.co_filename in _LIBRARY:
        inside, frame = frame, frame.f_back
    if frame is None or frame.f_code is pools._worker.__code__:
        return ""
    lock = _lock_of(waits_for)
    if lock is not None and (inside is None or lock.holder != name):
        what = "for a lock that it holds itself" if lock.holder == name else f"for a lock, which {lock.holder} holds"
    else:  # a Condition waits for a lock that it has made and acquired itself
        what = f"in {(inside or frame).f_code.co_qualname}"
    return f"{name} waits {what} ({os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno})"


def _lock_of(waits_for: Callable[[], bool]) -> Lock | None:
    owner = getattr(waits_for, "__self__", None)
    return owner if isinstance(owner, Lock) else None
