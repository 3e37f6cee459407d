"""The inbox: callbacks from other threads and from signal handlers.

Other threads append, the loop's thread drains, and the backend is woken once per batch, not once per callback: a poster
that finds the flag clear sets it and wakes the loop; the loop clears it *before* it drains, so a callback that arrives
meanwhile wakes the loop again. A wake too many is harmless, a wake too few would hang.

The inbox needs no lock: `deque.append` and `deque.popleft` are atomic (without the GIL the deque has a lock),
and the flag is read and written in one order with them: if a poster appends and then finds the flag set, the loop sees
its callback after it clears the flag.
"""

from collections import deque
from collections.abc import Callable
from time import sleep

from loopcore.kernel.handle import Handle
from loopcore.kernel.limits import POSTS_BEFORE_YIELD, YIELD_SECONDS
from loopcore.kernel.ready import ReadyQueue

_POSTS_BEFORE_YIELD = POSTS_BEFORE_YIELD  # compiled, a C integer


class Inbox:
    """A queue with many writers and one reader."""

    __slots__ = ("_handles", "_append", "_popleft", "_wake", "_woken", "_posts_since_wake", "_wakes")

    def __init__(self, wake: Callable[[], None]) -> None:
        self._handles: deque[Handle] = deque()
        self._append: Callable[[Handle], None] = self._handles.append
        self._popleft: Callable[[], Handle] = self._handles.popleft
        self._wake: Callable[[], None] = wake
        self._woken: bool = False
        """Set while there may be callbacks that the loop has not seen; the loop needs to check only this flag."""
        self._posts_since_wake: int = 0
        """Roughly, the posts since the flag was set: threads that count at the same time may lose some."""
        self._wakes: int = 0

    def __len__(self) -> int:
        return len(self._handles)

    @property
    def wakes(self) -> int:
        """How often the backend was woken; about once per batch."""
        return self._wakes

    def post(self, handle: Handle, running: bool) -> None:
        """Append `handle`, and wake the loop, unless it was woken since it last drained.

        If the loop is `running`, yield the GIL to it after every POSTS_BEFORE_YIELD posts that it has not seen yet
        (docs/adr/0014). Thread: any; also from a signal handler.
        """
        self._append(handle)
        if self._woken:
            self._posts_since_wake += 1
            if running and self._posts_since_wake & (_POSTS_BEFORE_YIELD - 1) == 0:
                sleep(YIELD_SECONDS)
        else:
            self._woken = True
            self._posts_since_wake = 1
            self._wakes += 1
            try:
                self._wake()
            except BaseException:
                self._wake()  # it may have been interrupted before the wake: no other post wakes while the flag is set
                raise

    def interrupt(self) -> None:
        """Wake the loop without posting a callback. Thread: any; also from a signal handler."""
        self._wake()

    def use(self, wake: Callable[[], None]) -> None:
        """Wake another backend from now on; the previous one is closed."""
        self._wake = wake
        self._woken = True  # another thread may be posting; a drain that finds nothing is harmless

    def drain_into(self, ready: ReadyQueue) -> int:
        """Push the posted callbacks on the ready queue, in order; return their number. Thread: the loop's own."""
        self._woken = False
        count = len(self._handles)
        handle = None
        try:
            for _ in range(count):
                handle = self._popleft()
                ready.push(handle)
        except BaseException as exc:
            if isinstance(exc, MemoryError) and handle is not None:
                self._handles.appendleft(handle)
            self._woken = True  # for the callbacks that are left
            raise
        return count

    def discard(self) -> None:
        """Cancel the posted callbacks, for a closed loop, which will not drain them. Thread: any, several at a time."""
        while True:
            try:
                handle = self._popleft()
            except IndexError:
                return
            handle.cancel()
