"""The end of a simulated host's loop: nothing of it is left, and nobody is told of what was still open."""

import asyncio
import warnings
from contextlib import suppress
from typing import Any


def end_loop(loop: Any) -> None:
    """Abort the transports of `loop`, throw its tasks away, and close it.

    The simulation is over: what `finally` blocks and protocols still do, and raise, is no part of it.
    """
    loop.set_exception_handler(lambda loop, context: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with suppress(BaseException):
                task.get_coro().close()  # type: ignore[union-attr]
        for transport in loop._transports.values():
            with suppress(BaseException):
                transport.abort()
        with suppress(BaseException):
            loop.process_ready()
        with suppress(BaseException):
            loop.close()
