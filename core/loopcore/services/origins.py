"""Origins of coroutines: while a loop in debug mode runs, the interpreter records where each coroutine was created.

The depth of these records is a setting of the thread, so its previous value is restored when the loop stops.
"""

import sys

DEPTH = 10
"""Frames recorded of the place where a coroutine was created; the number is asyncio's."""


class CoroutineOrigins:
    """The tracking of one loop, on or off. Thread: the loop's own."""

    __slots__ = ("_depth_before",)

    def __init__(self) -> None:
        self._depth_before: int | None = None

    def track(self, enabled: bool) -> None:
        """Turn tracking on, or off, which restores the previous setting; without effect if it is already so."""
        if bool(enabled) == (self._depth_before is not None):
            return
        if enabled:
            self._depth_before = sys.get_coroutine_origin_tracking_depth()
            sys.set_coroutine_origin_tracking_depth(DEPTH)
        elif self._depth_before is not None:
            sys.set_coroutine_origin_tracking_depth(self._depth_before)
            self._depth_before = None
