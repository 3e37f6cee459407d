"""loopcore: an asyncio event loop that can be taken apart.

    loopcore.run(main())                                       instead of asyncio.run
    loopcore.run(main(), backend="poll", plugins=["trace"])    with a chosen backend and plugins
    asyncio.Runner(loop_factory=loopcore.new_event_loop)       wherever a loop factory is accepted

The names exported here are public; everything else may change between versions. (PYTEST_DONT_REWRITE)
"""

from typing import TYPE_CHECKING, Any

from loopcore.errors import (
    BackendClosedError,
    BackendError,
    BackendUnavailableError,
    LoopcoreError,
    UsageError,
)
from loopcore.hooks.types import ReadyOrder, TickBudget
from loopcore.kernel.histogram import Histogram, HistogramSnapshot
from loopcore.kernel.loop_stats import LoopStatsSnapshot
from loopcore.kernel.meter import Measurements, Meter
from loopcore.kernel.visible import IN_USE
from loopcore.loop import EventLoop
from loopcore.policy import EventLoopPolicy, install
from loopcore.ports.completion import CompletionBackend
from loopcore.ports.readiness import BACKEND_API, Capability, ProbeResult, ReadinessBackend
from loopcore.runner import Runner, new_event_loop, run
from loopcore.selection.discovery import (
    Extension,
    list_backends,
    list_plugins,
    register_backend,
    unregister_backend,
)
from loopcore.version import __version__ as __version__

if TYPE_CHECKING:
    # `isinstance` takes loopcore's futures, tasks and handles for asyncio's, and so do type checkers (docs/adr/0007).
    from asyncio import Future, Handle, Task, TimerHandle

    from loopcore import files, sync
    from loopcore.group import LoopGroup, Member
    from loopcore.hooks.specs import hookimpl
    from loopcore.streams import (
        StreamReader,
        StreamReaderProtocol,
        StreamWriter,
        open_connection,
        open_unix_connection,
        start_server,
        start_unix_server,
    )
else:
    from loopcore.kernel.future import Future
    from loopcore.kernel.handle import Handle, TimerHandle

    if IN_USE:
        from loopcore.kernel.visible import Task
    else:
        from loopcore.kernel.task import Task

__all__ = [
    "BACKEND_API",
    "BackendClosedError",
    "BackendError",
    "BackendUnavailableError",
    "Capability",
    "CompletionBackend",
    "EventLoop",
    "EventLoopPolicy",
    "Extension",
    "Future",
    "Handle",
    "Histogram",
    "HistogramSnapshot",
    "LoopGroup",
    "LoopStatsSnapshot",
    "LoopcoreError",
    "Measurements",
    "Member",
    "Meter",
    "ProbeResult",
    "ReadinessBackend",
    "ReadyOrder",
    "Runner",
    "StreamReader",
    "StreamReaderProtocol",
    "StreamWriter",
    "Task",
    "TickBudget",
    "TimerHandle",
    "UsageError",
    "files",
    "hookimpl",
    "install",
    "list_backends",
    "list_plugins",
    "new_event_loop",
    "open_connection",
    "open_unix_connection",
    "register_backend",
    "run",
    "start_server",
    "start_unix_server",
    "sync",
    "unregister_backend",
]

_OF_STREAMS = frozenset(name for name in __all__ if name.startswith(("Stream", "open_", "start_")))


def __getattr__(name: str) -> Any:
    # Imported on first use: most programs need none of them.
    if name in ("files", "sync"):
        import importlib

        return importlib.import_module(f"loopcore.{name}")
    if name in ("LoopGroup", "Member"):
        from loopcore import group

        return getattr(group, name)
    if name == "hookimpl":
        from loopcore.hooks.specs import hookimpl

        return hookimpl
    if name in _OF_STREAMS:
        from loopcore import streams

        return getattr(streams, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})  # also the names that are imported on first use
