"""Finds a thread that has the baton and stands still, in real time.

Locks that were made before the simulation are real. One is free whenever a thread asks for it, unless another thread
has parked while holding it: then the asking thread waits in the operating system, and the simulation hangs.
"""

import signal
import sys
import time
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from threading import main_thread
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from loopcore.sim.errors import SimulationError

if TYPE_CHECKING:
    from loopcore_backends.sim.world import World

PATIENCE: Final = 1.0
"""Real seconds between two looks."""
LOOKS: Final = 4
"""After so many looks in a row that find nothing new, the thread stands still."""
_DEBUGGERS: Final = ("bdb", "pdb", "pydevd", "debugpy")

_clock_of: Any = getattr(time, "pthread_getcpuclockid", None)
_read_clock: Any = getattr(time, "clock_gettime", None)


class Watch:
    """Looks at one thread."""

    def __init__(self, ident: int) -> None:
        self._ident = ident
        self._seen: object = None
        self._looks = 0

    def stands_still(self) -> str:
        """Look; return where the thread stands still, "" if it moves or a debugger has stopped it."""
        frame = sys._current_frames().get(self._ident)
        now = (frame, frame and frame.f_lasti, _processor_time(self._ident))
        self._looks = self._looks + 1 if now == self._seen else 0
        self._seen = now
        if frame is None or self._looks < LOOKS or _is_debugged(frame):
            return ""
        return f"{frame.f_code.co_filename}:{frame.f_lineno}"

    def forget(self) -> None:
        """Start over: another thread runs."""
        self._seen = None


def stands_still(who: str, place: str) -> SimulationError:
    """Return the error about a thread that stands still."""
    return SimulationError(
        f"{who} waits at {place} for something real, and no other thread runs meanwhile. A lock that was made before "
        "the simulation must not be held by a thread that blocks; make the lock inside the simulation"
    )


def watch(world: "World", ident: int) -> Callable[[], None]:
    """Watch the thread `ident`, which runs the simulation; return a function that ends the watch.

    If it stands still, `world.verdict` says so, and KeyboardInterrupt is raised there; that works in Python's main
    thread only.
    """
    over = allocate_lock()
    over.acquire()
    look = Watch(ident)

    def go_round() -> None:
        while not over.acquire(timeout=PATIENCE):
            if world.threads.running is not None:
                look.forget()  # the thread that waits for that one watches it
            elif place := look.stands_still():
                world.verdict = stands_still("the main thread", place)
                signal.pthread_kill(ident, signal.SIGINT)
                return

    if ident == main_thread().ident and hasattr(signal, "pthread_kill"):
        start_new_thread(go_round, ())
    return over.release


def _processor_time(ident: int) -> float:
    if _clock_of is None or _read_clock is None:
        return time.perf_counter()  # another one at each look: no verdict
    try:
        used: float = _read_clock(_clock_of(ident))
    except OSError:
        return 0.0
    return used


def _is_debugged(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] in _DEBUGGERS:
            return True
        frame = frame.f_back
    return False
