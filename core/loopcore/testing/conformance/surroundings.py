"""The surroundings for testing a backend: sockets to watch, thousands of files, alarms, and a watchdog.

Everything is a context manager or a function, so that tests which do not subclass the contract can use it too.
Thread: the main one, where signals are handled.
"""

import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, Final, TypeAlias, TypeVar

import pytest

from loopcore.ports.completion import Backend
from loopcore.selection.environment import read
from loopcore.testing.leaks import open_descriptors

T = TypeVar("T")

Pair: TypeAlias = tuple[socket.socket, socket.socket]
PairMaker: TypeAlias = Callable[[], Pair]
Fill: TypeAlias = Callable[[socket.socket], int]
Elapsed: TypeAlias = Callable[[Backend, "float | None"], float]
ManyCopies: TypeAlias = Callable[[int], set[int]]
OnAlarm: TypeAlias = Callable[..., None]

PATIENCE: Final = float(read("LOOPCORE_PATIENCE") or "30")
"""Seconds waited in full only when a test fails: the limit of a wait that another event should end."""

SOON: Final = max(0.1, PATIENCE / 300)
"""Seconds within which a wait ends after its timeout, or after what ends it, unless the machine is busy."""

AGAIN: Final = 0.1
"""Seconds until an unhandled alarm is sent again."""

WATCHDOG: Final = getattr(signal, "SIGVTALRM", None)
"""The signal that interrupts a hung wait: no test uses a process's CPU timer. None on Windows."""


class Hung(AssertionError):
    """A test took longer than the kit's limit: a wait that should have ended did not."""


@contextmanager
def watchdog(seconds: float = 3 * PATIENCE) -> Iterator[None]:
    """Raise Hung in the main thread, out of a wait of any length, once `seconds` have passed."""
    if WATCHDOG is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    main = threading.get_ident()
    over = threading.Event()

    def bite(signum: int, frame: object) -> None:
        if not over.is_set():
            raise Hung(f"nothing has ended this for {seconds:g} s: a wake, an event or a completion is lost")

    def watch() -> None:
        while not over.wait(seconds):
            signal.pthread_kill(main, WATCHDOG)

    before = signal.signal(WATCHDOG, bite)
    dog = threading.Thread(target=watch, daemon=True, name="loopcore conformance watchdog")
    dog.start()
    try:
        yield
    finally:
        over.set()
        dog.join()
        signal.signal(WATCHDOG, before or signal.SIG_DFL)  # None: it was set by C code


@contextmanager
def pairs() -> Iterator[PairMaker]:
    """Make pairs of connected, non-blocking sockets; all are closed afterwards."""
    made: list[socket.socket] = []

    def make() -> Pair:
        pair = socket.socketpair()
        for end in pair:
            end.setblocking(False)
        made.extend(pair)
        return pair

    try:
        yield make
    finally:
        for end in made:
            end.close()


def fill(end: socket.socket) -> int:
    """Write until a socket takes no more; return how many bytes it took."""
    total = 0
    try:
        while True:
            total += end.send(bytes(65536))
    except BlockingIOError:
        return total


def elapsed(backend: Backend, timeout: float | None) -> float:
    """Wait; return for how many seconds: a wait that nothing ends early lasts at least its timeout."""
    start = monotonic()
    backend.wait(timeout)
    return round(monotonic() - start, 9)  # the difference of two readings in milliseconds ends in noise


def latency(wait: Callable[[float], object], end: Callable[[], object]) -> float:
    """Wait while another thread calls `end`; return how many seconds after that the wait ends."""
    began: list[float] = []

    def end_it() -> None:
        began.append(monotonic())
        end()

    with beside(end_it):
        wait(PATIENCE)
        ended = monotonic()
    return ended - began[0]


def is_soon(measure: Callable[[], float]) -> bool:
    """Return whether a time is short at least once in ten: a busy machine makes some long, a slow backend all."""
    for _ in range(10):
        lasted = measure()
        if lasted < SOON:
            return True
        if lasted > PATIENCE / 2:
            break  # nothing ends it
    return False


def closed_number() -> int:
    """Return a descriptor number that is not open in this process."""
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)
    return writer


@contextmanager
def copies() -> Iterator[ManyCopies]:
    """Make that many descriptors of one writable socket; skips where the limit of open files is too low."""
    resource: Any = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    made: list[int] = []

    def make(count: int) -> set[int]:
        wanted = count + 256
        if soft < wanted:
            if hard != resource.RLIM_INFINITY and hard < wanted:
                pytest.skip(f"this process may have {hard} open files, {wanted} are needed")
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        one, other = socket.socketpair()
        made.extend(os.dup(one.fileno()) for _ in range(count))
        made.append(other.detach())
        one.close()
        return set(made[:count])

    try:
        yield make
    finally:
        for number in made:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def alarms() -> Iterator[OnAlarm]:
    """Set a handler for SIGALRM, which is called once, and send the signal that many seconds from then."""
    before = signal.getsignal(signal.SIGALRM)

    def arm(handler: Callable[[], object], delay: float = 0.01) -> None:
        def once(signum: int, frame: object) -> None:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            handler()

        # Sent again until it is handled: if a signal arrives just before the wait begins in the kernel, Python calls
        # its handler only when that wait ends, which is why loops have `signal.set_wakeup_fd`. A port alone has none.
        signal.signal(signal.SIGALRM, once)
        signal.setitimer(signal.ITIMER_REAL, delay, AGAIN)

    try:
        yield arm
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before or signal.SIG_DFL)


def open_files() -> set[str]:
    """Return the numbers of this process's descriptors, as text; skips where the system has no list of them."""
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("counts descriptors in /proc")
    # Without that of the listing itself, whose number the next descriptor gets.
    return {str(number) for number in open_descriptors()}


@contextmanager
def beside(call: Callable[[], T]) -> Iterator[list[T]]:
    """Make `call` in another thread while the body runs; the list holds its return value afterwards.

    The thread is started at the last moment, so that it mostly gets the GIL when the body waits. An exception from
    `call` is raised here.
    """
    gate = threading.Event()
    returned: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        gate.wait()
        try:
            returned.append(call())
        except BaseException as exc:
            raised.append(exc)

    # A daemon: a call that never returns from a broken port fails the test, and must not keep the process.
    thread = threading.Thread(target=run, name="loopcore conformance", daemon=True)
    thread.start()
    gate.set()
    try:
        yield returned
    finally:
        thread.join()
        if raised:
            raise raised[0]


@contextmanager
def switching_often() -> Iterator[None]:
    """Let the interpreter switch between threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextmanager
def collected_inside(call: Callable[[], object], allocations: int) -> Iterator[None]:
    """Let a finalizer make `call` inside the body, after about that many allocations, or else at its end.

    Before Python 3.12 the collector runs inside an allocation, later between two instructions. An exception from `call`
    is raised here, where Python would only print it.
    """
    if not hasattr(gc, "set_threshold"):
        pytest.skip("has no collector that can be hurried")
    raised: list[BaseException] = []

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            try:
                call()
            except BaseException as exc:
                raised.append(exc)

    was_enabled, thresholds = gc.isenabled(), gc.get_threshold()
    gc.disable()
    gc.collect(0)  # only the youngest generation, here and below: a test session has many other objects
    Cycle()
    gc.set_threshold(allocations, 100_000, 100_000)
    gc.enable()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.collect(0)
        if not was_enabled:
            gc.disable()
    if raised:
        raise raised[0]
