"""LoopBinding: takes the place of a lock for an object that belongs to one event loop, and refuses every other loop.

Without it, a task that waits in one loop and is woken in another loop's thread would hang: its loop sleeps, because it
was not woken itself. asyncio's locks and queues check only when they have to wait. A binding checks every use, so a
wrong program fails at its first run, and not only under load.
"""

import sys
from asyncio import AbstractEventLoop, _get_running_loop
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_running_loop = _get_running_loop
_OWN = ("loopcore.", "asyncio.")


class LoopBinding:
    """The loop of an object, from the first use by a running loop on, and the place of that use.

    Entered like a lock, it locks nothing. A use without a running loop is allowed while the object's loop does not run:
    nothing waits for a wake-up then. When the loop is closed, the next one takes its place.
    """

    __slots__ = ("_what", "_remedy", "_loop", "_place")

    def __init__(self, what: str, remedy: str) -> None:
        self._what: str = what
        """What the object is called in an error."""
        self._remedy: str = remedy
        """What to do about the error."""
        self._loop: AbstractEventLoop | None = None
        self._place: str = ""

    def check(self) -> None:
        """Raise RuntimeError, with both places, if the object belongs to another loop; bind it if it has none yet."""
        loop = _running_loop()
        if loop is not self._loop:
            self._meet(loop)

    def release(self, function: "Callable[[], object]") -> None:
        """Call `function`, which releases what a closed coroutine held; if the object's loop runs elsewhere, there.

        That loop forgets it if it is closed before its next tick.
        """
        bound = self._loop
        if bound is not None and bound is not _running_loop() and bound.is_running():
            try:
                bound.call_soon_threadsafe(function)
                return
            except RuntimeError:  # the loop was closed
                pass
        function()

    def __enter__(self) -> None:
        self.check()

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        pass

    def _meet(self, loop: "AbstractEventLoop | None") -> None:
        bound = self._loop
        if loop is None:
            if bound.is_running():  # type: ignore[union-attr]  # not None: `loop` is, and the two differ
                self._refuse("without a running loop")
        elif bound is None or bound.is_closed():
            self._loop = loop
            self._place = caller()
        else:
            self._refuse(f"in {loop!r}")

    def _refuse(self, where: str) -> NoReturn:
        raise RuntimeError(
            f"this {self._what} belongs to another event loop: {self._loop!r} first used it at {self._place}, "
            f"and it is now used at {caller()}, {where}; {self._remedy}"
        )


def caller() -> str:
    """Return `file:line` of the innermost frame that is neither loopcore's nor asyncio's."""
    frame: "FrameType" = sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_OWN):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
