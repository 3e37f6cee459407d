"""The end of a simulated host's loop: nothing of it is left, and nobody is told of what was still open."""

import asyncio
import warnings
from contextlib import suppress
from typing import Any


def end_loop(loop: Any) -> None:
    """Throw the tasks and transports of `loop` away, and close it.

    The simulation is over: what `finally` blocks still do, and raise, is no part of it.
    """
    loop.set_exception_handler(lambda loop, context: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with suppress(BaseException):
                task.get_coro().close()  # type: ignore[union-attr]
        for transport in loop._transports.values():
            with suppress(OSError):  # the program has closed its descriptor
                transport._let_go()
        with suppress(BaseException):
            loop.close()
