"""Asynchronous generators: the interpreter's hooks that report them to a loop, and their end with the loop.

A generator that is dropped half-way still has `finally` blocks, which may await: the interpreter passes it to
the loop, which runs its `aclose()` as a task. Those still alive when the program ends are closed by `shutdown`.
"""

import asyncio
import sys
import warnings
import weakref
from collections.abc import AsyncGenerator
from typing import Any


class AsyncGenerators:
    """The generators that have been iterated by one loop. Thread: the loop's own, except `_dropped`."""

    __slots__ = ("_alive", "_host", "_previous_hooks", "_shutdown_called")

    def __init__(self, host: asyncio.AbstractEventLoop) -> None:
        self._host = host
        self._alive: weakref.WeakSet[AsyncGenerator[Any, Any]] | None = None  # until the first generator
        self._previous_hooks: sys._asyncgen_hooks | None = None
        self._shutdown_called = False

    def install(self) -> None:
        """Track the generators that this thread starts to iterate, until `restore`."""
        self._previous_hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(self._started, self._dropped)

    def restore(self) -> None:
        """Restore the hooks that were set before `install`."""
        if self._previous_hooks is not None:
            sys.set_asyncgen_hooks(*self._previous_hooks)
            self._previous_hooks = None

    async def shutdown(self) -> None:
        """Close all live generators, and report those whose closing fails. Later ones cause a warning."""
        self._shutdown_called = True
        if not self._alive:
            return
        closing = list(self._alive)
        self._alive.clear()
        outcomes = await asyncio.gather(*[generator.aclose() for generator in closing], return_exceptions=True)
        for outcome, generator in zip(outcomes, closing, strict=True):
            if isinstance(outcome, Exception):
                self._host.call_exception_handler(
                    {
                        "message": f"an error occurred during closing of asynchronous generator {generator!r}",
                        "exception": outcome,
                        "asyncgen": generator,
                    }
                )

    def _started(self, generator: AsyncGenerator[Any, Any]) -> None:
        if self._shutdown_called:
            warnings.warn(
                f"asynchronous generator {generator!r} was scheduled after loop.shutdown_asyncgens() call",
                ResourceWarning,
                source=self._host,
                stacklevel=2,
            )
        if self._alive is None:
            self._alive = weakref.WeakSet()
        self._alive.add(generator)

    def _dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        # Thread: the one that drops the last reference; hence call_soon_threadsafe.
        if self._alive is not None:  # always the case: `_started` has seen this generator
            self._alive.discard(generator)
        if not self._host.is_closed():
            self._host.call_soon_threadsafe(self._host.create_task, generator.aclose())
