"""The baton: the threads of a simulation, of which the one that has it runs.

The world hands the baton to a thread in one of its steps, and has it back when the thread blocks or ends. The thread
that runs the simulation makes the steps, so to it a simulated thread is what a coroutine is to a loop.

To block is to park until a condition holds or a moment has come. At the end of the simulation ThreadExit is raised in
every thread where it is parked.
"""

import logging
import sys
import threading
import warnings
from _thread import allocate_lock
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import get_ident
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from loopcore.sim.errors import SimulationError
from loopcore_backends.sim.replacing import SIMULATED_THREADS
from loopcore_backends.sim.threads import watching
from loopcore_backends.sim.threads.watching import Watch, stands_still

if TYPE_CHECKING:
    from loopcore_backends.sim.hosts import Host
    from loopcore_backends.sim.world import World

LAST_PATIENCE: Final = 10.0
"""Real seconds within which a thread has to end, once the simulation has."""
EXITS: Final = 100
"""How often ThreadExit is raised in a thread that catches it and waits again."""

_shutdown_locks: set[Any] = getattr(threading, "_shutdown_locks", set())
_active: dict[int, threading.Thread] = threading._active  # type: ignore[attr-defined]


class ThreadExit(BaseException):
    """Raised in a thread where it is parked, because the simulation is over."""


