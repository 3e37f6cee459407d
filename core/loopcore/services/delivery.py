"""Delivery: passes the outcome of a job from the thread that ran it to the future that the loop waits for.

It does the work of `asyncio.wrap_future` in fewer steps: cancelling the future cancels its job, and the job's outcome
is copied in the loop's thread. `concurrent.futures` itself is unchanged: each query of its future takes a lock.

Thread: as each method says.
"""

import asyncio
import concurrent.futures
from collections.abc import Callable
from concurrent.futures import CancelledError
from concurrent.futures import Future as PoolFuture
from typing import Any

_CONVERTED: dict[type[BaseException], type[BaseException]] = {
    CancelledError: asyncio.CancelledError,
    concurrent.futures.InvalidStateError: asyncio.InvalidStateError,
}
"""Exceptions of pools for which asyncio has a class of the same name."""


class Delivery:
    """The delivery of one job's outcome; made by `wrap_pool_future`."""

    __slots__ = ("_host", "_source", "_destination", "_jobs")

    def __init__(
        self,
        host: asyncio.AbstractEventLoop,
        source: "PoolFuture[Any]",
        jobs: "dict[PoolFuture[Any], Callable[..., Any]] | None",
    ) -> None:
        self._host: asyncio.AbstractEventLoop = host
        # None once the outcome is on its way: the source keeps its callbacks, and so this object.
        self._source: PoolFuture[Any] | None = source
        self._destination: asyncio.Future[Any] = host.create_future()
        self._jobs: dict[PoolFuture[Any], Callable[..., Any]] | None = jobs

    def post(self, source: "PoolFuture[Any]") -> None:
        """Schedule `deliver`: the job is done. Thread: the pool's, or the one that cancels the job."""
        self._source = None
        if self._jobs is not None:  # futures of other pools need not have a hash
            self._jobs.pop(source, None)
        try:
            self._host.call_soon_threadsafe(self.deliver, source)
        except RuntimeError:
            # The loop was closed: the future has no waiters any more.
            if not self._host.is_closed():
                raise

    def deliver(self, source: "PoolFuture[Any]") -> None:
        """Copy the outcome of `source`. Thread: the loop's own."""
        destination = self._destination
        if destination.cancelled():
            return
        try:
            error = source.exception()
        except CancelledError:
            destination.cancel()
            return
        if error is None:
            destination.set_result(source.result())
        else:
            kind = _CONVERTED.get(type(error))
            destination.set_exception(error if kind is None else kind(*error.args).with_traceback(error.__traceback__))

    def cancel_job(self, destination: "asyncio.Future[Any]") -> None:
        """Cancel the job if the future was cancelled. Thread: the loop's own."""
        source = self._source
        if source is not None and destination.cancelled():
            source.cancel()


def wrap_pool_future(
    host: asyncio.AbstractEventLoop, source: "PoolFuture[Any]", jobs: "dict[PoolFuture[Any], Callable[..., Any]] | None"
) -> "asyncio.Future[Any]":
    """Return a future of `host` that gets the outcome of `source`; `source` is then removed from `jobs`, if given."""
    delivery = Delivery(host, source, jobs)
    destination = delivery._destination
    destination.add_done_callback(delivery.cancel_job)
    source.add_done_callback(delivery.post)
    return destination
