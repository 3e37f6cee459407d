"""What parked threads wait for, in words."""

import os
import queue
import threading
from collections.abc import Iterable
from concurrent.futures import _base as futures
from concurrent.futures import thread as pools
from types import FrameType
from typing import Final

from loopcore_backends.sim.threads.baton import SimThread
from loopcore_backends.sim.threads.locks import Lock

_MACHINE: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep
_LIBRARY: Final = {threading.__file__, queue.__file__, futures.__file__}


def explain(threads: Iterable[SimThread]) -> str:
    """Return a line for each of `threads`, except for those of pools that have no job."""
    return "\n".join(line for thread in threads if not thread.has_ended and (line := _line(thread)))


def _line(thread: SimThread) -> str:
    frame = thread.frame()
    inside: FrameType | None = None
    while frame is not None and frame.f_code.co_filename.startswith(_MACHINE):
        frame = frame.f_back
    while frame is not None and frame.f_code.co_filename in _LIBRARY:
        inside, frame = frame, frame.f_back
    if frame is None or frame.f_code is pools._worker.__code__:
        return ""
    place = f"({os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno})"
    lock = getattr(thread.waits_for, "__self__", None)
    host = "" if thread.host is thread.host.world.main else f" of {thread.host.name}"
    if inside is not None:
        what = f"in {inside.f_code.co_qualname}"
    elif isinstance(lock, Lock):
        what = f"for a lock, which {'it' if lock.holder == thread.name else lock.holder} holds"
    else:
        what = f"in {frame.f_code.co_qualname}"
    return f"thread {thread.name}{host} waits {what} {place}"
