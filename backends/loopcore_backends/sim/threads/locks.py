"""The lock of simulated threads. RLock, Condition, Event, Semaphore, Barrier and queues are made of it by Python."""

import threading
from _thread import allocate_lock
from threading import get_ident
from time import monotonic, sleep
from typing import Any, Final

from loopcore.sim import current
from loopcore_backends.sim.replacing import SIMULATED_THREADS

MAIN: Final = "the main thread"
"""The holder that is the thread which runs the simulation."""
_POLL: Final = 0.001
"""Real seconds."""


class Lock:
    """`threading.Lock` in a simulation: blocking lets the world go on. Other threads get a real lock."""

    __slots__ = ("_lock", "holder", "__weakref__")

    def __new__(cls) -> Any:
        if get_ident() not in SIMULATED_THREADS:
            return allocate_lock()
        lock = super().__new__(cls)
        lock._lock = allocate_lock()
        lock.holder = ""
        return lock

    _lock: Any
    holder: str
    """The thread that acquired it last."""

    def __repr__(self) -> str:
        return f"<{'locked' if self.locked() else 'unlocked'} simulated lock>"

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As of a real lock; a timeout is in simulated seconds."""
        if timeout != -1:
            if not blocking:
                raise ValueError("can't specify a timeout for a non-blocking call")
            if timeout < 0:
                raise ValueError("timeout value must be a non-negative number")
            if timeout > threading.TIMEOUT_MAX:
                raise OverflowError("timeout value is too large")
        if not self._lock.acquire(False) and not (blocking and timeout != 0 and self._wait(timeout)):
            return False
        if current.is_running():
            running = current.world().threads.running
            self.holder = MAIN if running is None else running.title
        return True

    def release(self) -> None:
        """Raises RuntimeError if it is not locked."""
        self._lock.release()

    def locked(self) -> bool:
        """Return whether a thread holds it."""
        return bool(self._lock.locked())

    def is_free(self) -> bool:
        """What a thread waits for that wants it."""
        return not self._lock.locked()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    acquire_lock = acquire
    release_lock = release
    locked_lock = locked

    def _at_fork_reinit(self) -> None:
        self._lock._at_fork_reinit()

    def _wait(self, timeout: float) -> bool:
        """Acquire it once it is free; False if that takes longer than `timeout`."""
        if get_ident() in SIMULATED_THREADS:
            world = current.world()
            deadline = None if timeout == -1 else world.deadline_after(timeout)
            return bool(world.block(self.is_free, deadline) and self._lock.acquire(False))
        # A real thread, and a lock that it has from the simulation.
        end = None if timeout == -1 else monotonic() + timeout
        while not self._lock.acquire(False):
            if end is not None and monotonic() >= end:
                return False
            sleep(_POLL)
        return True
