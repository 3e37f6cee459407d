"""WatchThread: the one thread that watches every loop of the process, and its schedule.

While loops wait or make progress, it wakes once a threshold (the shortest of the watched loops'). A loop that is found
outside its wait is checked again after half a threshold, and a stall is followed at that pace. With no loop running
the thread lingers for a moment, then ends; the next run starts it again.

No signal is delivered to it. A forked child has no copy of it and starts a new one with the first loop it runs. It is
a daemon thread, and is stopped before the interpreter shuts down.
"""

import atexit
import os
import signal
import threading
import time
from typing import Final

from loopcore.log import plugin_logger
from loopcore_plugins.watchdog.clocks import Collections, Moment

LINGER: Final = 0.5
"""Seconds for which the thread waits for another run before it ends."""
FOLLOWING: Final = 0.5
"""The share of a threshold between looks at a loop that may have stalled."""
FAREWELL: Final = 1.0
"""Seconds that shutdown waits for the thread, which may be logging to something slow."""


class Subject:
    """What the watch thread looks at: mostly a run of a loop."""

    threshold: float
    """Seconds between two looks."""
    thread_id = 0
    clock: int | None = None
    """The CPU clock of the thread `thread_id`, which the looks need; None if they need none."""
    suspicious = False
    """Whether the last look found the loop outside its wait."""
    gone = False
    """Whether the run is over; the watch thread looks once more, then drops it."""

    def look(self, moment: Moment, collections: Collections) -> None:
        """Check it. Thread: the watch thread's."""
        raise NotImplementedError


class WatchThread:
    """The thread and its round. Thread: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._subjects: list[Subject] = []
        self._thread: threading.Thread | None = None
        self._stopping = False
        self.collections = Collections()

    def add(self, subject: Subject) -> None:
        """Watch `subject` from now on. Raises RuntimeError if the thread has to be started and cannot be."""
        with self._lock:
            if self._stopping:
                return
            if self._thread is None:
                self._start()
            self._subjects.append(subject)
        self._wake.set()

    def _start(self) -> None:
        """Start the thread, with the lock held. Nothing is changed if that fails."""
        self.collections.install()
        thread = threading.Thread(target=self._run, name="loopcore-watchdog", daemon=True)
        try:
            thread.start()
        except BaseException:
            self.collections.remove()
            raise
        self._thread = thread

    def drop(self, subject: Subject) -> None:
        """Look at `subject` once more, soon, and then no more. Thread: any."""
        subject.gone = True
        self.hurry()

    def hurry(self) -> None:
        """Check now. Thread: any; also a loop's, in a callback."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread, for good. Called before the interpreter shuts down."""
        with self._lock:
            self._stopping = True
            thread = self._thread
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(FAREWELL)

    def _run(self) -> None:
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        with self._lock:
            if self._thread is not threading.current_thread():
                return  # an exception, as KeyboardInterrupt, ended `_start` early
        while not self._stopping:
            delay = self._delay()
            due = time.monotonic() + (LINGER if delay is None else delay)
            self._wake.wait(due - time.monotonic())
            self._wake.clear()
            if delay is None and self._ends():
                return
            self._round(due)

    def _delay(self) -> float | None:
        """Return the seconds until the next check; None if there is nothing to watch."""
        delays = [each.threshold * (FOLLOWING if each.suspicious else 1.0) for each in self._subjects.copy()]
        return min(delays, default=None)

    def _ends(self) -> bool:
        with self._lock:
            if self._subjects:
                return False
            self._thread = None
            self.collections.remove()
            return True

    def _round(self, due: float) -> None:
        subjects = self._subjects.copy()
        moment = Moment.take({each.thread_id: each.clock for each in subjects}, due)
        for subject in subjects:
            last = subject.gone  # read first: if the run ends during the look, another look ends what this one began
            try:
                subject.look(moment, self.collections)
            except Exception:
                plugin_logger.exception("the watchdog failed and no longer watches %r", subject)
                last = True
            if last:
                with self._lock:
                    self._subjects.remove(subject)


_watch_thread = WatchThread()


def watch_thread() -> WatchThread:
    """Return the watch thread of this process."""
    return _watch_thread


def _reset_in_child() -> None:
    """Reset in a forked child: the thread does not exist there, and locks may be held."""
    global _watch_thread
    _watch_thread.collections.remove()
    _watch_thread = WatchThread()


def _stop() -> None:
    _watch_thread.stop()


atexit.register(_stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)
