"""The inbox: callbacks from other threads and from signal handlers.

Other threads append, the loop's thread empties, and the backend is woken once a batch, not once a
callback: whoever finds the flag down raises it and wakes; the loop lowers it *before* it empties, so a
callback that comes in meanwhile wakes again. A wake too many is harmless, a wake too few would hang.

Compiled and with the GIL, a loop that runs has them put on its ready queue at once (docs/adr/0014), unless some wait
here already, which must not be overtaken. Flag and order are the same: first the queue, then the flag.

Safe without a lock: `deque.append` and `deque.popleft` are atomic, on free-threaded builds too, where each is a full
barrier besides: who appends and then finds the flag up has been seen by whoever lowered it.
"""

from collections import deque
from collections.abc import Callable
from time import sleep

from loopcore.kernel.handle import Handle
from loopcore.kernel.limits import POSTS_BEFORE_YIELD, YIELD_SECONDS
from loopcore.kernel.ready import ReadyQueue

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.native.tracking import UNTRACKS, track

_POSTS_BEFORE_YIELD = POSTS_BEFORE_YIELD  # compiled, a number of C


class Inbox:
    """A queue with many writers and one reader."""

    __slots__ = ("_handles", "_append", "_popleft", "_wake", "_woken", "_draining", "_posts_since_wake", "wakes")

    def __init__(self, wake: Callable[[], None]) -> None:
        self._handles: deque[Handle] = deque()
        self._append: Callable[[Handle], None] = self._handles.append
        self._popleft: Callable[[], Handle] = self._handles.popleft
        self._wake: Callable[[], None] = wake
        self._woken: bool = False
        """Up while there may be something that the loop has not heard of; it need not look at anything else."""
        self._draining: bool = False
        """Up while `drain_into` is at work: what it has in hand is in neither queue."""
        self._posts_since_wake: int = 0
        """How many have come since the flag was raised, about: threads that count at the same time may lose some."""
        self.wakes: int = 0
        """How often the backend was woken; at most once a batch."""

    def __len__(self) -> int:
        return len(self._handles)

    def post(self, handle: Handle, running: bool) -> None:
        """Leave `handle` for the loop, and `tell`. Thread: any; also from a signal handler."""
        self._append(handle)
        self.tell(running)

    def is_clear(self) -> bool:
        """Tell whether nothing waits here that could be overtaken. Thread: any that holds the GIL."""
        return not self._draining and len(self._handles) == 0

    def tell(self, running: bool) -> None:
        """Wake the loop, if it has not been since it looked last. Thread: any; also from a signal handler.

        If it is `running`, let it have the GIL each time that `_POSTS_BEFORE_YIELD` more have come that it has not
        heard of (docs/adr/0014).
        """
        if self._woken:
            self._posts_since_wake += 1
            if running and self._posts_since_wake & (_POSTS_BEFORE_YIELD - 1) == 0:
                sleep(YIELD_SECONDS)
        else:
            self._woken = True
            self._posts_since_wake = 1
            self.wakes += 1
            try:
                self._wake()
            except BaseException:
                self._wake()  # an interrupt may have come before it: nobody wakes again while the flag is up
                raise

    def interrupt(self) -> None:
        """Wake the loop without leaving anything. Thread: any; also from a signal handler."""
        self._wake()

    def use(self, wake: Callable[[], None]) -> None:
        """Wake another backend from now on; the one before is closed."""
        self._wake = wake
        self._woken = len(self._handles) > 0

    def take(self) -> list[Handle]:
        """Return what has come in, in order. Thread: the loop's own."""
        self._woken = False
        batch: list[Handle] = []
        for _ in range(len(self._handles)):  # no more: others may post faster than this takes
            handle = self._popleft()
            if cython.compiled:
                track(handle)
            batch.append(handle)
        return batch

    def drain_into(self, ready: ReadyQueue) -> int:
        """Put what has come in on the ready queue, in order; return how much it was. Thread: the loop's own."""
        self._woken = False
        count = len(self._handles)
        self._draining = True
        try:
            for _ in range(count):
                ready.push(self._popleft())
        except BaseException:
            self._woken = True  # for what is left
            raise
        finally:
            self._draining = False
        return count

    def track_all(self) -> None:
        """Tell the collector of every handle that is in here: nothing else keeps it now. Compiled only."""
        if UNTRACKS:
            handles = list(self._handles)  # in one step: who posts holds the GIL
            for handle in handles:
                track(handle)

    def discard(self) -> None:
        """Cancel what has come in, for a loop that is closed and will fetch nothing. Thread: any, several at a time."""
        while self._handles:
            try:
                handle = self._popleft()
            except IndexError:
                return  # another thread was first
            handle.cancel()
