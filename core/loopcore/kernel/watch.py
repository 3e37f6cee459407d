"""The tick's extra work while it is observed: by debug mode, or by a plugin with hot hooks.

Separate from the tick itself, which runs the same instructions as if this module did not exist.
"""

import asyncio
from typing import TYPE_CHECKING

from loopcore.kernel.handle import Handle
from loopcore.kernel.runnable import Runnable, run
from loopcore.log import logger, own_logger

if TYPE_CHECKING:
    from loopcore.kernel.dispatch import Dispatcher
    from loopcore.kernel.queues import Queues


def announce_handle(queues: "Queues", handle: Handle, source: str) -> None:
    """Report to plugins that `handle` was scheduled, and the task that it wakes, if any."""
    queues.probes.fire("loopcore_handle_scheduled", queues, handle, source)
    callback = handle._callback
    try:
        is_wakeup = getattr(callback, "__name__", "") == "_wakeup"
    except Exception:  # a proxy that raises on every attribute access; it may be callable all the same
        is_wakeup = False
    if is_wakeup:
        # A future that is not loopcore's (asyncio.gather's, for example) wakes a loopcore task.
        task = getattr(callback, "__self__", None)
        if hasattr(task, "_announce_woken"):
            task._announce_woken(*handle._args)  # type: ignore[union-attr, misc]


def run_watched(reactor: "Dispatcher", runnable: Runnable) -> None:
    """Run `runnable` between its hooks; in debug mode, report it if it took long."""
    if isinstance(runnable, Handle) and runnable.cancelled():
        return  # skipped silently
    announced = reactor.watching
    what = "task_step" if hasattr(runnable, "get_coro") else "handle"
    shown = runnable._as_seen()
    if announced:
        reactor.probes.fire(f"loopcore_{what}_begin", reactor, shown)
    before, reactor._current_handle = reactor._current_handle, shown
    begin = reactor.time()
    try:
        run(runnable)
    finally:
        reactor._current_handle = before
        if announced:
            reactor.probes.fire(f"loopcore_{what}_end", reactor, shown)
    seconds = reactor.time() - begin
    if reactor.get_debug() and seconds >= reactor.slow_callback_duration:
        logger.warning("Executing %s took %.3f seconds", _describe(shown), seconds)
        reactor.probes.cold("loopcore_slow_callback", loop=reactor, runnable=shown, seconds=seconds)
    del runnable, shown  # a live traceback would pin this frame, and through it the callback


def _describe(shown: Runnable) -> str:
    """Return the name of a callback for asyncio's warning: its handle, or the task whose step it is."""
    try:
        owner = getattr(getattr(shown, "_callback", None), "__self__", None)
        is_step = isinstance(owner, asyncio.Task)
    except Exception:  # a proxy that raises on every attribute access
        is_step = False
    return repr(owner if is_step else shown)


def report_starvation(reactor: "Dispatcher") -> None:
    """Report to plugins that the microtask queues used up their budget; log a warning the first time."""
    left = len(reactor.microtasks)
    if reactor.starvations == 1:
        own_logger.warning(
            "next_tick or queue_microtask ran %d callbacks in a row and %d wait; others go first now. "
            "Further cases are counted in loop.starvations.",
            reactor.microtasks.budget,
            left,
        )
    reactor.probes.cold("loopcore_starvation", loop=reactor, left=left)
