"""The entry points: a new loop, a runner around it, `run`, and the loop that runs.

`Runner` is asyncio's own, on loopcore's loops. The running Python decides how tasks are cancelled, how generators and
the executor are shut down, and how Ctrl-C becomes the cancellation of the main task.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextvars import Context
from functools import partial
from typing import Any, TypeAlias, TypeVar

from loopcore.loop import EventLoop
from loopcore.ports.completion import Backend

T = TypeVar("T")

LoopFactory: TypeAlias = Callable[[], asyncio.AbstractEventLoop]
BackendChoice: TypeAlias = Backend | str | None
"""A backend, the name of one, or several names in order of preference."""


def new_event_loop(backend: BackendChoice = None, *, plugins: str | Iterable[str | object] | None = None) -> EventLoop:
    """Return a new loop; the caller closes it.

    `backend` is a name, several names in order of preference ("epoll,poll"), or a backend, which the loop closes
    when it closes. None means LOOPCORE_BACKEND, else the best one on this platform. `plugins` are objects with
    hooks, or names of installed plugins with their options ("metrics:port=9100"; one string may hold several).
    None means LOOPCORE_PLUGINS.
    Raises UsageError for unknown names and wrong options, BackendUnavailableError for a backend that cannot run here.
    """
    return EventLoop(backend, plugins=plugins)


def get_running_loop() -> EventLoop:
    """Return the loop that runs in this thread, as `asyncio.get_running_loop` does, with the type of loopcore's loops.

    Raises RuntimeError if no loop runs in this thread, or if the running one is not loopcore's.
    """
    loop = asyncio.get_running_loop()
    if isinstance(loop, EventLoop):
        return loop
    raise RuntimeError(
        f"the running loop {loop!r} is not loopcore's: use loopcore.run(), "
        "or asyncio.Runner(loop_factory=loopcore.new_event_loop)"
    )


class Runner(asyncio.Runner):  # type: ignore[misc]  # final in typeshed only
    """asyncio.Runner on loopcore's loops. `loop_factory` replaces `backend` and `plugins`."""

    def __init__(
        self,
        *,
        backend: BackendChoice = None,
        debug: bool | None = None,
        plugins: str | Iterable[str | object] | None = None,
        loop_factory: LoopFactory | None = None,
    ) -> None:
        if loop_factory is None:
            loop_factory = partial(new_event_loop, backend, plugins=plugins)
        elif backend is not None or plugins is not None:
            raise TypeError("backend and plugins belong to loopcore's own loop factory; pass them or loop_factory")
        super().__init__(debug=debug, loop_factory=loop_factory)

    def run(self, coro: Awaitable[T], *, context: Context | None = None) -> T:
        """Run `coro` until it is done and return its result. Accepts any awaitable, as asyncio does since 3.14."""
        return super().run(as_coroutine(coro), context=context)


def run(
    main: Awaitable[T],
    *,
    backend: BackendChoice = None,
    debug: bool | None = None,
    plugins: str | Iterable[str | object] | None = None,
    loop_factory: LoopFactory | None = None,
) -> T:
    """Run `main` on a new loop and return its result: `asyncio.run`, on a chosen backend.

    See `new_event_loop` for `backend` and `plugins`, `asyncio.run` for the rest. Raises TypeError if `main` is not
    awaitable, RuntimeError if a loop is running in this thread.
    """
    if asyncio.events._get_running_loop() is not None:
        # Before anything is created that would have to be closed again.
        raise RuntimeError("loopcore.run() cannot be called from a running event loop")
    coroutine = as_coroutine(main)
    with Runner(backend=backend, debug=debug, plugins=plugins, loop_factory=loop_factory) as runner:
        return runner.run(coroutine)


def as_coroutine(main: Awaitable[T]) -> Coroutine[Any, Any, T]:
    """Return `main` if it is a coroutine, or a coroutine that awaits it. Raises TypeError if it is not awaitable."""
    if asyncio.iscoroutine(main):
        return main
    if inspect.isawaitable(main):
        return _await(main)
    if inspect.iscoroutinefunction(main):
        name = getattr(main, "__name__", "main")
        raise TypeError(f"a coroutine was expected, got the coroutine function {name!r}: call it, as in {name}()")
    raise TypeError(f"a coroutine or another awaitable was expected, got {main!r}")


async def _await(awaitable: Awaitable[T]) -> T:
    return await awaitable