class SimThread:
    """A thread of a simulated program. Thread: the one that has the baton."""

    def __init__(self, threads: "Threads", host: "Host", name: str) -> None:
        self.host = host
        self.name = name
        self.title = f"thread {name}" if host is host.world.main else f"thread {name} of {host.name}"
        self.owner: threading.Thread | None = None
        self.settle: Callable[[], object] = bool
        """Waits until the operating system has seen the thread end."""
        self.wakes_at: int | None = None
        """The moment at which it goes on, in nanoseconds of the world; None if it waits without a limit."""
        self.waits_for: Callable[[], bool] = bool
        self.ready_since = 0
        """Its place among the threads that can go on, 0 if it cannot."""
        self.has_ended = False
        self._threads = threads
        self._go = allocate_lock()
        self._back = allocate_lock()
        self._go.acquire()
        self._back.acquire()
        self._ident = 0
        self._runs = False
        self._is_ending = False
        self._exits = 0

    def __repr__(self) -> str:
        return f"<SimThread {self.name}>"

    # --- the side of the thread ---------------------------------------------------------------------

    def run(self, function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Call `function` once the thread has the baton; then hand that back for good."""
        self._ident = get_ident()
        self._go.acquire()
        SIMULATED_THREADS.add(self._ident)
        try:
            if not self._is_ending:
                function(*args, **kwargs)
        except (ThreadExit, SystemExit):
            pass
        except BaseException as exc:
            _report_ignored(exc)
        finally:
            SIMULATED_THREADS.discard(self._ident)
            if self.owner is None:
                _active.pop(self._ident, None)  # where `current_thread` leaves one without a `threading.Thread`
            self.has_ended = True
            self._back.release()

    def park(self, waits_for: Callable[[], bool], wakes_at: int | None) -> None:
        """Hand the baton back until `waits_for()` holds or the moment has come. Raises ThreadExit at the end."""
        if not self._is_ending:
            self.waits_for, self.wakes_at = waits_for, wakes_at
            self._back.release()
            self._go.acquire()
        if self._is_ending:
            self._exits += 1
            if self._exits > EXITS:
                self._back.release()
                self._go.acquire()  # for ever
            raise ThreadExit

    # --- the side of the world ----------------------------------------------------------------------

    def is_over(self) -> bool:
        """Return whether it has ended."""
        return self.has_ended

    def can_go_on(self, now: int) -> bool:
        """Return whether what it waits for is there."""
        if not self.host.is_on or self.host.is_paused:
            return False
        if self.wakes_at is not None and self.wakes_at <= now:
            return True
        world = self._threads.world
        before, world.host = world.host, self.host  # a loop that this thread runs tries its operations
        try:
            return self.waits_for()
        finally:
            world.host = before

    def step(self) -> None:
        """Let it run until it blocks or ends. Raises SimulationError if it waits for something real."""
        self.ready_since = 0
        with self._has_baton():
            self._await_baton()

    def end(self) -> bool:
        """Raise ThreadExit in it until it ends; return whether it has."""
        self._is_ending = True
        with self._has_baton():
            self._back.acquire(timeout=LAST_PATIENCE)
        if not self.has_ended and self.owner is not None:
            _shutdown_locks.discard(getattr(self.owner, "_tstate_lock", None))  # Python 3.12 waits for it at its end
        return self.has_ended

    @contextmanager
    def _has_baton(self) -> Iterator[None]:
        """Give it the baton, unless it has it; the body of the `with` statement waits until that is back."""
        threads = self._threads
        world = threads.world
        before = threads.running, world.host
        threads.running, world.host = self, self.host
        if not self._runs:
            self._runs = True
            self._go.release()
        try:
            yield
        finally:
            threads.running, world.host = before
        if self.has_ended:
            self.settle()

    def frame(self) -> FrameType | None:
        """Return its innermost frame, None if it has ended."""
        return sys._current_frames().get(self._ident)

    def _await_baton(self) -> None:
        watch = Watch(self._ident)
        while not self._back.acquire(timeout=watching.PATIENCE):
            if place := watch.stands_still():
                raise stands_still(f"the thread {self.name}", place)
        self._runs = False


class Threads:
    """The threads of one simulation, besides the one that runs it."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.running: SimThread | None = None
        """The one that has the baton; None if it is the thread that runs the simulation."""
        self.numbers = count(1)
        self.pool_numbers = count(0)
        self.alive: list[SimThread] = []
        """Those that have not been seen to end."""
        self._lost: list[SimThread] = []
        """Threads of processes that have ended: they never go on."""
        self._places = count(1)
        self._end_of_watch: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self.alive)

    def add(self, thread: SimThread) -> None:
        """Have `thread` given the baton from now on."""
        if self._end_of_watch is None:
            self._end_of_watch = watching.watch(self.world, get_ident())
        self.alive.append(thread)

    def of(self, owner: threading.Thread) -> SimThread | None:
        """Return the thread that `owner` has started; None if it has ended or is not simulated."""
        for thread in self.alive:
            if thread.owner is owner and not thread.has_ended:
                return thread
        return None

    def ready(self) -> list[SimThread]:
        """Return the threads that can go on, in the order in which they became so."""
        if not self.alive:
            return []
        now = self.world.now_ns
        ended = False
        found = []
        for thread in self.alive:
            if thread.has_ended:
                ended = True
            elif not thread.can_go_on(now):
                thread.ready_since = 0
            else:
                if not thread.ready_since:
                    thread.ready_since = next(self._places)
                found.append(thread)
        if ended:
            self.alive = [thread for thread in self.alive if not thread.has_ended]
        found.sort(key=lambda thread: thread.ready_since)
        return found

    def moments(self) -> list[int]:
        """Return when threads go on by themselves."""
        return [
            thread.wakes_at
            for thread in self.alive
            if thread.wakes_at is not None and thread.host.is_on and not thread.host.is_paused
        ]

    def lose(self, host: "Host") -> None:
        """The process of `host` has ended: none of its threads runs again."""
        self._lost += [thread for thread in self.alive if thread.host is host]
        self.alive = [thread for thread in self.alive if thread.host is not host]

    def close(self) -> None:
        """End every thread. Raises SimulationError that names those which do not end."""
        if self._end_of_watch is not None:
            self._end_of_watch()
            self._end_of_watch = None
        if not self.alive and not self._lost:
            return
        refused = []
        with _unseen():
            while threads := [*self.alive, *self._lost]:
                self.alive, self._lost = [], []
                threads.sort(key=lambda thread: thread._runs)  # one that has the baton may need a lock of the others
                refused += [thread.name for thread in threads if not thread.has_ended and not thread.end()]
        if refused:
            raise SimulationError(
                f"the simulation is over, and these threads do not end: {', '.join(refused)}. They catch BaseException "
                "and wait again, or never wait"
            )


def _report_ignored(error: BaseException) -> None:
    """Have `sys.unraisablehook` called, as by `_thread` for a thread that raises: only Python can make its argument."""

    class StartedThread:
        def __del__(self) -> None:
            raise error

    StartedThread()


@contextmanager
def _unseen() -> Iterator[None]:
    """Suppress reports of errors in the body of the `with` statement: the simulation is over."""
    before = logging.root.manager.disable, threading.excepthook, sys.unraisablehook
    logging.disable(logging.CRITICAL)
    threading.excepthook = lambda report: None
    sys.unraisablehook = lambda report: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        threading.excepthook, sys.unraisablehook = before[1:]
        logging.disable(before[0])
