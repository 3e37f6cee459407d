"""Delivery: the outcome of a job, on its way from the thread that ran it to the future that the loop waits for.

What `asyncio.wrap_future` does, in fewer steps: a cancelled future calls its job off, and what the job comes to is
copied in the loop's thread. `concurrent.futures` is left as it is: each question to its future takes a lock there.

Thread: as each method says.
"""

import asyncio
import concurrent.futures
from collections.abc import Callable
from concurrent.futures import CancelledError
from concurrent.futures import Future as PoolFuture
from typing import Any, Protocol

_CONVERTED: dict[type[BaseException], type[BaseException]] = {
    CancelledError: asyncio.CancelledError,
    concurrent.futures.InvalidStateError: asyncio.InvalidStateError,
}
"""Errors of pools that asyncio has under the same name."""


class DeliveryHost(Protocol):
    """What a delivery needs of a loop."""

    def create_future(self) -> asyncio.Future[Any]: ...

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> object: ...

    def is_closed(self) -> bool: ...


class Delivery:
    """One job's; made by `bring`."""

    __slots__ = ("_host", "_source", "_destination", "_jobs")

    def __init__(
        self, host: DeliveryHost, source: "PoolFuture[Any]", jobs: "dict[PoolFuture[Any], Any] | None"
    ) -> None:
        self._host: DeliveryHost = host
        # None once its outcome is on the way: the source keeps its callbacks, and so this.
        self._source: PoolFuture[Any] | None = source
        self._destination: asyncio.Future[Any] = host.create_future()
        self._jobs: dict[PoolFuture[Any], Any] | None = jobs

    def post(self, source: "PoolFuture[Any]") -> None:
        """Have the outcome fetched: the job is done. Thread: the pool's, or whoever cancels."""
        self._source = None
        if self._jobs is not None:  # futures of strange pools need not have a hash
            self._jobs.pop(source, None)
        if self._host.is_closed():
            return
        try:
            self._host.call_soon_threadsafe(self.deliver, source)
        except RuntimeError:
            # The loop was closed between the question and the call: nobody waits any more.
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

    def call_off(self, destination: "asyncio.Future[Any]") -> None:
        """Cancel the job if it is the future that was cancelled. Thread: the loop's own."""
        source = self._source
        if source is not None and destination.cancelled():
            source.cancel()


def bring(
    host: DeliveryHost, source: "PoolFuture[Any]", jobs: "dict[PoolFuture[Any], Any] | None"
) -> "asyncio.Future[Any]":
    """Return a future of `host` that becomes what `source` becomes, which then leaves `jobs`, if there are any."""
    delivery = Delivery(host, source, jobs)
    destination = delivery._destination
    destination.add_done_callback(delivery.call_off)
    source.add_done_callback(delivery.post)
    return destination
