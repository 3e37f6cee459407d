"""WriteControl: whether a transport accepts more data, and the calls of `drain` that wait until it does.

Thread: the loop's own.
"""

import asyncio

from loopcore.log import logger


class WriteControl:
    """The part of a stream's protocol in which the transport pauses and resumes writing."""

    __slots__ = ("_loop", "_paused", "_connection_lost", "_drain_waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop: asyncio.AbstractEventLoop = asyncio.get_event_loop() if loop is None else loop
        self._paused: bool = False
        self._connection_lost: bool = False
        # Most connections are never paused, so the list is created for the first call that has to wait.
        self._drain_waiters: list[asyncio.Future[None]] | None = None

    def pause_writing(self) -> None:
        """Make `drain` wait from now on."""
        assert not self._paused
        self._paused = True
        if self._loop.get_debug():
            logger.debug("%r pauses writing", self)

    def resume_writing(self) -> None:
        """End the waiting calls of `drain`."""
        assert self._paused
        self._paused = False
        if self._loop.get_debug():
            logger.debug("%r resumes writing", self)
        self._end_waiting(None)

    def _lose_connection(self, exc: BaseException | None) -> None:
        """End the waiting calls of `drain`, with `exc` if there is one, and make later ones fail."""
        self._connection_lost = True
        if self._paused:
            self._end_waiting(exc)

    def _end_waiting(self, exc: BaseException | None) -> None:
        for waiter in self._drain_waiters or ():
            if waiter.done():
                continue
            if exc is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(exc)

    def _begin_waiting(self) -> "asyncio.Future[None] | None":
        """Return a future for one call of `drain`; None if there is nothing to wait for."""
        if self._connection_lost:
            raise ConnectionResetError("Connection lost")
        if not self._paused:
            return None
        waiter = self._loop.create_future()
        if self._drain_waiters is None:
            self._drain_waiters = []
        self._drain_waiters.append(waiter)
        return waiter

    def _leave_waiting(self, waiter: "asyncio.Future[None]") -> None:
        if self._drain_waiters is not None:
            self._drain_waiters.remove(waiter)

    async def _drain_helper(self) -> None:
        """Awaited by asyncio's StreamWriter if a program puts one over this protocol."""
        waiter = self._begin_waiting()
        if waiter is not None:
            try:
                await waiter
            finally:
                self._leave_waiting(waiter)
